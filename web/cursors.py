"""Live cursors: the version seen of each table that a room shows, as one opaque text.

A cursor belongs to a room, and a version counts a table's commits, so it stays true across restarts and clocks.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

import orjson

from web.problems import RefusedError, refused

Versions = Mapping[str, int]

_MAX_CHARS: Final = 2000
_MAX_VERSION: Final = 2**63 - 1


def encode(versions: Versions) -> str:
    """The text for some versions."""
    return base64.urlsafe_b64encode(orjson.dumps(versions)).decode().rstrip("=")


def decode(cursor: str, newest: Versions) -> dict[str, int]:
    """The versions in `cursor`, which must name the tables of `newest` and not be ahead of them.

    Raises a 400 `RefusedError`: the client then starts again without a cursor.
    """
    versions = _parsed(cursor)
    if versions.keys() != newest.keys():
        raise _unusable("it belongs to another room")
    if any(versions[table] > newest[table] for table in newest):
        raise _unusable("it is ahead of the store, which may have been replaced")
    return versions


def _parsed(cursor: str) -> dict[str, int]:
    try:
        if len(cursor) > _MAX_CHARS:
            raise ValueError("too long")
        found = orjson.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error) as error:
        raise _unusable("it cannot be read") from error
    if not isinstance(found, dict) or not all(_is_version(value) for value in found.values()):
        raise _unusable("it cannot be read")
    return found


def _is_version(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MAX_VERSION


def _unusable(why: str) -> RefusedError:
    return refused(400, f"the cursor cannot be used: {why}; read the page again and subscribe without it")
