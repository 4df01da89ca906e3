"""Gets the object that is meant out of the JSON of a model's answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import ValidationError

from monikers.errors import field_errors
from monikers.words import clip
from runtime.contract import Json

T = TypeVar("T")

MAX_PROBLEM_CHARS = 2_000


class BadReplyError(ValueError):
    """An answer that cannot be used; the message tells the model what is wrong with it."""


def read_object(value: Any, read: Callable[[Json], T]) -> T:
    """What `read` makes of the object that `value` is, or of a list the object with most fields.

    Raises `BadReplyError` when there is no object or `read` refuses it.
    """
    found = _object_of(value)
    if found is None:
        raise BadReplyError("the answer holds no JSON object with fields; answer with one JSON object and nothing else")
    try:
        return read(found)
    except ValidationError as error:
        problems = [f"{wrong['field']}: {wrong['message']}" for wrong in field_errors(error.errors())]
        raise BadReplyError(clip("; ".join(problems), MAX_PROBLEM_CHARS)) from error
    except ValueError as error:
        raise BadReplyError(clip(str(error), MAX_PROBLEM_CHARS)) from error


def _object_of(value: Any) -> Json | None:
    if isinstance(value, list):
        value = max((item for item in value if isinstance(item, dict)), key=len, default=None)
    return value if isinstance(value, dict) and value else None
