"""What rows say in one line: `web/static/js/words.js` says the same in the browser."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

LINE_CHARS: Final = 240


def one_line(value: Any) -> str:
    """The first line of a text, an error or a result: what fits into a row."""
    text = _words_of(value).strip()
    return text.split("\n", 1)[0][:LINE_CHARS]


def step_line(step: Mapping[str, Any]) -> str:
    """What a step says: its error, what it took back, its text, or what it asks a person."""
    if step.get("error"):
        return one_line(step["error"])
    if is_rollback(step):
        return _took_back(_span(step))
    return one_line(step.get("text")) or one_line(_question(step.get("wait")))


def steps_taken_back(steps: Sequence[Mapping[str, Any]]) -> set[int]:
    """The iterations among a session's steps that a later step has taken back."""
    spans = [span for span in map(_span, steps) if span]
    return {step["iteration"] for step in steps for first, last in spans if first <= step["iteration"] <= last}


def takes_back(step: Mapping[str, Any]) -> str:
    """The first and the last iteration that a rollback took back, with a blank between; nothing for other steps."""
    return " ".join(map(str, _span(step)))


def is_rollback(step: Mapping[str, Any]) -> bool:
    """Whether a step takes others back."""
    guidance = step.get("guidance")
    return isinstance(guidance, Mapping) and "rolled_back" in guidance


def taken_back(messages: Sequence[Mapping[str, Any]]) -> set[str]:
    """The ids of the messages whose steps a later rollback has taken back."""
    found: set[str] = set()
    for rollback in messages:
        span = (rollback.get("data") or {}).get("rolled_back") if rollback.get("event_type") == "rollback" else None
        if span:
            mine = (one for one in messages if one.get("session_id") == rollback.get("session_id"))
            found |= {one["message_id"] for one in mine if _in(span, one["iteration"])}
    return found


def tries(action: Mapping[str, Any]) -> str:
    """How often an action was tried; once is what everybody expects, unless there will be another time."""
    done = int(action.get("attempts") or 0)
    if done and _is_open(action):
        return f"try {done + 1}"
    return f"{done} tries" if done > 1 else ""


def next_moment(action: Mapping[str, Any]) -> str:
    """When an action that waits for a moment comes next; the browser puts it into the reader's time zone."""
    moment = action.get("not_before") if _is_open(action) else None
    if not moment:
        return ""
    word = "next try" if action.get("attempts") else "not before"
    return f"{word} {str(moment)[:10]} {str(moment)[11:19]} UTC"


def _span(step: Mapping[str, Any]) -> Sequence[int]:
    return (step["guidance"]["rolled_back"] or ()) if is_rollback(step) else ()


def _in(span: Sequence[int], iteration: int | None) -> bool:
    return iteration is not None and span[0] <= iteration <= span[1]


def _took_back(span: Sequence[int]) -> str:
    if not span:
        return "Took back a turn before its first step"
    first, last = span
    return f"Took back step {first}" if first == last else f"Took back steps {first} to {last}"


def _question(wait: Any) -> Any:
    items = wait.get("items") if isinstance(wait, Mapping) and wait.get("kind") == "approval" else None
    return items[0].get("question") if items and isinstance(items[0], Mapping) else None


def _is_open(action: Mapping[str, Any]) -> bool:
    return action.get("status") in {"pending", "claimed"}


def _words_of(value: Any) -> str:
    if isinstance(value, Mapping):
        named = (value.get(key) for key in ("message", "text", "detail", "summary"))
        found = next((one for one in named if isinstance(one, str) and one), None)
        return found if found is not None else json.dumps(value, ensure_ascii=False, default=str)
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, default=str)


def tokens_of(usage: Mapping[str, Any] | None) -> str:
    """How many tokens were used; nothing for none."""
    known = usage or {}
    tokens = (known.get("input_tokens") or 0) + (known.get("output_tokens") or 0)
    return f"{tokens:,}" if tokens else ""


def cost_of(usage: Mapping[str, Any] | None) -> str:
    """What calls cost, in the currency of models.toml; nothing when they were free or there was none."""
    known = usage or {}
    cost, unpriced = known.get("cost") or "0", known.get("unpriced_calls") or 0
    if unpriced and unpriced >= (known.get("calls") or 0):
        return "price not known"
    if unpriced:
        return f"{cost} and more"
    return cost if cost.strip("0.") else ""
