"""Reads JSON that a model wrote: nothing that is no JSON, and nothing so deep that later code could not walk it."""

from __future__ import annotations

import json
from typing import Any, NoReturn

MAX_DEPTH = 64


def read_json(text: str) -> Any:
    """The value. Raises `ValueError` (`json.JSONDecodeError` where a place is known) for NaN, depth and no JSON."""
    try:
        value = json.loads(text, parse_constant=_refuse)
    except RecursionError as error:
        raise _too_deep() from error
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return value
    raise _too_deep()


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _too_deep() -> ValueError:
    return ValueError(f"it is nested more than {MAX_DEPTH} deep; write it flatter")


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON; write a number or null")
