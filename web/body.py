"""Reading a request's body: bounded before it is parsed, and as deep as is allowed."""

from __future__ import annotations

from typing import IO, Any, Final

import orjson
from flask import Request
from werkzeug.wsgi import get_input_stream

from web.problems import refused

_CHUNK: Final = 64 * 1024
#: a body that is too large is read to its end and thrown away up to this size, so that its sender gets to read the 413
_DRAIN_BYTES: Final = 128_000_000


def json_body(request: Request, *, max_bytes: int, max_depth: int, may_be_empty: bool) -> dict[str, Any]:
    """The object in the body. Raises a 413, 415 or 400 `RefusedError`; an empty body is `{}` where it may be empty."""
    raw = _read(request, max_bytes)
    if not raw and may_be_empty:
        return {}
    if request.mimetype != "application/json":
        given = request.mimetype or "no content type"
        raise refused(415, f"the body must be JSON: send Content-Type: application/json, not {given}")
    return _parsed(raw, max_depth)


def _read(request: Request, max_bytes: int) -> bytes:
    stream = get_input_stream(request.environ)
    too_large = refused(413, f"the body is larger than {max_bytes:,} bytes")
    if (request.content_length or 0) > max_bytes:
        _drain(stream)
        raise too_large
    parts: list[bytes] = []
    left = max_bytes
    while part := _chunk(stream):
        left -= len(part)
        if left < 0:
            _drain(stream)
            raise too_large
        parts.append(part)
    return b"".join(parts)


def _drain(stream: IO[bytes]) -> None:
    left = _DRAIN_BYTES
    while left > 0 and (part := _chunk(stream)):
        left -= len(part)


def _chunk(stream: IO[bytes]) -> bytes:
    try:
        return stream.read(_CHUNK)
    except (OSError, ValueError) as error:  # the connection broke, or a chunk's size cannot be read
        raise refused(400, "the body ended before it was complete") from error


def _parsed(raw: bytes, max_depth: int) -> dict[str, Any]:
    try:
        found = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise refused(400, f"the body is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise refused(400, "the body must be a JSON object")
    if _deeper_than(found, max_depth):
        raise refused(400, f"the body is nested deeper than {max_depth} levels")
    return found


def _deeper_than(value: Any, levels: int) -> bool:
    """Whether objects and lists are nested in `value` over more than `levels` levels; level by level, no recursion."""
    layer = [value]
    for _ in range(levels):
        layer = [inner for outer in layer for inner in _inside(outer) if isinstance(inner, dict | list)]
        if not layer:
            return False
    return True


def _inside(container: Any) -> Any:
    return container.values() if isinstance(container, dict) else container
