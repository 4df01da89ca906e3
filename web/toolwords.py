"""A tool of an MCP server for people: its state, who said what, and which of its server's words changed.

What a server says is shown line by line as it is: nothing here shortens, marks up or judges it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, Final

from store.tool_pins import FIRST_USE, ToolState

Json = dict[str, Any]

#: the word for people, its tone (a CSS class) and its glyph
_STATES: Final[Mapping[ToolState, tuple[str, str, str]]] = {
    ToolState.NEW: ("waits for you", "waiting", "hand"),
    ToolState.APPROVED: ("approved", "done", "check"),
    ToolState.CHANGED: ("changed since approval", "waiting", "warn"),
    ToolState.WITHDRAWN: ("withdrawn", "queued", "stopped"),
}
_EXPLAINED: Final[Mapping[ToolState, str]] = {
    ToolState.NEW: "Off. No agent can use it until somebody approves it.",
    ToolState.APPROVED: "On, for the agents that it is granted to.",
    ToolState.CHANGED: "Off. Its server says something else of it now than what was approved.",
    ToolState.WITHDRAWN: "Off until somebody approves it again, whatever its server says of it.",
}
#: lines that stayed, shown around those that changed
_AROUND: Final = 2


def tool_state(tool: Mapping[str, Any]) -> tuple[str, str, str]:
    """The word, tone and glyph of a tool's state."""
    return _STATES[ToolState(tool["state"])]


def tool_words(tool: Mapping[str, Any]) -> str:
    """What its state means."""
    return _EXPLAINED[ToolState(tool["state"])]


def approver(tool: Mapping[str, Any]) -> str:
    """Who agreed to it, in words."""
    by = tool["approved_by"]
    return "as it was seen first, by tools.toml" if by == FIRST_USE else f"by {by}" if by else ""


def parameter_names(tool: Mapping[str, Any]) -> str:
    """The names of its parameters, those that must be given first."""
    schema = tool["parameters"] if isinstance(tool["parameters"], dict) else {}
    properties, required = schema.get("properties"), schema.get("required")
    names = list(properties) if isinstance(properties, dict) else []
    must = [name for name in names if isinstance(required, list) and name in required]
    return ", ".join([*must, *(f"{name} (optional)" for name in names if name not in must)]) or "none"


def changed_words(tool: Mapping[str, Any]) -> list[Json]:
    """What its server says otherwise than what was agreed to: `[{title, lines: [{mark, text}]}]`.

    A mark is `-` for what was agreed to, `+` for what is said now, "" for what stayed. [] where nothing changed, and
    where the words that were agreed to are not known.
    """
    if tool["approved_description"] is None:
        return []
    parts = (
        ("Description", tool["approved_description"], tool["description"]),
        ("Parameters", _written(tool["approved_parameters"]), _written(tool["parameters"])),
    )
    return [
        {"title": title, "lines": _difference(was.split("\n"), now.split("\n"))}
        for title, was, now in parts
        if was != now
    ]


def _written(parameters: Any) -> str:
    return json.dumps(parameters, indent=2, ensure_ascii=False, sort_keys=True)


def _difference(was: Sequence[str], now: Sequence[str]) -> list[Json]:
    """Everything between the first and the last line that differ: a stranger's words are not worth a costly search."""
    head = _alike(was, now)
    tail = _alike(was[head:][::-1], now[head:][::-1])
    return [
        *_marked("", was[max(0, head - _AROUND) : head]),
        *_marked("-", was[head : len(was) - tail]),
        *_marked("+", now[head : len(now) - tail]),
        *_marked("", now[len(now) - tail :][:_AROUND]),
    ]


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines are the same from the beginning on."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _marked(mark: str, lines: Sequence[str]) -> list[Json]:
    return [{"mark": mark, "text": line} for line in lines]
