"""The guard: which gates a text passes, in which order, and what comes of their verdicts together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import assert_never

from runtime.guard.decision import Decision, Notary
from runtime.guard.judgement import Judgement, Outcome
from runtime.guard.port import (
    AgentType,
    Allow,
    Block,
    Channel,
    Concern,
    Failed,
    FailureKind,
    Gate,
    Passage,
    Redact,
    Span,
    Verdict,
    replaced,
    well_formed,
)
from runtime.ports import Clock


class Cost(IntEnum):
    """What asking a gate costs; the cheap ones are asked first."""

    TEXT = 0  # counts and looks for patterns
    NUMBERS = 1  # a small classifier
    MODEL = 2  # a model call


@dataclass(frozen=True, slots=True)
class Placed:
    """A gate and where it stands. `agent_types` None means every type. `timeout_s` is in seconds."""

    gate: Gate
    channels: frozenset[Channel]
    cost: Cost = Cost.TEXT
    agent_types: frozenset[AgentType] | None = None
    timeout_s: float = 5.0

    def sees(self, passage: Passage) -> bool:
        """Whether a passage comes through this gate."""
        fits = self.agent_types is None or passage.agent_type in self.agent_types
        return fits and passage.channel in self.channels


@dataclass
class _Turn:
    """What is known so far of one passage on its way through the gates."""

    passage: Passage
    decisions: list[Decision] = field(default_factory=list)
    concerns: list[Concern] = field(default_factory=list)
    redactions: list[tuple[Span, ...]] = field(default_factory=list)
    block: Block | None = None

    def judgement(self) -> Judgement:
        decisions, concerns = tuple(self.decisions), tuple(self.concerns)
        if self.block is not None:
            return Judgement(Outcome.BLOCKED, "", decisions, concerns, self.block)
        outcome = Outcome.CONCERN if concerns else Outcome.PASSED
        return Judgement(outcome, self.passage.text, decisions, concerns, redactions=tuple(self.redactions))


class Guard:
    """Gates by channel and agent type.

    Promises: `check` raises nothing because of a gate; a gate that raises, takes too long, is cancelled from inside or
    answers nonsense counts as failed, and keeps the text back if it fails closed. Each gate sees the text as the
    gates before it left it, so a secret that was cut out does not reach a model. The first block ends the round; no
    concern does. A cancel from outside passes through and takes the running gate with it.

    A gate that computes without ever awaiting cannot be stopped by a time-out in the same thread: gates have to be
    linear in the text, or to use a thread. Those that ship are.
    """

    def __init__(self, placed: Sequence[Placed], *, clock: Clock, notary: Notary) -> None:
        names = [each.gate.name for each in placed]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(
                f"gates of the same name {', '.join(twice)}: a trace could not tell them apart; rename one"
            )
        self._placed = tuple(sorted(placed, key=lambda each: each.cost))
        self._clock = clock
        self._notary = notary
        # Gates that did not end when they were cancelled: the loop holds tasks weakly, so they are kept here.
        self._strays: set[asyncio.Task[Verdict]] = set()

    @property
    def placed(self) -> tuple[Placed, ...]:
        """The gates, in the order in which they are asked."""
        return self._placed

    def sees(self, channel: Channel, agent_type: AgentType) -> bool:
        """Whether any gate looks at such texts."""
        return any(placed.sees(Passage("", channel, agent_type, "")) for placed in self._placed)

    def pays(self, channel: Channel, agent_type: AgentType) -> bool:
        """Whether a gate that looks at such texts asks a model."""
        passage = Passage("", channel, agent_type, "")
        return any(placed.cost is Cost.MODEL and placed.sees(passage) for placed in self._placed)

    async def check(self, passage: Passage) -> Judgement:
        """Take `passage` through its gates. Raises nothing but a cancel from outside."""
        turn = _Turn(passage)
        for placed in self._placed:
            if placed.sees(passage):
                await self._through(placed, turn)
            if turn.block is not None:
                break
        return turn.judgement()

    async def _through(self, placed: Placed, turn: _Turn) -> None:
        gate, seen = placed.gate, turn.passage
        began = self._clock.monotonic()
        verdict = _checked(seen, await self._asked(placed, seen))
        held_back = isinstance(verdict, Block) or (isinstance(verdict, Failed) and gate.fail_closed)
        latency_ms = (self._clock.monotonic() - began) * 1000
        decision = self._notary.note(gate.name, seen, verdict, held_back=held_back, latency_ms=latency_ms)
        turn.decisions.append(decision)
        match verdict:
            case Allow():
                return
            case Concern():
                turn.concerns.append(replace(verdict, reason=self._notary.scrub(verdict.reason)))
            case Block():
                turn.block = replace(verdict, reason=self._notary.scrub(verdict.reason))
            case Redact():
                turn.redactions.append(verdict.spans)
                turn.passage = replace(seen, text=replaced(seen.text, verdict.spans))
            case Failed():
                if held_back:
                    turn.block = Block(f"the gate {gate.name} failed ({verdict.kind}) and fails closed", decision.rule)
            case _:
                assert_never(verdict)

    async def _asked(self, placed: Placed, passage: Passage) -> Verdict:
        """The gate's own answer, or why there is none. A task of its own tells a cancel inside from one outside."""
        task = asyncio.create_task(placed.gate.judge(passage), name=f"gate {placed.gate.name}")
        try:
            async with asyncio.timeout(placed.timeout_s):
                await asyncio.wait({task})
        except TimeoutError:
            if not task.done():  # on a busy machine both may be due at once, and a verdict that is there counts
                return Failed(FailureKind.TIMEOUT, f"no verdict within {placed.timeout_s:g} s")
        finally:
            self._leave(task)
        if task.cancelled():
            return Failed(FailureKind.CANCELLED, "cancelled from inside")
        error = task.exception()
        if error is not None:
            return Failed(FailureKind.RAISED, type(error).__name__)
        return task.result()

    def _leave(self, task: asyncio.Task[Verdict]) -> None:
        """Cancel a gate that still runs, without waiting: it may be the kind that does not listen."""
        if not task.done():
            task.cancel()
            self._strays.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Verdict]) -> None:
        self._strays.discard(task)
        if not task.cancelled():
            task.exception()  # looked at, or asyncio would report it as forgotten; the decision is already made


def _checked(passage: Passage, verdict: object) -> Verdict:
    """A verdict as the port promises it. A gate may come from elsewhere and answer what no type checker saw."""
    if not isinstance(verdict, Allow | Concern | Block | Redact | Failed):
        return Failed(FailureKind.MALFORMED, f"answered a {type(verdict).__name__}")
    if isinstance(verdict, Redact) and not well_formed(passage.text, verdict.spans):
        return Failed(FailureKind.MALFORMED, "spans outside of the text, out of order or overlapping")
    return verdict
