"""An answer of an agreed shape: a ladder of ways to get it, the strictest first.

1. the endpoint binds the model to the JSON Schema; 2. or to JSON at least; 3. or it is told in words. The text is read
strictly, then mended; what fits is the answer. What does not is shown to the model once, with what is wrong with it.
The first three rungs are one call: an endpoint that refuses one is asked in the next (runtime/llm/dialect.py).

What fits is said by a JSON Schema (`ask_json`), a pydantic model (`ask_model`) or any function (`ask_as`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache, partial
from typing import Any, Generic, TypeVar

from json_repair import repair_json
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from pydantic import BaseModel, ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable

from runtime.llm.port import (
    BadRequestReason,
    ChatMessage,
    ChatModel,
    ChatReply,
    ChatRequest,
    LlmError,
    LlmErrorKind,
)

ModelT = TypeVar("ModelT", bound=BaseModel)
ValueT = TypeVar("ValueT")

MAX_CHARS = 400_000
#: mending takes seconds for longer texts made of nothing but braces
MAX_MENDED_CHARS = 60_000
MAX_PROBLEMS = 5
MAX_PROBLEM_CHARS = 300
SHOWN_CHARS = 8_000
#: schemas of which is known whether they are any
_SCHEMAS = 256


class Rung(StrEnum):
    """Which way led to the answer."""

    JSON_SCHEMA = "json_schema"  # bound to the schema
    JSON_OBJECT = "json_object"  # bound to JSON, told the schema
    WORDS = "words"  # only told the schema, and the text was JSON as it stood
    REPAIRED = "repaired"  # the text had to be mended
    CORRECTED = "corrected"  # the model was told what was wrong and answered again


@dataclass(frozen=True, slots=True)
class JsonAnswer(Generic[ValueT]):
    """A value that fits, how it was got, and every reply that was paid for."""

    value: ValueT
    rung: Rung
    replies: tuple[ChatReply, ...]


class UnfitReplyError(LlmError):
    """The second answer fits no better than the first; `problem` says what is wrong with it, `model` who gave it."""

    def __init__(self, first: ChatReply, second: ChatReply, problem: str) -> None:
        said = f"{second.model} gave no answer that fits, even when told why: {problem}"
        super().__init__(LlmErrorKind.MALFORMED, said, partial=second.text, attempts=first.attempts + second.attempts)
        self.model = second.model
        self.problem = problem


async def ask_as(
    model: ChatModel, request: ChatRequest, read: Callable[[Any], ValueT], *, form: str = "JSON"
) -> JsonAnswer[ValueT]:
    """What `read` makes of the JSON value in the answer.

    It refuses one by a `ValueError`, whose words the model is told, and runs in a thread. `form` is what the model is
    asked for again. Raises `UnfitReplyError`, and whatever the calls raise.
    """
    first = await model.chat(request)
    found = await _read(first.text, read)
    if isinstance(found, _Fits):
        return JsonAnswer(found.value, _rung(first, found), (first,))
    second = await model.chat(_correction(request, first.text, found, form))
    again = await _read(second.text, read)
    if isinstance(again, _Fits):
        return JsonAnswer(again.value, Rung.CORRECTED, (first, second))
    raise UnfitReplyError(first, second, again)


async def ask_json(model: ChatModel, request: ChatRequest, schema: dict[str, Any]) -> JsonAnswer[Any]:
    """An answer that is valid under the JSON Schema `schema`; any JSON value that it allows.

    Raises `LlmError`: MALFORMED when the second answer fits no better than the first, BAD_REQUEST when the schema
    cannot be applied or refers to something outside itself, and whatever the calls raise. `partial` is the last text.
    """
    _check_schema(schema)
    bound = request.model_copy(update={"json_schema": schema})
    return await ask_as(model, bound, partial(_fitting, schema))


async def ask_model(model: ChatModel, request: ChatRequest, shape: type[ModelT]) -> JsonAnswer[ModelT]:
    """`ask_json` for a pydantic model; what only its validators refuse is MALFORMED at once."""
    answer = await ask_json(model, request, shape.model_json_schema())
    try:
        value = shape.model_validate(answer.value)
    except ValidationError as error:
        problems = "; ".join(_problem(".".join(map(str, one["loc"])), one["msg"]) for one in error.errors())
        attempts = tuple(attempt for reply in answer.replies for attempt in reply.attempts)
        said = f"the answer fits the schema but not {shape.__name__}: {problems[:MAX_PROBLEM_CHARS]}"
        raise LlmError(LlmErrorKind.MALFORMED, said, partial=answer.replies[-1].text, attempts=attempts) from error
    return JsonAnswer(value, answer.rung, answer.replies)


@dataclass(frozen=True, slots=True)
class _Fits:
    value: Any
    mended: bool


def _rung(reply: ChatReply, found: _Fits) -> Rung:
    if found.mended:
        return Rung.REPAIRED
    match reply.json_mode:
        case "json_schema":
            return Rung.JSON_SCHEMA
        case "json_object":
            return Rung.JSON_OBJECT
        case _:
            return Rung.WORDS


async def _read(text: str, read: Callable[[Any], Any]) -> _Fits | str:
    # in a thread: mending an answer made of nothing but braces takes a second or two
    return await asyncio.to_thread(_found_in, text, read)


def read_json(text: str, schema: dict[str, Any]) -> _Fits | str:
    """The value in `text` that fits, or what is wrong with it in words for the model. Never raises for a text."""
    return _found_in(text, partial(_fitting, schema))


def _found_in(text: str, read: Callable[[Any], Any]) -> _Fits | str:
    if len(text) > MAX_CHARS:
        return f"the answer has {len(text)} characters; at most {MAX_CHARS} are read"
    try:
        value = _strict(text)
    except (ValueError, RecursionError) as error:
        problem = f"not JSON: {str(error)[:MAX_PROBLEM_CHARS]}"
    else:
        found = _fits(value, read, mended=False)
        if isinstance(found, _Fits):
            return found
        problem = found
    mended = _mended(text)
    return problem if mended is _NOTHING else _fits(mended, read, mended=True)


def _fits(value: Any, read: Callable[[Any], Any], *, mended: bool) -> _Fits | str:
    try:
        return _Fits(read(value), mended)
    except ValueError as error:
        return str(error)


def _fitting(schema: dict[str, Any], value: Any) -> Any:
    if problems := _problems(value, schema):
        raise ValueError(problems)
    return value


_NOTHING = object()


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _strict(text: str) -> Any:
    value = json.loads(text, parse_constant=_refuse_constant)
    # lone surrogates are JSON's, but can neither be stored nor sent
    json.dumps(value, ensure_ascii=False).encode()
    return value


def _mended(text: str) -> Any:
    """The JSON in a text with slips, fences or prose around it; `_NOTHING` when there is none."""
    if len(text) > MAX_MENDED_CHARS or not any(mark in text for mark in "{["):
        return _NOTHING
    try:
        # read again strictly: what mending builds in memory need not be JSON
        return _strict(repair_json(text))
    except (ValueError, RecursionError, TypeError, IndexError, KeyError, AttributeError):
        return _NOTHING  # the mender itself stumbles over some garbage: then there is nothing to mend


def _check_schema(schema: dict[str, Any]) -> None:
    try:
        problem = _problem_of_schema(json.dumps(schema))
    except (RecursionError, TypeError, ValueError) as error:
        problem = str(error)
    if problem:
        said = f"the JSON Schema is not one: {problem[:MAX_PROBLEM_CHARS]}; correct it"
        raise LlmError(LlmErrorKind.BAD_REQUEST, said, reason=BadRequestReason.OTHER)


@lru_cache(maxsize=_SCHEMAS)
def _problem_of_schema(schema: str) -> str:
    """What is wrong with a schema. Looking takes a millisecond, and most are asked for again and again."""
    try:
        Draft202012Validator.check_schema(json.loads(schema))
    except (SchemaError, RecursionError) as error:
        return str(getattr(error, "message", error)) or type(error).__name__
    return ""


def _problems(value: Any, schema: dict[str, Any]) -> str:
    """What is wrong with `value`, in words; empty when it fits."""
    # an empty registry: a reference elsewhere would fetch an address that a user chose
    validator = Draft202012Validator(schema, registry=Registry())
    found: list[str] = []
    try:
        for error in validator.iter_errors(value):
            found.append(_problem(error.json_path, error.message))
            if len(found) == MAX_PROBLEMS:
                break
    except (Unresolvable, RecursionError) as error:
        said = f"the JSON Schema cannot be applied, a $ref in it leads nowhere or in a circle: {error}"
        raise LlmError(LlmErrorKind.BAD_REQUEST, said[:MAX_PROBLEM_CHARS]) from error
    return "; ".join(found)


def _problem(place: str, message: str) -> str:
    return f"{place}: {message}"[:MAX_PROBLEM_CHARS]


def _correction(request: ChatRequest, answer: str, problem: str, form: str) -> ChatRequest:
    told = f"That answer cannot be used: {problem}\nAnswer again, with the corrected {form} alone."
    more = (
        ChatMessage(role="assistant", content=answer[:SHOWN_CHARS] or "(nothing)"),
        ChatMessage(role="user", content=told),
    )
    return request.model_copy(update={"messages": (*request.messages, *more)})
