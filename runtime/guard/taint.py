"""Taint: what came from outside stays marked, and gates the tools, however long ago it came in.

A classifier finds some injections; this does not look at the text at all. Once anything from outside is in a session's
context, tools that change or send something need a person (SECURITY S36), and so it is when the text comes back from
the memory thirty sessions later (S40).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Self, TypeVar

T = TypeVar("T")
R = TypeVar("R")

UNKNOWN = "unknown"
#: so many sources are told apart; beyond that it is only known that there are more
MAX_SOURCES = 20
MANY = "many"


@dataclass(frozen=True, slots=True)
class Taint:
    """Where the untrusted parts of something came from; no sources is clean. Only ever grows by `joined`."""

    sources: frozenset[str] = frozenset()

    @classmethod
    def of(cls, *sources: str) -> Self:
        """The taint of text from `sources`."""
        return cls(frozenset(sources))

    @classmethod
    def read(cls, stored: Any) -> Self:
        """A taint as `written` stored it. What is no such list, an old row's None too, counts as tainted."""
        if isinstance(stored, list) and all(isinstance(source, str) for source in stored):
            return cls(frozenset(stored))
        return cls(frozenset({UNKNOWN}))

    def written(self) -> list[str]:
        """The taint as JSON, to be stored beside what it is the taint of."""
        return sorted(self.sources)

    def bounded(self) -> list[str]:
        """As `written`, with at most `MAX_SOURCES` names and then `MANY`: a session's row does not grow without end."""
        named = sorted(self.sources - {MANY})
        return named if named == self.written() and len(named) <= MAX_SOURCES else [*named[:MAX_SOURCES], MANY]

    @property
    def tainted(self) -> bool:
        """Whether anything of it came from outside."""
        return bool(self.sources)

    def joined(self, *others: Taint) -> Taint:
        """The taint of what is made from this and `others`."""
        return Taint(self.sources.union(*(other.sources for other in others)))


CLEAN = Taint()


@dataclass(frozen=True, slots=True)
class Labelled(Generic[T]):
    """A value with its taint. There is no way to a new value but through `map` and `combine`, which keep it."""

    value: T
    taint: Taint = CLEAN

    def map(self, make: Callable[[T], R]) -> Labelled[R]:
        """What `make` gives for the value, as tainted as the value. A model's answer is made from its prompt."""
        return Labelled(make(self.value), self.taint)


def combine(make: Callable[[list[T]], R], parts: Iterable[Labelled[T]]) -> Labelled[R]:
    """What `make` gives for the values of `parts`, with all their taints."""
    given = list(parts)
    return Labelled(make([part.value for part in given]), CLEAN.joined(*(part.taint for part in given)))


@dataclass(frozen=True, slots=True)
class ToolFlags:
    """What a tool does. `reaches_out`: it may only read, but sends its arguments elsewhere (a fetch)."""

    name: str
    read_only: bool = False
    idempotent: bool = False
    needs_approval: bool = False
    reaches_out: bool = False

    @property
    def gated(self) -> bool:
        """Whether a tainted context may not call it alone. A tool of which nothing was said is gated."""
        return self.needs_approval or self.reaches_out or not self.read_only


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool, by a digest of its arguments: an approval is for exactly this and nothing else."""

    tool: str
    arguments_digest: str


class May(StrEnum):
    """The answer of the policy."""

    RUN = "run"
    ASK = "ask"


@dataclass(frozen=True, slots=True)
class Permission:
    """Whether a call may run, and why not, for the person who is asked."""

    may: May
    reason: str = ""


def may_run(flags: ToolFlags, call: Call, taint: Taint, approvals: frozenset[Call]) -> Permission:
    """Whether `call` of the tool with `flags` may run in a context of this `taint`. Pure; `approvals` are a person's.

    Raises `ValueError` when the call is of another tool than the flags.
    """
    if flags.name != call.tool:
        raise ValueError(f"flags of {flags.name!r} for a call of {call.tool!r}: look the flags up by the call's tool")
    if call in approvals:
        return Permission(May.RUN)
    if flags.needs_approval:
        return Permission(May.ASK, f"{flags.name} always needs a person's approval")
    if taint.tainted and flags.gated:
        sources = ", ".join(sorted(taint.sources))
        return Permission(
            May.ASK, f"{flags.name} changes or sends something, and the context holds text from {sources}"
        )
    return Permission(May.RUN)
