"""Insights that a person has to agree to before anybody is shown them.

The engine holds them and tells the host's port; the host puts the question to a person and brings the decision back
with `AgentEngine.decide`. What is held is lost with the process, unless the host keeps what `export_session` gives.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from monikers.copilot.models import AgentInsight

#: the oldest is forgotten beyond that many
MAX_HELD = 1_000


@dataclass(frozen=True, slots=True)
class HeldInsight:
    """An insight that waits for a person."""

    held_id: str
    session_id: str
    insight: AgentInsight


class ApprovalPort(Protocol):
    """How the host learns that a person has to be asked."""

    def ask(self, held: HeldInsight) -> None:
        """Take the question and return at once; it is answered by `AgentEngine.decide(held.held_id, agreed=...)`."""
        ...


class Holding:
    """The insights that wait, by id."""

    def __init__(self, most: int = MAX_HELD) -> None:
        self._most = most
        self._held: OrderedDict[str, HeldInsight] = OrderedDict()

    def hold(self, held: HeldInsight) -> None:
        """Keep an insight until it is decided about."""
        self._held[held.held_id] = held
        if len(self._held) > self._most:
            self._held.popitem(last=False)

    def take_up(self, session_id: str, waited: Iterable[HeldInsight]) -> None:
        """Hold of a session what waited before a restart, and nothing else. An id that another session's insight has is
        left out."""
        self.forget(session_id)
        for held in waited:
            if held.held_id not in self._held:
                self.hold(held)

    def take(self, held_id: str) -> HeldInsight | None:
        """Let go of an insight; None if it is not held, because it was decided about already or forgotten."""
        return self._held.pop(held_id, None)

    def of(self, session_id: str) -> list[HeldInsight]:
        """What waits in a session, oldest first."""
        return [held for held in self._held.values() if held.session_id == session_id]

    def forget(self, session_id: str) -> None:
        """Let go of all of a session."""
        for held in self.of(session_id):
            del self._held[held.held_id]
