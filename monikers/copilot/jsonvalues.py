"""Values as JSON has them, for what leaves the process to be read again later: what JSON does not know is left out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

#: JSON has no limits, but who reads it has: what is nested deeper, or a number with more bits, is left out
MAX_DEPTH = 60
MAX_BITS = 4_096


class _Unknown:
    """Stands for what JSON does not know."""


_UNKNOWN: Final = _Unknown()


def json_object(value: Any) -> dict[str, Any]:
    """A mapping as JSON has it, copied; of anything else `{}`.

    An entry that JSON does not know is left out, such an item of a list is None, a set is a list in the order of its
    texts. The same again gives the same. Never raises for plain values, however deep.
    """
    return _object(value, 0) if isinstance(value, Mapping) else {}


def _object(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    found = {}
    for key, held in value.items():
        kept = _value(held, depth + 1)
        if kept is not _UNKNOWN and isinstance(key, str | int | float):
            found[_text(str(key))] = kept
    return found


def _value(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(str.__str__(value))
    if isinstance(value, int):
        return int(value) if value.bit_length() <= MAX_BITS else _UNKNOWN
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _UNKNOWN
    return _UNKNOWN if depth >= MAX_DEPTH else _container(value, depth)


def _container(value: Any, depth: int) -> Any:
    if isinstance(value, BaseModel):
        value = {name: getattr(value, name) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return _object(value, depth)
    if isinstance(value, set | frozenset):
        value = sorted(value, key=repr)
    if isinstance(value, list | tuple):
        return [None if (kept := _value(item, depth + 1)) is _UNKNOWN else kept for item in value]
    return _UNKNOWN


def _text(text: str) -> str:
    """Half of a surrogate pair, which no encoding takes, becomes "?"."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
