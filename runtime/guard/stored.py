"""A judgement as a record of the step keeps it: everything but the text, which whoever asks again has at hand."""

from __future__ import annotations

from typing import Any

from runtime.guard.decision import Decision, Mark, VerdictName
from runtime.guard.judgement import Judgement, Outcome
from runtime.guard.port import Block, Channel, Concern, GateName, RuleId, Severity, Span, replaced

Json = dict[str, Any]


def written(judgement: Judgement) -> Json:
    """`judgement` as JSON, without its text."""
    block = judgement.block
    return {
        "outcome": judgement.outcome.value,
        "decisions": [decision.as_json() for decision in judgement.decisions],
        "concerns": [
            {"reason": concern.reason, "rule": concern.rule, "severity": concern.severity.value}
            for concern in judgement.concerns
        ],
        "block": None if block is None else {"reason": block.reason, "rule": block.rule},
        "redactions": [
            [[span.start, span.end, span.label, span.replacement] for span in spans] for spans in judgement.redactions
        ],
    }


def judgement_of(stored: Json, text: str) -> Judgement:
    """The judgement that `written` wrote for `text`."""
    block = stored["block"]
    redactions = tuple(tuple(Span(*span) for span in spans) for spans in stored["redactions"])
    return Judgement(
        outcome=Outcome(stored["outcome"]),
        text="" if block else _after(text, redactions),
        decisions=tuple(_decision(decision) for decision in stored["decisions"]),
        concerns=tuple(
            Concern(concern["reason"], RuleId(concern["rule"]), Severity(concern["severity"]))
            for concern in stored["concerns"]
        ),
        block=None if block is None else Block(block["reason"], RuleId(block["rule"])),
        redactions=redactions,
    )


def _after(text: str, redactions: tuple[tuple[Span, ...], ...]) -> str:
    for spans in redactions:
        text = replaced(text, spans)
    return text


def _decision(stored: Json) -> Decision:
    return Decision(
        **{
            **stored,
            "gate": GateName(stored["gate"]),
            "channel": Channel(stored["channel"]),
            "verdict": VerdictName(stored["verdict"]),
            "rule": RuleId(stored["rule"]),
            "marks": tuple(Mark(**mark) for mark in stored["marks"]),
        }
    )
