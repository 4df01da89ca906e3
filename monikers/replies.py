"""Gets a JSON object out of a model's answer: strictly, then by repair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import orjson
from json_repair import repair_json
from pydantic import ValidationError

from monikers.errors import field_errors
from monikers.words import clip
from runtime.contract import Json

T = TypeVar("T")

MAX_REPLY_CHARS = 400_000
#: repairing takes seconds for longer answers made of nothing but braces
MAX_REPAIRED_CHARS = 60_000
MAX_PROBLEM_CHARS = 2_000


class BadReplyError(ValueError):
    """An answer that cannot be used; the message tells the model what is wrong with it."""


def read_object(text: str, read: Callable[[Json], T]) -> T:
    """What `read` makes of the object in `text`.

    Raises `BadReplyError` when there is no object or `read` refuses it.
    """
    found = find_object(text)
    try:
        return read(found)
    except ValidationError as error:
        problems = [f"{wrong['field']}: {wrong['message']}" for wrong in field_errors(error.errors())]
        raise BadReplyError(clip("; ".join(problems), MAX_PROBLEM_CHARS)) from error
    except ValueError as error:
        raise BadReplyError(clip(str(error), MAX_PROBLEM_CHARS)) from error


def find_object(text: str) -> Json:
    """The JSON object in `text`, with its slips mended: fences, prose around it, commas, quotes, a cut end.

    Raises `BadReplyError` when there is none.
    """
    if len(text) > MAX_REPLY_CHARS:
        raise BadReplyError(f"the answer has {len(text)} characters; at most {MAX_REPLY_CHARS} are read")
    strict = _loads(text)
    found = _object_of(strict) or _object_of(_repaired(text))
    if found is None:
        raise BadReplyError("the answer holds no JSON object with fields; answer with one JSON object and nothing else")
    return found


def _loads(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _repaired(text: str) -> Any:
    if len(text) > MAX_REPAIRED_CHARS:
        return None
    try:
        # through orjson again: what that writes can be stored, what json_repair builds in memory need not be
        return orjson.loads(orjson.dumps(repair_json(text, return_objects=True)))
    except (RecursionError, ValueError, orjson.JSONEncodeError):
        return None


def _object_of(value: Any) -> Json | None:
    """The object itself, or of a list the object with most fields."""
    if isinstance(value, list):
        value = max((item for item in value if isinstance(item, dict)), key=len, default=None)
    return value if isinstance(value, dict) and value else None
