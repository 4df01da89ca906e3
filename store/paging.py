"""Pages of a list, and the opaque cursors that lead from one to the next."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

import orjson

from store.errors import BadFilterError

T = TypeVar("T")

Order = Literal["asc", "desc"]

MAX_LIMIT = 1000
_MAX_CURSOR_CHARS = 2000


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some items of a list and where the next ones begin (None at the end)."""

    items: tuple[T, ...]
    next_cursor: str | None = None


def checked_limit(limit: int) -> int:
    """`limit` if a page may have that many items; raises `BadFilterError` otherwise."""
    if not 1 <= limit <= MAX_LIMIT:
        raise BadFilterError(f"limit {limit} is out of range; give 1 to {MAX_LIMIT}")
    return limit


def encode_cursor(values: Sequence[Any]) -> str:
    """A cursor that holds `values`."""
    plain = [value.isoformat() if isinstance(value, datetime) else value for value in values]
    return base64.urlsafe_b64encode(orjson.dumps(plain)).decode().rstrip("=")


def offset_of(cursor: str | None) -> int:
    """How far down a ranked list a page begins; its cursors hold nothing else. Raises `BadFilterError`."""
    if cursor is None:
        return 0
    (start,) = decode_cursor(cursor, (int,))
    if start < 0:
        raise BadFilterError(f"the cursor {cursor[:60]!r} is not one this list gave; start again without it")
    return int(start)


def decode_cursor(cursor: str, kinds: Sequence[type]) -> tuple[Any, ...]:
    """The values of a cursor; raises `BadFilterError` unless it was made by `encode_cursor` with these kinds."""
    try:
        if len(cursor) > _MAX_CURSOR_CHARS:
            raise ValueError("too long")
        raw = orjson.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
        if not isinstance(raw, list):
            raise TypeError("not a list")
        return tuple(_cursor_value(value, kind) for value, kind in zip(raw, kinds, strict=True))
    except (ValueError, TypeError, binascii.Error) as error:
        raise BadFilterError(f"the cursor {cursor[:60]!r} is not one this list gave; start again without it") from error


def _cursor_value(value: Any, kind: type[Any]) -> Any:
    if kind is datetime:
        return _moment(value)
    if type(value) is not kind:
        raise TypeError(f"expected {kind.__name__}")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("out of range")
    return value


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("no time zone")
    return moment
