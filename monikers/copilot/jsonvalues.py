"""Values as JSON has them, for what leaves the process to be read elsewhere or later."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from pydantic import BaseModel

#: JSON has no limits, but who reads it has: what is nested deeper, or a number with more bits, counts as unknown
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
    return _Writer(lambda value: _UNKNOWN).mapping(value, 0) if isinstance(value, Mapping) else {}


def json_value(value: Any, unknown: Callable[[Any], Any]) -> Any:
    """A value as JSON has it, copied; `unknown` says what stands for what JSON does not know."""
    return _Writer(unknown).value(value, 0)


class _Writer:
    def __init__(self, unknown: Callable[[Any], Any]) -> None:
        self._unknown = unknown

    def mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        found = {}
        for key, held in value.items():
            kept = self.value(held, depth + 1)
            if kept is not _UNKNOWN and isinstance(key, str | int | float):
                found[_text(str(key))] = kept
        return found

    def value(self, value: Any, depth: int) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return _text(str.__str__(value))
        if isinstance(value, int) and value.bit_length() <= MAX_BITS:
            return int(value)
        if isinstance(value, float) and math.isfinite(value):
            return float(value)
        return self._container(value, depth) if depth < MAX_DEPTH else self._unknown(value)

    def _container(self, value: Any, depth: int) -> Any:
        if isinstance(value, BaseModel):
            return self.mapping({name: getattr(value, name) for name in type(value).model_fields}, depth)
        if isinstance(value, Mapping):
            return self.mapping(value, depth)
        if isinstance(value, AbstractSet):
            return [self._item(item, depth) for item in sorted(value, key=repr)]
        if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
            return [self._item(item, depth) for item in value]
        return self._unknown(value)

    def _item(self, item: Any, depth: int) -> Any:
        kept = self.value(item, depth + 1)
        return None if kept is _UNKNOWN else kept


def _text(text: str) -> str:
    """Half of a surrogate pair, which no encoding takes, becomes "?"."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
