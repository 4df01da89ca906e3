"""JSON as the store keeps it: text in a column. One way in, one way out."""

from __future__ import annotations

import json
from typing import Any

import orjson

_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z


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
        text = json.dumps(value, default=str, ensure_ascii=False, skipkeys=True)
    except (TypeError, ValueError, RecursionError):
        text = json.dumps(repr(value), ensure_ascii=False)
    return clean_text(text)


def clean_text(text: str) -> str:
    """`text` with everything that UTF-8 cannot hold replaced by U+FFFD."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def json_or_none(value: Any) -> str | None:
    """The stored form of an optional value: SQL null for None."""
    return None if value is None else json_dumps(value)


def safe_json_loads(text: str | None) -> Any:
    """The value of a JSON column; text that is not JSON comes back as it is, never an error."""
    if text is None:
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
