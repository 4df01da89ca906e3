"""From the text between two tags to the value that a tool's schema asks for.

Text stays text, byte for byte. A choice (enum, constant) and text of a format (date, uuid) lose the white space around
them, numbers, truth values, lists and objects are read as JSON. What does not fit is handed on as text, so that the
tool's own check says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.tools.jsonvalue import read_json
from runtime.tools.schema import ParamSpec, options


def value_of(text: str, spec: ParamSpec) -> Any:
    """The JSON value that `text` stands for under the parameter's schema. Never raises."""
    choices = options(spec.schema)
    if any(_takes_any_text(choice) for choice in choices):
        return text
    bare = text.strip()
    if any(bare in map(str, _listed(choice)) and _is_text(choice) for choice in choices):
        return bare
    found = _read_json(bare)
    wanted = _wants_text(choices) if isinstance(found, str) else not all(map(_is_only_text, choices))
    return found if wanted and found is not _NOTHING else bare


class _Nothing:
    """What was read when the text is no JSON."""


_NOTHING = _Nothing()


def _takes_any_text(schema: Mapping[str, Any]) -> bool:
    if "enum" in schema or "const" in schema:
        return False
    if "type" not in schema:
        return not schema.get("properties")
    return _has_type(schema, "string") and "format" not in schema


def _is_text(schema: Mapping[str, Any]) -> bool:
    return any(isinstance(value, str) for value in _listed(schema))


def _wants_text(choices: tuple[Mapping[str, Any], ...]) -> bool:
    return any(_has_type(choice, "string") or _is_text(choice) for choice in choices)


def _is_only_text(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "string"


def _has_type(schema: Mapping[str, Any], name: str) -> bool:
    """Whether the schema names the type, alone or in a list of several."""
    named = schema.get("type")
    return name in named if isinstance(named, list) else named == name


def _listed(schema: Mapping[str, Any]) -> list[Any]:
    return [schema["const"]] if "const" in schema else list(schema.get("enum") or ())


def _read_json(text: str) -> Any:
    try:
        return read_json(text)
    except ValueError:
        return _NOTHING
