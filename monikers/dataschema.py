"""JSON Schemas that a user gives for a step's data: checked when the session is made, applied to every answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import orjson
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from pydantic import AfterValidator
from referencing import Registry
from referencing.exceptions import Unresolvable

from monikers.words import clip
from runtime.contract import Json, MonikerInputError

MAX_SCHEMA_CHARS = 50_000
MAX_PROBLEMS = 5
MAX_PROBLEM_CHARS = 300
_REFERENCES = ("$ref", "$dynamicRef")


def _usable(schema: Json) -> Json:
    """The schema itself; raises `ValueError` when it cannot be applied."""
    try:
        size = len(orjson.dumps(schema))
        Draft202012Validator.check_schema(schema)
    except (SchemaError, orjson.JSONEncodeError, RecursionError) as error:
        reason = error.message if isinstance(error, SchemaError) else str(error)
        raise ValueError(f"not a valid JSON Schema: {clip(reason, MAX_PROBLEM_CHARS)}") from error
    if size > MAX_SCHEMA_CHARS:
        raise ValueError(f"the JSON Schema has {size} characters; at most {MAX_SCHEMA_CHARS} are accepted")
    # a reference elsewhere would have the worker fetch an address that a user chose
    if foreign := next((ref for ref in _references(schema) if not ref.startswith("#")), None):
        raise ValueError(f"the JSON Schema refers to {foreign!r}; only references within it (#...) are followed")
    return schema


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        yield from (part[key] for key in _REFERENCES if isinstance(part.get(key), str))
        part = list(part.values())
    if isinstance(part, list):
        for inner in part:
            yield from _references(inner)


DataSchema = Annotated[Json, AfterValidator(_usable)]


def check_data(data: Json | None, schema: Json) -> None:
    """Raise `ValueError` with the first few problems when `data` does not fit `schema`.

    Raises `MonikerInputError` when the schema itself turns out to lead nowhere or in a circle.
    """
    validator = Draft202012Validator(schema, registry=Registry())
    try:
        wrong = [f"data{error.json_path[1:]}: {error.message}" for error in validator.iter_errors(data)]
    except (Unresolvable, RecursionError) as error:
        raise MonikerInputError(f"output_schema cannot be applied, a $ref in it leads nowhere: {error}") from error
    if wrong:
        raise ValueError("; ".join(clip(problem, MAX_PROBLEM_CHARS) for problem in wrong[:MAX_PROBLEMS]))
