"""Which type of agent a session may be: the name under which tools are granted to it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from runtime.errors import RefusedError
from runtime.ports import MonikerInputError
from runtime.spec import SessionSpec


class KnownMonikers(Protocol):
    """The monikers by name."""

    def get(self, name: str) -> object:
        """The moniker; raises `MonikerInputError` for an unknown name."""
        ...


def check_agent_type(spec: SessionSpec, granted: Collection[str], monikers: KnownMonikers) -> None:
    """Raise `RefusedError` for a type that is not the session's to take.

    A session is of its moniker's own type, or of one that the operator's file grants tools to by name and that is no
    other moniker's: otherwise any session could take the tools that were meant for another moniker.
    """
    kind = spec.agent_type
    if kind is None or kind == spec.moniker:
        return
    if kind not in granted:
        known = ", ".join(sorted(granted)) or "none"
        raise RefusedError(
            f"there is no agent_type {kind!r}: leave it out, or name one that [grants] of STEPWELL_TOOLS has ({known})"
        )
    if _is_moniker(kind, monikers):
        raise RefusedError(f"agent_type {kind!r} is that of another moniker than {spec.moniker!r}: leave it out")


def _is_moniker(name: str, monikers: KnownMonikers) -> bool:
    try:
        monikers.get(name)
    except MonikerInputError:
        return False
    return True
