"""What a guard says of a text, and the port through which a step asks it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from runtime.guard.decision import Decision
from runtime.guard.port import Block, Channel, Concern, Span


class Outcome(StrEnum):
    """What is to be done with a text."""

    PASSED = "passed"
    CONCERN = "concern"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the gates said together. `text` is what may go on, redacted; it is empty when blocked."""

    outcome: Outcome
    text: str
    decisions: tuple[Decision, ...]
    concerns: tuple[Concern, ...] = ()
    block: Block | None = None
    #: what was replaced, gate by gate; each gate's places are those of the text as the gates before it left it
    redactions: tuple[tuple[Span, ...], ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether nobody had anything to say."""
        return self.outcome is Outcome.PASSED and not self.redactions


def passed(text: str) -> Judgement:
    """The judgement of a text that no gate looks at."""
    return Judgement(Outcome.PASSED, text, ())


@dataclass(frozen=True, slots=True)
class Admitted:
    """A text after its gates and, where they had doubts, a person. `block` says why it must not go on."""

    text: str
    block: Block | None = None
    redactions: tuple[tuple[Span, ...], ...] = ()
    #: what a person put in its place
    edited: Any = None


class StepGates(Protocol):
    """The gates of one step: what `ctx.guard` is."""

    def see(self, channel: Channel) -> bool:
        """Whether any gate looks at texts of this channel here."""
        ...

    async def check(
        self, text: str, channel: Channel, source: str, *, tainted: bool = False, key: str = ""
    ) -> Judgement:
        """The gates' judgement; recorded, so that no judge is paid twice. `source` says where the text is from.

        Checks are told apart by their order in a channel, or by `key` where a step that is run again may leave some
        out: those inside of a call that is read from its record.

        On a concern the caller decides. Raises `GateFailedError` when a gate that fails closed has no verdict: let it
        pass, the step is tried again.
        """
        ...

    async def admit(
        self, text: str, channel: Channel, source: str, *, tainted: bool = False, key: str = ""
    ) -> Admitted:
        """As `check`, and a concern is put to a person: the session waits for the answer, as with `ctx.ask`.

        Approved, the text goes on; edited, what the person wrote does; rejected, it is blocked.
        """
        ...
