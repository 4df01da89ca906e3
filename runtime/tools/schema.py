"""From the signature of a function to what a model may pass to it: a pydantic model, a JSON schema, its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, PydanticSchemaGenerationError, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

from runtime.tools.errors import ArgumentsError, ToolDefinitionError
from runtime.tools.scope import ToolScope

Json = dict[str, Any]

_SHOWN_PROBLEMS = 10
_SHOWN_VALUE_CHARS = 60
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class ParamSpec:
    """One parameter of a tool, as a model sees it. `schema` has no references."""

    name: str
    schema: Mapping[str, Any]
    required: bool
    description: str = ""

    @property
    def kind(self) -> str:
        """Its type in a word or two: "text", "integer", "one of: a, b", "JSON array", ..."""
        return " or ".join(dict.fromkeys(_kind(option) for option in options(self.schema)))


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a tool's function, without the scope."""

    model: type[BaseModel]
    takes_scope: bool
    names: tuple[str, ...]
    #: the model's field of each name; the two differ, so that no name clashes with pydantic's own attributes
    fields: tuple[str, ...]

    def check(self, arguments: Mapping[str, Any]) -> Json:
        """The arguments in the function's own types, defaults filled in.

        Raises `ArgumentsError` with every mistake: missing, unknown, of a wrong type, out of bounds.
        """
        try:
            checked = self.model.model_validate(dict(arguments))
        except ValidationError as error:
            raise ArgumentsError(problems_of(error, self.names)) from error
        return {name: getattr(checked, field) for name, field in zip(self.names, self.fields, strict=True)}

    def schema(self) -> Json:
        """The JSON schema of the arguments."""
        schema = self.model.model_json_schema(by_alias=True, schema_generator=_Untitled)
        schema.pop("title", None)
        return schema


class _Untitled(GenerateJsonSchema):
    """JSON schemas without a title for each field: it would only repeat the name."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def read_signature(function: Callable[..., Any]) -> Signature:
    """What `function` takes. Raises `ToolDefinitionError` for a signature that a model cannot fill."""
    parameters = list(inspect.signature(function).parameters.values())
    hints = _hints(function)
    takes_scope = bool(parameters) and hints.get(parameters[0].name) is ToolScope
    own = parameters[1:] if takes_scope else parameters
    fields = {f"p{number}": _field(function, parameter, hints) for number, parameter in enumerate(own)}
    try:
        model = create_model(  # type: ignore[call-overload]
            "Arguments", __config__=ConfigDict(extra="forbid", frozen=True), **fields
        )
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise _refused(function, f"has a type that pydantic cannot check: {error}") from error
    return Signature(model, takes_scope, tuple(parameter.name for parameter in own), tuple(fields))


def params_of(schema: Mapping[str, Any]) -> tuple[ParamSpec, ...]:
    """The parameters that a JSON schema of an object describes, in its order."""
    definitions = schema.get("$defs") or {}
    required = schema.get("required") or ()
    return tuple(
        ParamSpec(
            name=name,
            schema=(resolved := _resolved(raw, definitions)),
            required=name in required,
            description=str(resolved.get("description") or ""),
        )
        for name, raw in (schema.get("properties") or {}).items()
    )


def options(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The alternatives of a schema; one that has none is its own only one."""
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list):
            return tuple(found for option in schema[key] for found in options(option))
    return (schema,)


def problems_of(error: ValidationError, known: tuple[str, ...] = ()) -> tuple[str, ...]:
    """What pydantic found, a sentence each: where, what is wrong, and the value."""
    found = error.errors(include_url=False)
    shown = [_problem(dict(one), known) for one in found[:_SHOWN_PROBLEMS]]
    if len(found) > _SHOWN_PROBLEMS:
        shown.append(f"and {len(found) - _SHOWN_PROBLEMS} more")
    return tuple(shown)


def shortened(text: str, limit: int = _SHOWN_VALUE_CHARS) -> str:
    """`text` as a Python literal, cut to `limit` characters of it."""
    return repr(text) if len(text) <= limit else f"{text[:limit]!r}..."


def _problem(one: Json, known: tuple[str, ...]) -> str:
    where = ".".join(str(part) for part in one["loc"]) or "arguments"
    if one["type"] == "extra_forbidden":
        return f"{where}: there is no such parameter; there are {', '.join(known) or 'none at all'}"
    if one["type"] == "missing":
        return f"{where}: missing; it has to be given"
    value = one.get("input")
    shown = shortened(value) if isinstance(value, str) else shortened(repr(value)).strip("'\"")
    return f"{where}: {one['msg']}, found {shown}"


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise _refused(
            function, f"has a type that cannot be found: {error}; import it at the top of the file"
        ) from error


def _field(function: Callable[..., Any], parameter: inspect.Parameter, hints: dict[str, Any]) -> tuple[Any, Any]:
    if parameter.kind not in _NAMED:
        raise _refused(function, f"takes {parameter}, which a model cannot name; list every parameter by its name")
    if parameter.name not in hints:
        raise _refused(function, f"does not say the type of {parameter.name!r}; annotate it")
    if hints[parameter.name] is ToolScope:
        raise _refused(function, f"takes its scope as {parameter.name!r}; the scope has to be the first parameter")
    default = ... if parameter.default is inspect.Parameter.empty else parameter.default
    return hints[parameter.name], Field(default, alias=parameter.name)


def _refused(function: Callable[..., Any], why: str) -> ToolDefinitionError:
    return ToolDefinitionError(f"{function.__module__}.{function.__qualname__} cannot be a tool: it {why}")


def _resolved(schema: Any, definitions: Mapping[str, Any], depth: int = 5) -> Json:
    """A schema with references replaced, a few levels deep: what says how a parameter is written stands at the top."""
    if not isinstance(schema, Mapping):
        return {}
    found = dict(schema)
    reference = found.pop("$ref", None)
    if isinstance(reference, str) and depth:
        found = {**_resolved(definitions.get(reference.rpartition("/")[2]), definitions, depth - 1), **found}
    for key in ("anyOf", "oneOf"):
        if isinstance(found.get(key), list):
            found[key] = [_resolved(option, definitions, depth - 1) for option in found[key]] if depth else []
    return found


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "one of: " + ", ".join(str(value) for value in schema["enum"])
    if "const" in schema:
        return f"only: {schema['const']}"
    name = schema.get("type")
    words = {"string": "text", "boolean": "true or false", "array": "JSON array", "object": "JSON object"}
    return words.get(name, name) if isinstance(name, str) else "anything"
