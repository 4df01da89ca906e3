"""A server's JSON schema, made into one that can be shown to a model and checked without harm.

A schema is a stranger's program. What is left of it is a tree: references are put in their places (within the document
only, never over the network), with a limit on depth and on the number of parts, so that no schema of a few lines takes
hours. A reference that leads back into itself becomes "anything". Keywords that are not listed here are left out.

The check is weaker than the schema, never stronger: what passes may still be refused by the server, what is refused
here the server would refuse too. Regular expressions are not run (one can be made to run for years), and what turns a
part that was left out into its opposite (`not`, `if`, "exactly one of") is not checked or weakened.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError

from runtime.tools.errors import ArgumentsError
from runtime.tools.mcp.names import param_name
from runtime.tools.mcp.plain import plain_text
from runtime.tools.schema import Json, shortened

MAX_CHARS = 32_000
MAX_DEPTH = 16
MAX_PARTS = 1_000
MAX_NAME_CHARS = 100
_SHOWN_PROBLEMS = 10

_ONE = frozenset({"items", "additionalProperties", "contains", "propertyNames"})
_LIST = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_MAP = frozenset({"properties"})
_CHECKED = frozenset(
    "type enum const required minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength "
    "minItems maxItems minProperties maxProperties".split()
)
_SHOWN = frozenset({"format", "pattern", "default"})
_WORDS = frozenset({"title", "description"})
_DYNAMIC = ("$dynamicRef", "$recursiveRef")


class SchemaRefused(ValueError):
    """The schema cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A schema that fits, and the server's own names of those parameters that are called otherwise here."""

    schema: Json
    renamed: Mapping[str, str]


@dataclass(slots=True)
class _Work:
    """The document that references lead into, and how much was put together so far."""

    document: Mapping[str, Any]
    parts: int = 0
    open: list[str] = field(default_factory=list)


def fitted(raw: Any) -> Fitted:
    """The schema of a tool's arguments, made safe. Raises `SchemaRefused`."""
    if not isinstance(raw, Mapping):
        raise SchemaRefused("it is no JSON object")
    try:
        if len(json.dumps(raw, ensure_ascii=False)) > MAX_CHARS:
            raise SchemaRefused(f"it is longer than {MAX_CHARS:,} characters")
        made = _schema(raw, _Work(raw), 0)
        schema = {"type": "object", **(made if isinstance(made, dict) else {})}
        if schema["type"] != "object":
            raise SchemaRefused("it does not describe an object")
        schema, renamed = _renamed(schema)
        Draft202012Validator.check_schema(_for_check(schema))
    except RecursionError:
        raise SchemaRefused("it is nested too deeply") from None
    except SchemaError as error:
        raise SchemaRefused(f"it is no JSON schema: {error.message[:200]}") from error
    if len(json.dumps(schema, ensure_ascii=False)) > MAX_CHARS:
        raise SchemaRefused(f"with its references in place it is longer than {MAX_CHARS:,} characters")
    return Fitted(schema, renamed)


def checker(schema: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Json]:
    """A check of arguments against a schema of `fitted`; raises `ArgumentsError` with every mistake."""
    validator = Draft202012Validator(_for_check(schema))
    known = tuple(schema.get("properties") or ())

    def check(arguments: Mapping[str, Any]) -> Json:
        given = dict(arguments)
        found = [_problem(error, known) for error in islice(validator.iter_errors(given), _SHOWN_PROBLEMS)]
        if found:
            raise ArgumentsError(tuple(found))
        return given

    return check


def _schema(raw: Any, work: _Work, depth: int) -> Any:
    work.parts += 1
    if depth > MAX_DEPTH:
        raise SchemaRefused(f"it is nested more than {MAX_DEPTH} deep")
    if work.parts > MAX_PARTS:
        raise SchemaRefused(f"with its references in place it has more than {MAX_PARTS:,} parts")
    if isinstance(raw, bool):
        return raw
    if not isinstance(raw, Mapping):
        raise SchemaRefused(f"a part of it is {shortened(repr(raw))} and no schema")
    if any(key in raw for key in _DYNAMIC):
        raise SchemaRefused("it has a dynamic reference, which is not followed")
    own = {key: made for key, value in raw.items() if (made := _value(key, value, work, depth)) is not None}
    if "patternProperties" in raw:  # it is left out, so what else there may be cannot be said
        own.pop("additionalProperties", None)
    if "$ref" not in raw:
        return own
    target = _referred(raw["$ref"], work, depth)
    if isinstance(target, bool) or not own:
        return own or target
    # Words beside a reference go before those behind it; what checks does so together with it.
    clash = {key for key in own if key in target and key not in _WORDS and key not in _SHOWN}
    return {"allOf": [target], **own} if clash else {**target, **own}


def _value(key: str, value: Any, work: _Work, depth: int) -> Any:
    """What becomes of one keyword; None when it is left out."""
    if key in _ONE and not isinstance(value, list):  # a list of `items` is the older form of `prefixItems`
        return _schema(value, work, depth + 1)
    if key in _LIST and isinstance(value, list):
        return [_schema(one, work, depth + 1) for one in value]
    if key in _MAP and isinstance(value, Mapping):
        return {_named(name): _schema(one, work, depth + 1) for name, one in value.items()}
    if key in _WORDS and isinstance(value, str):
        return plain_text(value)
    return value if key in _CHECKED or key in _SHOWN else None


def _named(name: str) -> str:
    """The name of a property; a name is shown as it is, so it must be no place to hide a text in."""
    if len(name) > MAX_NAME_CHARS or not name.isprintable():
        raise SchemaRefused(f"{shortened(name)} is no name for a parameter")
    return name


def _referred(reference: Any, work: _Work, depth: int) -> Any:
    if not isinstance(reference, str) or not reference.startswith("#"):
        raise SchemaRefused(f"it refers to {shortened(str(reference))}, which lies outside of it")
    if reference in work.open:
        return {}
    work.open.append(reference)
    try:
        return _schema(_pointed(reference, work.document), work, depth + 1)
    finally:
        work.open.pop()


def _pointed(reference: str, document: Mapping[str, Any]) -> Any:
    found: Any = document
    for name in reference[1:].split("/")[1:]:
        name = name.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or name not in found:
            raise SchemaRefused(f"it refers to {shortened(reference)}, which is not in it")
        found = found[name]
    if reference != "#" and not reference.startswith("#/"):
        raise SchemaRefused(f"it refers to {shortened(reference)}: only pointers like #/$defs/name are followed")
    return found


def _renamed(schema: Json) -> tuple[Json, Mapping[str, str]]:
    """The schema with parameters that can be written as tags."""
    properties = schema.get("properties") or {}
    names = {name: param_name(name) for name in (*properties, *_required(schema))}
    if len(set(names.values())) < len(names):
        raise SchemaRefused("two of its parameters have names that cannot be told apart")
    renamed = {ours: theirs for theirs, ours in names.items() if ours != theirs}
    if not renamed:
        return schema, {}
    schema = {**schema, "properties": {names[name]: part for name, part in properties.items()}}
    if "required" in schema:
        schema["required"] = [names[name] for name in _required(schema)]
    return schema, renamed


def _required(schema: Json) -> list[str]:
    found = schema.get("required")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def _for_check(schema: Any) -> Any:
    """What is checked: nothing that runs a regular expression or compares everything with everything."""
    if not isinstance(schema, Mapping):
        return schema
    made: Json = {}
    for key, value in schema.items():
        if key in _ONE:
            made[key] = _for_check(value)
        elif key == "oneOf":
            # Two that differ in a pattern alone would both fit.
            made["allOf"] = [*made.get("allOf", []), {"anyOf": [_for_check(one) for one in value]}]
        elif key in _LIST:
            made[key] = [*made.get(key, []), *[_for_check(one) for one in value]]
        elif key in _MAP:
            made[key] = {name: _for_check(one) for name, one in value.items()}
        elif key in _CHECKED:
            made[key] = value
    return made


def _problem(error: ValidationError, known: tuple[str, ...]) -> str:
    where = ".".join(map(str, error.absolute_path)) or "arguments"
    if error.validator == "additionalProperties" and not error.absolute_path:
        return f"{where}: there is a parameter that it does not know; there are {', '.join(known) or 'none at all'}"
    if error.validator == "required":
        return f"{where}: {shortened(error.message, 200)[1:-1]}"
    found = shortened(repr(error.instance)).strip("'\"")
    return f"{where}: has to have {error.validator} {shortened(repr(error.validator_value), 200)[1:-1]}, found {found}"
