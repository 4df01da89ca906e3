"""How the offline model plays the generic step: three steps of work, then it waits and acknowledges what it is told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from runtime.llm.extract import summary

Data = Mapping[str, Any]

WORK = ("plan", "work", "review")
MAX_QUOTE_CHARS = 400
MAX_DEPTH = 8
MAX_SIZE = 1_000


def answer(data: Data) -> str:
    """A StepFrame answer, as JSON, to `{"task", "frame": {"step", "state", "guidance", "inputs"}, "output_schema"}`."""
    frame = _object(data.get("frame"))
    state = _object(frame.get("state"))
    taken = state.get("steps_taken")
    number = (taken if isinstance(taken, int) else 0) + 1
    task = _quote(data.get("task")) or "no task was given"
    return json.dumps(_frame_out(frame, number, task, data.get("output_schema")), ensure_ascii=False)


def _frame_out(frame: Data, number: int, task: str, schema: Any) -> dict[str, Any]:
    heard = _heard(frame)
    resting = number >= len(WORK)
    out: dict[str, Any] = {
        "step": str(frame.get("step", "1")),
        "next_step": str(number + 1),
        "state": {"steps_taken": number, "heard": heard[-5:]},
        "text": _text(number, task, heard),
        "done": False,
        "notes": "answered by the offline model",
    }
    if isinstance(schema, Mapping):
        out["data"] = instance_of(schema)
    if resting:
        out["wait"] = {"kind": "input", "prompt": "What should I do next?"}
    return out


def _text(number: int, task: str, heard: list[str]) -> str:
    if heard:
        return f'You said "{heard[-1]}". I keep that in mind for: {task}'
    if number <= len(WORK):
        return f"Step {number} of {len(WORK)} ({WORK[number - 1]}): {task}"
    return f"I am ready for more about: {task}"


def _heard(frame: Data) -> list[str]:
    inputs = frame.get("inputs")
    texts = [_object(given).get("text") for given in inputs] if isinstance(inputs, list) else []
    return [quote for quote in map(_quote, [*texts, frame.get("guidance")]) if quote]


def _quote(value: Any) -> str:
    if value is None or value == "":
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return summary(text, count=1)[:MAX_QUOTE_CHARS]


def _object(value: Any) -> Data:
    return value if isinstance(value, Mapping) else {}


def instance_of(schema: Any, depth: int = 0) -> Any:
    """A small value that the common keywords of a JSON Schema allow.

    Knows const, default, enum, examples, anyOf, type, required, properties, items, bounds and lengths. What else a
    schema demands (patterns, formats, references) it does not try to meet.
    """
    schema = _object(schema)
    if depth > MAX_DEPTH:
        return None
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("enum", "examples"):
        if choices := _list(schema, key):
            return choices[0]
    for key in ("anyOf", "oneOf", "allOf"):
        if choices := _list(schema, key):
            return instance_of(choices[0], depth + 1)
    return _of_type(_type_of(schema), schema, depth + 1)


def _type_of(schema: Data) -> str:
    named = schema.get("type", "object" if "properties" in schema else "string")
    return str(named[0] if isinstance(named, list) and named else named)


def _of_type(name: str, schema: Data, depth: int) -> Any:
    if name == "object":
        properties = _object(schema.get("properties"))
        return {str(key): instance_of(properties.get(str(key)), depth) for key in _list(schema, "required")}
    if name == "array":
        return [instance_of(schema.get("items"), depth) for _ in range(_size(schema, "minItems", 0))]
    if name in ("integer", "number"):
        return _number(schema)
    return {"boolean": False, "null": None}.get(name, _text_for(schema))


def _number(schema: Data) -> float:
    above, least, most = (_bound(schema, key) for key in ("exclusiveMinimum", "minimum", "maximum"))
    if above is not None:
        return above + 1
    return least if least is not None else min(0, most or 0)


def _text_for(schema: Data) -> str:
    return "offline".ljust(_size(schema, "minLength", 0), ".")[: _size(schema, "maxLength", MAX_SIZE)]


def _size(schema: Data, key: str, otherwise: int) -> int:
    value = schema.get(key)
    return max(0, min(value, MAX_SIZE)) if isinstance(value, int) else otherwise


def _bound(schema: Data, key: str) -> float | None:
    value = schema.get(key)
    return value if isinstance(value, int | float) else None


def _list(schema: Data, key: str) -> list[Any]:
    value = schema.get(key)
    return value if isinstance(value, list) else []
