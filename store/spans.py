"""What a trace is made of: spans, the facts that they may tell, and the one way of text into them.

Facts are names, numbers and verdicts. What was said, asked or answered never becomes a fact: a text is only taken under
a name of which it is known that it holds a name, and never a long one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

#: takes what is secret out of a text
Redact = Callable[[str], str]

MAX_ERROR_CHARS: Final = 300
MAX_NAME_CHARS: Final = 80
_MAX_FACTS: Final = 24
_FACT_NAME: Final = re.compile(r"[a-z][a-z0-9_.]{0,39}")
#: the facts that may be text: names and words of closed sets
_WORDS: Final = frozenset(
    {
        "model",
        "provider",
        "purpose",
        "finish_reason",
        "tool",
        "server",
        "transport",
        "gate",
        "channel",
        "verdict",
        "outcome",
        "rule",
        "decision",
        "question",
        "mode",
        "kind",
        "scope",
        "status",
        "error_kind",
        "source",
    }
)


class SpanKind(StrEnum):
    """What a span tells of."""

    TURN = "turn"  # the whole
    STEP = "step"  # one step, with the calls of all its tries
    MODEL = "model"
    TOOL = "tool"
    GATE = "gate"
    RECALL = "recall"
    SANDBOX = "sandbox"
    QUESTION = "question"  # the session waited for a person


class SpanStatus(StrEnum):
    """How it ended."""

    OK = "ok"
    ERROR = "error"
    BLOCKED = "blocked"  # a gate held a text back
    OPEN = "open"  # it goes on
    CUT = "cut"  # nobody knows how it ended: a crash, or the end of its session, came first


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a turn. Its times are milliseconds, counted from the begin of its trace."""

    id: str
    #: the id of the span that it is a part of; None for the turn itself
    parent: str | None
    kind: SpanKind
    name: str
    start_ms: float
    ms: float
    status: SpanStatus = SpanStatus.OK
    error: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


def span_text(text: object, redact: Redact, limit: int = MAX_ERROR_CHARS) -> str:
    """A name or an error for a span: one line, without secrets, not long. All text of spans comes through here."""
    return " ".join(redact(str(text)).split())[:limit]


def facts_of(told: Any, redact: Redact) -> dict[str, Any]:
    """What of the facts that a call tells may stand in a trace; nested facts are laid out flat."""
    if not isinstance(told, Mapping):
        return {}
    flat = {**told, **(told["usage"] if isinstance(told.get("usage"), Mapping) else {})}
    if "cost" in flat:
        flat["cost"] = _number(flat["cost"])
    kept = {name: _fact(name, value, redact) for name, value in flat.items() if _FACT_NAME.fullmatch(str(name))}
    return {name: value for name, value in list(kept.items())[:_MAX_FACTS] if value is not None}


def _fact(name: str, value: Any, redact: Redact) -> Any:
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return span_text(value, redact, MAX_NAME_CHARS) if isinstance(value, str) and name in _WORDS else None


def _number(value: Any) -> float | None:
    """Money comes as decimal text."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
