"""Insights: what the agents of a copilot tell people, as the step that found them holds them (docs/copilot-queue.md).

A step whose `data` has a list under `insights` says each of them in its thread. What a moniker puts there is its own
affair, so it is read leniently: what is no insight is left out, a malformed field has its default.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final

FIELD: Final = "insights"
MAX_INSIGHTS: Final = 1_000
MAX_EXPIRY_S: Final = 366 * 86_400
_MAX_NAME_CHARS: Final = 500


class InsightStatus(StrEnum):
    """What people see of an insight."""

    SHOWN = "shown"
    HELD = "held"  # a person has to agree first
    REFUSED = "refused"  # a person did not agree


@dataclass(frozen=True, slots=True)
class Insight:
    """A piece of advice. `expiry` is how many seconds it is worth showing, `confidence` between 0 and 1."""

    insight_id: str
    content: str
    agent_id: str = ""
    agent_name: str = ""
    type: str = "suggestion"
    confidence: float = 1.0
    expiry: int = 15
    action_label: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    status: InsightStatus = InsightStatus.SHOWN
    turn: int = 0
    phase: int = 1
    trigger: str = ""

    def row(self) -> dict[str, Any]:
        """The insight as JSON."""
        return {**asdict(self), "metadata": dict(self.metadata), "status": self.status.value}


def insights_in(data: Any) -> tuple[Insight, ...] | None:
    """The insights in a step's `data`, each id once; None when it is no step that tells insights."""
    listed = data.get(FIELD) if isinstance(data, Mapping) else None
    if not isinstance(listed, list):
        return None
    found = {insight.insight_id: insight for insight in _read(listed[:MAX_INSIGHTS])}
    return tuple(found.values())


def insight_of(told: Any) -> Insight | None:
    """One insight from JSON; None for what is none."""
    return next(_read([told]), None)


def _read(listed: list[Any]) -> Iterator[Insight]:
    for told in listed:
        if not isinstance(told, Mapping):
            continue
        insight_id, content = _text(told.get("insight_id")), told.get("content")
        if not insight_id or not isinstance(content, str) or not content.strip():
            continue
        yield Insight(
            insight_id=insight_id,
            content=content,
            agent_id=_text(told.get("agent_id")),
            agent_name=_text(told.get("agent_name")),
            type=_text(told.get("type")) or "suggestion",
            confidence=_number(told.get("confidence"), 1.0, highest=1.0),
            expiry=int(_number(told.get("expiry"), 15, highest=MAX_EXPIRY_S)),
            action_label=_text(told.get("action_label")) or None,
            metadata=_object(told.get("metadata")),
            status=_status(told.get("status")),
            turn=int(_number(told.get("turn"), 0, highest=2**53)),
            phase=int(_number(told.get("phase"), 1, highest=9)),
            trigger=_text(told.get("trigger")),
        )


def _text(value: Any) -> str:
    return value[:_MAX_NAME_CHARS] if isinstance(value, str) else ""


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _number(value: Any, default: float, *, highest: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return default
    return min(max(value, 0), highest)


def _status(value: Any) -> InsightStatus:
    """A word that nobody knows counts as held: what should not be shown is not."""
    if value is None:
        return InsightStatus.SHOWN
    try:
        return InsightStatus(value)
    except ValueError:
        return InsightStatus.HELD
