"""Where two JSON values differ first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from store.jsontext import json_dumps, safe_json_loads


@dataclass(frozen=True, slots=True)
class Absent:
    """Stands for a value that one side does not have."""

    def __str__(self) -> str:
        return "nothing"


ABSENT = Absent()


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a JSON value (`$.items[3].text`) and what each side has there."""

    path: str
    stored: Any
    new: Any


def first_difference(stored: Any, new: Any) -> Place | None:
    """The first place at which two values differ as JSON, 1, 1.0 and true told apart; None when they are the same.

    The order of keys does not count.
    """
    return next(_differences(as_json(stored), as_json(new), "$"), None)


def as_json(value: Any) -> Any:
    """A value as it comes back from the store."""
    return safe_json_loads(json_dumps(value))


def _differences(stored: Any, new: Any, path: str) -> Iterator[Place]:
    if isinstance(stored, dict) and isinstance(new, dict):
        for key in [*stored, *(key for key in new if key not in stored)]:
            yield from _differences(stored.get(key, ABSENT), new.get(key, ABSENT), f"{path}.{key}")
    elif isinstance(stored, list) and isinstance(new, list):
        for at in range(max(len(stored), len(new))):
            yield from _differences(_at(stored, at), _at(new, at), f"{path}[{at}]")
    elif type(stored) is not type(new) or stored != new:
        yield Place(path, stored, new)


def _at(items: list[Any], at: int) -> Any:
    return items[at] if at < len(items) else ABSENT
