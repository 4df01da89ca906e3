"""A trace: what happened in one turn and when, as a projection of its action, its steps and their records.

`trace_of` makes it and nothing else does: for the table of traces, for a turn that still runs, for a test. It reads
nothing and asks no clock, so the same rows give the same trace however often it is made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from store.actions import CREATING_KINDS, Action, ActionStatus
from store.agent_steps import AgentStep, StepStatus, is_rollback
from store.callspans import at_ms, call_spans, question_spans
from store.cancelling import CANCELLED
from store.ids import ActionId, AgentId, ConversationId, SessionId
from store.records import Record
from store.spans import MAX_NAME_CHARS, Redact, Span, SpanKind, SpanStatus, span_text
from store.turnsteps import goes_on_with

#: a trace tells of this many newest steps and spans at most; what is left out is counted
MAX_STEPS: Final = 500
MAX_SPANS: Final = 2000
ROOT: Final = "turn"


class TraceKind(StrEnum):
    """What began it."""

    TURN = "turn"  # an input
    CREATE = "create"  # the session's beginning: what it did until it first waited or ended
    OWN = "own"  # the session itself: a moment or an interrupt woke it, or it went on after an error


class TraceStatus(StrEnum):
    """How it ended."""

    RUNNING = "running"  # it has not
    DONE = "done"
    FAILED = "failed"  # a step failed, or the action broke its handler
    BLOCKED = "blocked"  # the last gate held the text back
    CANCELLED = "cancelled"  # withdrawn, rejected, rolled back, or its session ended first


_SPAN_STATUS: Final = {
    TraceStatus.RUNNING: SpanStatus.OPEN,
    TraceStatus.DONE: SpanStatus.OK,
    TraceStatus.FAILED: SpanStatus.ERROR,
    TraceStatus.BLOCKED: SpanStatus.BLOCKED,
    TraceStatus.CANCELLED: SpanStatus.CUT,
}


@dataclass(frozen=True, slots=True)
class Trace:
    """A row of the table of traces. `spans` are `Span`s as JSON, the whole first; a list leaves them out."""

    trace_id: str
    session_id: SessionId
    conversation_id: ConversationId | None
    status: TraceStatus
    spans: Any
    #: what was used, by model: calls, input_tokens, output_tokens, cost
    usage: Any
    started_at: datetime
    ended_at: datetime | None
    action_id: ActionId | None
    agent_id: AgentId | None
    kind: TraceKind
    error: str | None
    #: from the moment that the action was due to its first step; None when there was none
    wait_ms: float | None
    duration_ms: float | None
    steps: int
    #: steps and calls that the spans do not tell of
    left_out: int
    #: of models
    calls: int
    input_tokens: int
    output_tokens: int
    #: None where no call told what it cost
    cost: float | None
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class End:
    """How and when something ended that no action's end tells of."""

    status: TraceStatus
    at: datetime
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """What a trace is made from."""

    trace_id: str
    kind: TraceKind
    session_id: SessionId
    #: what began it, where an action did
    action: Action | None
    #: in order; the newest `MAX_STEPS`
    steps: Sequence[AgentStep] = ()
    records: Sequence[Record] = ()
    steps_left_out: int = 0
    #: the iteration of a step of it that is not stored, or not yet: it runs, or was cut
    unstored: int | None = None
    #: None for a turn, whose action tells, and for what goes on
    end: End | None = None
    agent_id: AgentId | None = None
    conversation_id: ConversationId | None = None


@dataclass(slots=True)
class _Used:
    """What the model calls used."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None

    def add(self, span: Span) -> None:
        self.calls += 1
        self.input_tokens += int(span.facts.get("input_tokens") or 0)
        self.output_tokens += int(span.facts.get("output_tokens") or 0)
        cost = span.facts.get("cost")
        if cost is not None:
            self.cost = round((self.cost or 0.0) + float(cost), 9)


@dataclass(slots=True)
class _Sums:
    """Over all spans, also those that are left out."""

    whole: _Used = field(default_factory=_Used)
    by_model: defaultdict[str, _Used] = field(default_factory=lambda: defaultdict(_Used))

    def add(self, span: Span) -> None:
        if span.kind is SpanKind.MODEL and span.status is SpanStatus.OK:
            self.whole.add(span)
            self.by_model[str(span.facts.get("model") or "unknown")].add(span)


def message_of(action: Action) -> str | None:
    """The id of the message that an action carries to a session, if it carries one."""
    for about in (action.payload, action.metadata):
        if isinstance(about, dict) and about.get("message_id"):
            return str(about["message_id"])
    return None


def trace_id_of(action: Action) -> str:
    """The id of the trace of what an action began: its message's where it has one, else its own."""
    return message_of(action) or action.id


def trace_of(told: Told, now: datetime, redact: Redact) -> Trace:
    """The trace of a turn. `now` ends the bars of what goes on."""
    status = _status(told)
    ended_at = _ended_at(told, status)
    until = ended_at or now
    parts = _parts(told, until, redact, is_open=status is TraceStatus.RUNNING)
    began = _began(told, parts, until)
    until = max(until, began)
    began_ms = at_ms(began)
    shown = [_plain(span, began_ms) for span in _newest(parts)]
    sums = _summed(parts)
    blocked = status in (TraceStatus.DONE, TraceStatus.FAILED) and _was_blocked(parts)
    status = TraceStatus.BLOCKED if blocked else status
    error = _error(told, redact)
    root = _root(told, status, error, _ms(until - began))
    total = sum(len(part) for part in parts)
    return Trace(
        trace_id=told.trace_id,
        session_id=told.session_id,
        conversation_id=told.conversation_id or (told.action.conversation_id if told.action else None),
        status=status,
        spans=[_plain(root, 0.0), *shown],
        usage={model: asdict(used) for model, used in sums.by_model.items()},
        started_at=began,
        ended_at=None if ended_at is None else until,
        action_id=None if told.action is None else told.action.id,
        agent_id=told.agent_id or (told.action.agent_id if told.action else None),
        kind=told.kind,
        error=error,
        wait_ms=_wait_ms(told, parts),
        duration_ms=None if ended_at is None else _ms(until - began),
        steps=told.steps_left_out + len(told.steps),
        left_out=told.steps_left_out + total - len(shown),
        calls=sums.whole.calls,
        input_tokens=sums.whole.input_tokens,
        output_tokens=sums.whole.output_tokens,
        cost=sums.whole.cost,
    )


# How it ended.


def _status(told: Told) -> TraceStatus:
    action = told.action
    if told.end is not None:
        return told.end.status
    if action is None or not action.processed:
        return TraceStatus.RUNNING
    if action.status is ActionStatus.DONE:
        return TraceStatus.RUNNING if action.kind in CREATING_KINDS else TraceStatus.DONE
    failed_step = bool(told.steps) and told.steps[-1].status is StepStatus.ERROR
    if action.status is ActionStatus.DEAD or failed_step:
        return TraceStatus.FAILED
    # Failed, but no step of it did: it was not carried out as asked.
    refused = action.kind in CREATING_KINDS and action.error != CANCELLED
    return TraceStatus.FAILED if refused else TraceStatus.CANCELLED


def _ended_at(told: Told, status: TraceStatus) -> datetime | None:
    if status is TraceStatus.RUNNING:
        return None
    processed_at = None if told.action is None else told.action.processed_at
    known = told.end.at if told.end is not None else processed_at
    last = told.steps[-1].created_at if told.steps else None
    if known is None or (last is not None and not _is_cut(told)):
        return last or known
    return known


def _is_cut(told: Told) -> bool:
    """Whether it ended without a step of its own saying so."""
    last = told.steps[-1]
    return goes_on_with(last) is not None or (told.kind is not TraceKind.TURN and last.status is StepStatus.RUNNING)


def _was_blocked(parts: Sequence[Sequence[Span]]) -> bool:
    gates = [span for part in parts for span in part if span.kind is SpanKind.GATE]
    return bool(gates) and gates[-1].status is SpanStatus.BLOCKED


def _error(told: Told, redact: Redact) -> str | None:
    action, end = told.action, told.end
    said = (end.reason if end is not None else None) or (
        action.error if action is not None and action.processed else None
    )
    said = said or (told.steps[-1].error if told.steps else None)
    return None if said is None else span_text(said, redact)


# Its spans. While they are made `start_ms` is absolute, as `at_ms` counts.


def _parts(told: Told, until: datetime, redact: Redact, *, is_open: bool) -> list[list[Span]]:
    """Each step with what it called, in order; the last one may be a step that was not stored (yet)."""
    by_iteration: defaultdict[int, list[Record]] = defaultdict(list)
    for record in told.records:
        by_iteration[record.iteration].append(record)
    ends_at = at_ms(until)
    status = SpanStatus.OPEN if is_open else SpanStatus.CUT
    parts = []
    for step in told.steps:
        calls = call_spans(by_iteration.pop(step.iteration, ()), told.records, SpanStatus.CUT, ends_at, redact)
        asked = question_spans(step, told.records, status, ends_at, redact)
        parts.append([_step_span(step, calls, redact), *calls, *asked])
    for iteration, records in sorted(by_iteration.items()):
        calls = call_spans(records, told.records, status, ends_at, redact)
        if calls:
            parts.append([_unstored_step(iteration, calls, status, ends_at), *calls])
    return parts


def _step_span(step: AgentStep, calls: Sequence[Span], redact: Redact) -> Span:
    ended, took = at_ms(step.created_at), max(0.0, step.latency_ms or 0.0)
    began = min([ended - took, *[span.start_ms for span in calls]])  # an earlier try of it may have made calls
    failed = step.status is StepStatus.ERROR
    status = SpanStatus.ERROR if failed else SpanStatus.CUT if is_rollback(step) else SpanStatus.OK
    return Span(
        id=f"s{step.iteration}",
        parent=ROOT,
        kind=SpanKind.STEP,
        name=span_text("rolled back" if is_rollback(step) else step.step_token or "step", redact, MAX_NAME_CHARS),
        start_ms=began,
        ms=ended - began,
        status=status,
        error=span_text(step.error, redact) if step.error else None,
        facts={"iteration": step.iteration, "last_try_ms": round(took, 3), "status": step.status.value},
    )


def _unstored_step(iteration: int, calls: Sequence[Span], status: SpanStatus, ends_at: float) -> Span:
    began = min(span.start_ms for span in calls)
    facts = {"iteration": iteration}
    return Span(f"s{iteration}", ROOT, SpanKind.STEP, "step", began, max(0.0, ends_at - began), status, None, facts)


def _newest(parts: Sequence[Sequence[Span]]) -> list[Span]:
    """As many whole steps from the end as may be told of; of one that alone is too large, its newest calls."""
    kept: list[Sequence[Span]] = []
    room = MAX_SPANS - 1
    for part in reversed(parts):
        if len(part) > room:
            if not kept:
                kept.append([part[0], *part[1:][1 - room :]])
            break
        kept.append(part)
        room -= len(part)
    return [span for part in reversed(kept) for span in part]


def _root(told: Told, status: TraceStatus, error: str | None, ms: float) -> Span:
    action = told.action
    facts = {} if action is None else {"kind": action.kind.value, "attempts": action.attempts}
    return Span(ROOT, None, SpanKind.TURN, told.kind.value, 0.0, ms, _SPAN_STATUS[status], error, facts)


def _summed(parts: Sequence[Sequence[Span]]) -> _Sums:
    sums = _Sums()
    for part in parts:
        for span in part:
            sums.add(span)
    return sums


# Times.


def _began(told: Told, parts: Sequence[Sequence[Span]], until: datetime) -> datetime:
    """The moment that it was asked for; clocks of two machines may differ, so nothing in it is earlier."""
    first = min((part[0].start_ms for part in parts), default=None)
    moments = [] if first is None else [_from_ms(first)]
    if told.action is not None:
        moments.append(told.action.created_at)
    return min(moments, default=until)


def _wait_ms(told: Told, parts: Sequence[Sequence[Span]]) -> float | None:
    if told.action is None or not parts or told.steps_left_out:
        return None
    due = max(told.action.created_at, told.action.not_before or told.action.created_at)
    return round(max(0.0, parts[0][0].start_ms - at_ms(due)), 3)


def _plain(span: Span, began_ms: float) -> dict[str, Any]:
    """A span as JSON, its begin counted from that of the trace; `dataclasses.asdict` takes five times as long."""
    return {
        "id": span.id,
        "parent": span.parent,
        "kind": span.kind,
        "name": span.name,
        "start_ms": round(span.start_ms - began_ms, 3),
        "ms": round(span.ms, 3),
        "status": span.status,
        "error": span.error,
        "facts": dict(span.facts),
    }


def _from_ms(at: float) -> datetime:
    return datetime.fromtimestamp(at / 1000, UTC)


def _ms(span: timedelta) -> float:
    return round(span.total_seconds() * 1000, 3)
