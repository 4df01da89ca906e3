"""What a moniker is given as `ctx.memory`: episodes, facts and terms that outlive the session.

found = await ctx.memory.recall("how deep is the well?", kinds=(MemoryKind.FACT,))
prompt = found.for_prompt()          # data, whatever stands in it
await ctx.memory.remember("The well is 30 m deep.", source="a.md", taint=Taint.of("a.md"))
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Protocol

from pydantic import AwareDatetime

from runtime.guard.taint import CLEAN, Taint
from runtime.ports import FrozenModel, Json
from runtime.tools.escaping import wrap_as_data
from store.memories import MAX_TEXT_CHARS, MemoryKind

__all__ = [
    "FOR_AGENT",
    "MAX_TEXT_CHARS",
    "Bound",
    "Memory",
    "MemoryKind",
    "Recollection",
    "Recollections",
    "Taint",
]


class Bound(StrEnum):
    """Whom a memory is for. Bound in several directions, it is for those who are in all of them."""

    AGENT = "agent"  # sessions of this agent
    USER = "user"  # whoever works for this user; see `Memory.for_user`
    CONVERSATION = "conversation"  # sessions of this conversation


FOR_AGENT: frozenset[Bound] = frozenset({Bound.AGENT})


class Recollection(FrozenModel):
    """One memory that was found. `taint` names where the untrusted parts of it came from; () is clean."""

    memory_id: str
    kind: MemoryKind
    text: str
    #: better is higher; scores of two recalls cannot be compared
    score: float
    created_at: AwareDatetime
    session_id: str = ""
    subject: str = ""
    source: str = ""
    author: str = ""
    taint: tuple[str, ...] = ()
    data: Any = None

    def for_prompt(self) -> str:
        """The memory as a block of data; nothing in it can be read as structure."""
        about = f" about {self.subject}" if self.subject else ""
        source = f", from {self.source}" if self.source else ""
        tainted = ", not verified" if self.taint else ""
        return wrap_as_data(self.text, source=f"memory: {self.kind.value}{about}{source}{tainted}")


class Recollections(FrozenModel):
    """What a recall found, best first."""

    items: tuple[Recollection, ...] = ()
    #: "words" where no vectors could be compared
    searched: Literal["words", "words and vectors"] = "words"

    @property
    def taint(self) -> Taint:
        """The taint of whatever is made from these."""
        return CLEAN.joined(*(Taint.of(*item.taint) for item in self.items))

    def for_prompt(self) -> str:
        """All of them as blocks of data; "" when there are none."""
        return "\n".join(item.for_prompt() for item in self.items)


class Memory(Protocol):
    """The memory of one step. What it finds and what it writes is bound to the step's agent and conversation."""

    def for_user(self, user_id: str) -> Memory:
        """The same memory, which also finds what is bound to a user, and can bind to that user."""
        ...

    async def remember(
        self,
        text: str,
        kind: MemoryKind = MemoryKind.FACT,
        *,
        subject: str = "",
        source: str = "",
        data: Json | None = None,
        taint: Taint | None = None,
        bound_to: Collection[Bound] = FOR_AGENT,
        expires_in_s: float | None = None,
        key: str = "",
    ) -> str:
        """Keep `text`; returns the memory's id. A step that is run again writes it once.

        `taint` is of the text: `CLEAN` if you wrote it yourself, `Taint.of(source)` if it is from outside; left out it
        counts as tainted. What the session has recalled so far is added to it, so that nothing is laundered.
        `expires_in_s` is in seconds from now. Calls are told apart by their order, or by `key` where that may change.

        Raises `MonikerError` for a text that is blank or has over `MAX_TEXT_CHARS` characters, and for a binding to a
        user or a conversation where there is none.
        """
        ...

    async def recall(
        self,
        query: str,
        *,
        kinds: Sequence[MemoryKind] = (),
        subject: str = "",
        limit: int = 5,
        key: str = "",
    ) -> Recollections:
        """What answers `query` best, of what may be seen here. Several can run side by side.

        `query` is text and never a query language. With a model for vectors the nearest memories are found as well,
        however far they are. What was found once is found again when the step is repeated.
        """
        ...

    async def forget(self, *, memory_id: str = "", source: str = "", subject: str = "", key: str = "") -> int:
        """Delete what may be seen here and meets every condition given (at least one); returns how many.

        With `source` goes what was made from it too. It is off the disk within minutes, see docs/memory.md; what
        sessions did with it stands in their steps.
        """
        ...


def moment_of(now: datetime, expires_in_s: float | None, never: datetime) -> datetime:
    """When something expires that is kept for so many seconds; `never` for None, and for what ends after it."""
    if expires_in_s is None or expires_in_s > (never - now).total_seconds():
        return never
    return datetime.fromtimestamp(now.timestamp() + max(0.0, expires_in_s), tz=now.tzinfo)
