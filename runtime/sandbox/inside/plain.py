"""Checks that a value is plain JSON, of a bounded depth and weight, before anybody spends memory on writing it.

Imports nothing of ours, since it is also read inside the walls.
"""

from __future__ import annotations

import math
from typing import Any

MAX_DEPTH = 64
MAX_INT_BITS = 14_000  # some 4,200 digits: Python refuses to write longer ones


class NotPlainError(ValueError):
    """The value is no JSON, too deep or too heavy; the message says which, and what to give instead."""


def plain(value: Any, max_bytes: int) -> Any:
    """`value` with tuples as lists. Raises NotPlainError for what JSON lacks and beyond `max_bytes` or MAX_DEPTH.

    The weight is about that of the JSON text. A part that occurs twice weighs twice.
    """
    return _Weighing(max_bytes).plain(value, 0)


class _Weighing:
    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._left = max_bytes

    def plain(self, value: Any, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise NotPlainError(f"nested deeper than {MAX_DEPTH}: give something flatter")
        kind = type(value)
        if kind in (list, tuple):
            self._spend(2)
            return [self.plain(item, depth + 1) for item in value]
        if kind is dict:
            self._spend(2)
            return {self._key(key): self.plain(item, depth + 1) for key, item in value.items()}
        self._spend(_weight(value))
        return value

    def _key(self, key: Any) -> str:
        if type(key) is not str:
            raise NotPlainError(f"a dict with a key of type {type(key).__name__}: use str keys")
        self._spend(_weight(key))
        return key

    def _spend(self, weight: int) -> None:
        self._left -= weight + 1
        if self._left < 0:
            raise NotPlainError(f"larger than {self._max} bytes: give less of it")


def _weight(value: Any) -> int:
    kind = type(value)
    if value is None or kind is bool:
        return 4
    if kind is int:
        return _weight_of_int(value)
    if kind is float:
        return _weight_of_float(value)
    if kind is str:
        return _weight_of_str(value)
    raise NotPlainError(f"of type {kind.__name__}: give None, bool, int, float, str, list or dict")


def _weight_of_int(value: int) -> int:
    if value.bit_length() > MAX_INT_BITS:
        raise NotPlainError(f"an int of {value.bit_length()} bits: give at most {MAX_INT_BITS}, or text")
    return value.bit_length() // 3


def _weight_of_float(value: float) -> int:
    if not math.isfinite(value):
        raise NotPlainError(f"the float {value!r}, which JSON lacks: give None or text")
    return 16


def _weight_of_str(value: str) -> int:
    try:
        return len(value) if value.isascii() else len(value.encode())
    except UnicodeEncodeError:
        raise NotPlainError("text with half of a surrogate pair: give whole letters") from None
