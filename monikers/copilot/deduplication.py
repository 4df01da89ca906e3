"""Keeping an agent from saying the same thing again within a window of time."""

from __future__ import annotations

from collections.abc import Iterable

from monikers.copilot.models import AgentInsight, InsightType


def news(insights: Iterable[AgentInsight], said: dict[str, float], now: float, window_s: float) -> list[AgentInsight]:
    """The insights that were not said in the last `window_s` (above 0) seconds; they are noted in `said`, what is older
    leaves it.

    Case and white space make no difference. Errors are never held back.
    """
    for content in [content for content, at in said.items() if now - at >= window_s]:
        del said[content]
    return [insight for insight in insights if insight.type is InsightType.ERROR or _is_new(insight, said, now)]


def _is_new(insight: AgentInsight, said: dict[str, float], now: float) -> bool:
    content = " ".join(insight.content.casefold().split())
    is_new = content not in said
    said.setdefault(content, now)
    return is_new
