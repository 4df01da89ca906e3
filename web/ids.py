"""Which texts from outside may be ids: one rule for bodies, paths and rooms."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, WithJsonSchema

MAX_ID_CHARS: Final = 200
#: a memory's id holds the id of its session, the number of a step and a digest
MAX_MEMORY_ID_CHARS: Final = MAX_ID_CHARS + 64
#: an insight's id holds those of its session and its agent, and the numbers of a step and a turn
MAX_INSIGHT_ID_CHARS: Final = 2 * MAX_ID_CHARS + 64
_LONGER: Final = {"memory_id": MAX_MEMORY_ID_CHARS, "insight_id": MAX_INSIGHT_ID_CHARS}
_PATH_WORDS: Final = frozenset({".", ".."})


def longest_id(name: str) -> int:
    """How many characters the id may have that a path names so."""
    return _LONGER.get(name, MAX_ID_CHARS)


def checked_id(value: str, *, longest: int = MAX_ID_CHARS) -> str:
    """`value` if it may be an id; raises `ValueError` saying what is wrong with it."""
    checked_key(value, longest=longest)
    if "/" in value or "\\" in value:
        raise ValueError("an id has no slashes")
    if value in _PATH_WORDS:
        raise ValueError("an id cannot be a path")
    return value


def checked_key(value: str, *, longest: int = MAX_ID_CHARS) -> str:
    """`value` if it is a short printable text; raises `ValueError` otherwise."""
    if not 1 <= len(value) <= longest:
        raise ValueError(f"give 1 to {longest} characters")
    if not value.isprintable():
        raise ValueError("control and other invisible characters are not allowed")
    if value != value.strip():
        raise ValueError("blanks at the start or the end are not allowed")
    return value


_ID_SCHEMA: Final = {"type": "string", "minLength": 1, "maxLength": MAX_ID_CHARS, "pattern": r"^[^/\\]+$"}
_KEY_SCHEMA: Final = {"type": "string", "minLength": 1, "maxLength": MAX_ID_CHARS}

Id = Annotated[str, AfterValidator(checked_id), WithJsonSchema(dict(_ID_SCHEMA))]
Key = Annotated[str, AfterValidator(checked_key), WithJsonSchema(dict(_KEY_SCHEMA))]


def id_schema(longest: int = MAX_ID_CHARS) -> dict[str, object]:
    """The JSON Schema of an id."""
    return {**_ID_SCHEMA, "maxLength": longest}
