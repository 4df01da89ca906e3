"""JSON as the store keeps it: text in a column. One way in, one way out."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

import orjson

_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z
_LONG_NUMBER = re.compile(r"\d{19}")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def json_dumps(value: Any) -> str:
    """`value` as compact JSON text that is valid UTF-8, whatever it holds.

    Values that JSON lacks become text; lone surrogates become U+FFFD; NaN and infinities become null.
    """
    try:
        return orjson.dumps(value, default=str, option=_OPTIONS).decode()
    except (TypeError, ValueError, RecursionError):
        return _dumps_slowly(value)


def _dumps_slowly(value: Any) -> str:
    try:
        text = json.dumps(_plain(value), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        text = json.dumps(_described(value, repr), ensure_ascii=False)
    return clean_text(text)


def _plain(value: Any) -> Any:
    """`value` with everything that JSON lacks put into what it has."""
    if isinstance(value, dict):
        return {_plain_key(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else _described(value, str)


def _plain_key(key: Any) -> Any:
    return key if key is None or isinstance(key, str | int) else _described(key, str)


def _described(value: Any, describe: Callable[[Any], str]) -> str:
    """Text for a value that JSON lacks, even when its own code fails or it is too deep or too long to be written."""
    try:
        return describe(value)
    except Exception:
        return f"<{type(value).__name__}>"


def clean_text(text: str) -> str:
    """`text` with everything that UTF-8 cannot hold (lone surrogates) replaced by U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)


def json_or_none(value: Any) -> str | None:
    """The stored form of an optional value: SQL null for None."""
    return None if value is None else json_dumps(value)


def safe_json_loads(text: str | None) -> Any:
    """The value of a JSON column; text that is not JSON comes back as it is, never an error."""
    if text is None:
        return None
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    # Integers beyond 64 bits become floats there; the slower reader keeps every digit.
    return json.loads(text) if _LONG_NUMBER.search(text) else value
