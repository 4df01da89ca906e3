"""What the web process knows of the copilot's agents: sets, what is wrong with a definition, the prompt it would send.

The entry point brings it, as it brings the catalogue of monikers; nothing here imports or runs an agent. What it does
is work of the processor alone. It is bounded, but not short enough for the loop of the store: it is done in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from web.problems import refused

T = TypeVar("T")
P = ParamSpec("P")

#: the moniker whose sessions run these agents
COPILOT: Final = "copilot"
PATIENCE_S: Final = 2.0


class Mistake(Protocol):
    """What is wrong with a field of a definition, and what to write; an empty field is the definition itself."""

    @property
    def field(self) -> str: ...
    @property
    def message(self) -> str: ...


class ShippedSet(Protocol):
    """Agents that ship together. `advised` is the speaker whom they advise, `configs` their definitions."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def advised(self) -> str: ...
    @property
    def configs(self) -> Sequence[Mapping[str, Any]]: ...


class Draft(Protocol):
    """The messages that a model would be sent, or why there are none."""

    @property
    def messages(self) -> Sequence[Mapping[str, str]]: ...
    @property
    def problems(self) -> Sequence[Mistake]: ...


class Workshop(Protocol):
    """What can be asked about agents without running one."""

    def sets(self) -> Sequence[ShippedSet]:
        """The sets that ship, by name."""
        ...

    def problems(self, definition: Any) -> Sequence[Mistake]:
        """Every mistake of a definition; none for a good one. Never raises."""
        ...

    def doubts(self, definition: Any) -> Sequence[Mistake]:
        """What its author can hardly have meant, though it can run; none where there are mistakes. Never raises."""
        ...

    def preview(
        self, definition: Mapping[str, Any], session_id: str, config: Mapping[str, Any], state: Mapping[str, Any]
    ) -> Draft:
        """The prompt in a session, from its config and its newest state. Never raises for a definition."""
        ...


@dataclass(frozen=True, slots=True)
class _Nothing:
    messages: Sequence[Mapping[str, str]] = ()
    problems: Sequence[Mistake] = ()


class NoWorkshop:
    """Of a web process that knows no agents."""

    def sets(self) -> Sequence[ShippedSet]:
        return ()

    def problems(self, definition: Any) -> Sequence[Mistake]:
        return ()

    def doubts(self, definition: Any) -> Sequence[Mistake]:
        return ()

    def preview(
        self, definition: Mapping[str, Any], session_id: str, config: Mapping[str, Any], state: Mapping[str, Any]
    ) -> Draft:
        return _Nothing()


NO_WORKSHOP: Final = NoWorkshop()


async def in_time(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of work of the processor, while the loop serves others.

    Raises a 422 problem after `PATIENCE_S`; what it is about goes on in its thread until its own bound ends it.
    """
    try:
        return await asyncio.wait_for(asyncio.to_thread(partial(work, *args, **kwargs)), PATIENCE_S)
    except TimeoutError as error:
        said = f"it took longer than {PATIENCE_S:g} seconds and was given up; shorten the text, or its loops"
        raise refused(422, said, errors=[{"field": "definition", "message": said}]) from error
