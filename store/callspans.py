"""The calls of a step as spans: its records, paired where one tells how another ended.

The kinds are the runtime's (`runtime.calls.RecordKind`); a word that is not known here is a tool's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from store.agent_steps import AgentStep
from store.records import Record
from store.spans import MAX_NAME_CHARS, Redact, Span, SpanKind, SpanStatus, facts_of, span_text

INTENT: Final = "intent"
FAILED: Final = "failed"
ASKED: Final = "asked"
#: what ends a question: people, or the time, said so
_DECISIONS: Final = frozenset({"answer", "repeat", "done", "fail"})
#: records whose `result` a trace looks at, for a word of a closed set or an error; it is read for no others
TOLD_BY_RESULT: Final = (FAILED, "answer")
_KINDS: Final = {
    "model": SpanKind.MODEL,
    "embed": SpanKind.MODEL,
    "gate": SpanKind.GATE,
    "recall": SpanKind.RECALL,
    "remember": SpanKind.RECALL,
    "sandbox": SpanKind.SANDBOX,
}
_BLOCKING: Final = frozenset({"block", "blocked"})


def call_spans(
    records: Sequence[Record], later: Sequence[Record], unknown: SpanStatus, ends_at: float, redact: Redact
) -> list[Span]:
    """The calls that some records of one step tell of, by their begin.

    An intent whose call nobody has heard of since, among `later` records, has the status `unknown` and lasts until
    `ends_at`.
    """
    spans = []
    for record in records:
        if record.kind == INTENT:
            if not _has_ended(record, later):
                at = at_ms(record.created_at)
                spans.append(_span(record, SpanKind.TOOL, at, max(0.0, ends_at - at), unknown, None, {}, redact))
        elif record.kind == FAILED:
            spans.append(_failed(record, redact))
        elif record.kind not in _DECISIONS and record.kind != ASKED:
            spans.append(_ended(record, redact))
    return sorted(spans, key=lambda span: (span.start_ms, span.id))


def question_spans(
    step: AgentStep, records: Sequence[Record], unanswered: SpanStatus, ends_at: float, redact: Redact
) -> list[Span]:
    """What a step asked of people: from the step to the answer, and while there is none until `ends_at`."""
    wait = step.wait if isinstance(step.wait, dict) else {}
    items = wait.get("items") if wait.get("kind") == "approval" else None
    listed = [item for item in items or () if isinstance(item, dict)]
    return [_question(step, number, item, records, unanswered, ends_at, redact) for number, item in enumerate(listed)]


def _question(
    step: AgentStep,
    number: int,
    item: dict[str, Any],
    records: Sequence[Record],
    unanswered: SpanStatus,
    ends_at: float,
    redact: Redact,
) -> Span:
    asked = at_ms(step.created_at)
    answers = [
        record
        for record in records
        if record.kind in _DECISIONS and record.key == item.get("key") and record.created_at >= step.created_at
    ]
    answer = min(answers, key=lambda record: record.created_at, default=None)
    answered = ends_at if answer is None else at_ms(answer.created_at)
    told = {"question": item.get("kind"), "decision": _decision(answer)}
    return Span(
        id=f"s{step.iteration}.q{number}",
        parent=f"s{step.iteration}",
        kind=SpanKind.QUESTION,
        name=span_text(item.get("kind") or "question", redact, MAX_NAME_CHARS),
        start_ms=asked,
        ms=max(0.0, answered - asked),
        status=unanswered if answer is None else SpanStatus.OK,
        facts=facts_of(told, redact),
    )


def _decision(answer: Record | None) -> Any:
    if answer is None:
        return None
    said = answer.result.get("decision") if isinstance(answer.result, dict) else None
    return said if answer.kind == "answer" else answer.kind


def _has_ended(intent: Record, later: Sequence[Record]) -> bool:
    return any(
        record.key == intent.key and record.kind != INTENT and _order(record) > _order(intent) for record in later
    )


def _order(record: Record) -> tuple[int, datetime, int]:
    return record.iteration, record.created_at, record.event_seq


def _failed(record: Record, redact: Redact) -> Span:
    said = record.result if isinstance(record.result, dict) else {}
    kind, facts = _told(str(said.get("kind")), record, redact)
    error = span_text(said.get("error") or "it failed", redact)
    return _over(record, kind, SpanStatus.ERROR, error, facts, redact)


def _ended(record: Record, redact: Redact) -> Span:
    kind, facts = _told(record.kind, record, redact)
    held = facts.get("held_back") is True or {facts.get("verdict"), facts.get("outcome")} & _BLOCKING
    status = SpanStatus.BLOCKED if kind is SpanKind.GATE and held else SpanStatus.OK
    return _over(record, kind, status, None, facts, redact)


def _told(word: str, record: Record, redact: Redact) -> tuple[SpanKind, dict[str, Any]]:
    """What kind of span a call is, and its facts. The fact `kind` tells calls of one span kind apart."""
    kind, facts = _KINDS.get(word, SpanKind.TOOL), facts_of(record.usage, redact)
    return kind, {"kind": word, **facts} if word in _KINDS and word != kind.value else facts


def _over(
    record: Record, kind: SpanKind, status: SpanStatus, error: str | None, facts: dict[str, Any], redact: Redact
) -> Span:
    took = max(0.0, record.latency_ms or 0.0)
    return _span(record, kind, at_ms(record.created_at) - took, took, status, error, facts, redact)


def _span(
    record: Record,
    kind: SpanKind,
    start_ms: float,
    ms: float,
    status: SpanStatus,
    error: str | None,
    facts: dict[str, Any],
    redact: Redact,
) -> Span:
    # What was remembered is no call of the model that made its vector.
    model = None if kind is SpanKind.RECALL else facts.get("model")
    named = model or facts.get("tool") or facts.get("gate") or record.key
    return Span(
        id=f"s{record.iteration}.{record.epoch}.{record.event_seq}",
        parent=f"s{record.iteration}",
        kind=kind,
        name=span_text(named, redact, MAX_NAME_CHARS),
        start_ms=start_ms,
        ms=ms,
        status=status,
        error=error,
        facts=facts,
    )


def at_ms(moment: datetime) -> float:
    """A moment in milliseconds, as `Span.start_ms` counts while a trace is made."""
    return moment.timestamp() * 1000
