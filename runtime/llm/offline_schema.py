"""The offline model's structured answers: a value that a JSON Schema allows, always the same one.

Values are proposed keyword by keyword and kept when they are valid, so a value that comes out is valid under the whole
schema. Not every schema that has values is solved (no search is complete); then `NoInstanceError` says so.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable

from runtime.llm.offline_pattern import strings_for

Schema = dict[str, Any]

MAX_DEPTH = 9
MAX_PROPOSALS = 200
MAX_ITEMS = 1_000
TYPES = ("object", "string", "integer", "number", "boolean", "array", "null")
#: keywords that say which type is meant when `type` does not
_TELLING = {
    "object": ("properties", "required", "minProperties", "patternProperties", "additionalProperties"),
    "array": ("items", "prefixItems", "minItems", "contains", "uniqueItems"),
    "string": ("pattern", "format", "minLength", "maxLength"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
_BRANCHING = ("allOf", "anyOf", "oneOf", "$ref", "$dynamicRef", "if", "then", "else")


class NoInstanceError(ValueError):
    """No value was found that the schema allows: there is none, or finding it is beyond this rule."""


def valid_instance(schema: Schema) -> Any:
    """A value that is valid under `schema`. Raises `NoInstanceError`."""
    try:
        Draft202012Validator.check_schema(schema)
        found = next(_Solver(schema).values(schema, 0), _NOTHING)
    except (SchemaError, Unresolvable, RecursionError) as error:
        raise NoInstanceError(f"the schema cannot be applied: {str(error)[:200]}") from error
    if found is _NOTHING:
        raise NoInstanceError(f"no value found for the schema {json.dumps(schema)[:200]}; simplify it")
    return found


_NOTHING = object()


class _Solver:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self._validator = Draft202012Validator(root, registry=Registry())

    def values(self, schema: Any, depth: int) -> Iterator[Any]:
        """Different valid values, the simplest first."""
        if schema is False or depth > MAX_DEPTH:
            return
        seen: set[str] = set()
        proposed = iter(_ANYTHING) if schema is True else self._proposals(schema, depth)
        for value in islice(proposed, MAX_PROPOSALS):
            shown = json.dumps(value, sort_keys=True)
            if shown not in seen and self._validator.evolve(schema=schema).is_valid(value):
                seen.add(shown)
                yield value

    def _proposals(self, schema: Schema, depth: int) -> Iterator[Any]:
        yield from _said(schema)
        ways = (_said(flat) for flat in self._flat(schema, depth))
        yield from _in_turn([*ways])
        # in turn, so that a branch without values does not use all proposals up
        typed = ((name, flat) for flat in self._flat(schema, depth) for name in _types(flat))
        yield from _in_turn([self._of_type(name, flat, depth) for name, flat in typed])

    def _flat(self, schema: Schema, depth: int) -> Iterator[Schema]:
        """The schema without branches, once for each combination of them."""
        if depth > MAX_DEPTH:
            return
        rest = {key: value for key, value in schema.items() if key not in _BRANCHING}
        wholes: list[Any] = [*schema.get("allOf", ())]
        wholes += [self._resolve(schema[key]) for key in ("$ref", "$dynamicRef") if key in schema]
        for whole in wholes:
            if isinstance(whole, dict):
                rest = _merged(rest, whole)
        choices: list[list[Any]] = [schema[key] for key in ("anyOf", "oneOf") if key in schema]
        if "if" in schema:
            yes = _merged(_as_dict(schema["if"]), _as_dict(schema.get("then", True)))
            choices.append([yes, schema.get("else", True)])
        if not choices and not any(key in rest for key in _BRANCHING):
            yield rest
            return
        for combination in _combinations(choices):
            merged = rest
            for part in combination:
                merged = _merged(merged, _as_dict(part))
            yield from self._flat(merged, depth + 1)

    def _resolve(self, reference: str) -> Any:
        if not reference.startswith("#"):
            raise NoInstanceError(f"the schema refers to {reference!r}, outside itself; put that into its $defs")
        found: Any = self._root
        for step in reference[1:].strip("/").split("/") if reference not in ("#", "#/") else ():
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            elif isinstance(found, dict) and name in found:
                found = found[name]
            else:
                raise NoInstanceError(f"the schema refers to {reference!r}, which it does not have")
        return found

    def _of_type(self, name: str, schema: Schema, depth: int) -> Iterator[Any]:
        match name:
            case "object":
                yield from self._objects(schema, depth)
            case "array":
                yield from self._arrays(schema, depth)
            case "string":
                yield from strings_for(schema)
            case "integer" | "number":
                yield from _numbers(schema, whole=name == "integer")
            case "boolean":
                yield from (False, True)
            case _:
                yield None

    def _objects(self, schema: Schema, depth: int) -> Iterator[Any]:
        properties = _as_dict(schema.get("properties", {}))
        required = [str(name) for name in schema.get("required", ())]
        least = schema.get("minProperties", 0)
        optional = [name for name in properties if name not in required]
        names_too = {"allOf": [schema.get("propertyNames", True), {"type": "string"}]}
        free = list(islice(self.values(names_too, depth + 1), min(least, 50)))
        for count in (max(0, least - len(required)), len(optional)):
            names = list(dict.fromkeys([*required, *optional[:count]]))
            for name in names:
                names += [more for more in _dependent(schema, name) if more not in names]
            names += [name for name in free if name not in names][: max(0, least - len(names))]
            found: dict[str, Any] = {}
            for name in names:
                value = next(self.values(self._property(schema, name), depth + 1), _NOTHING)
                if value is not _NOTHING:
                    found[name] = value
            yield found

    def _property(self, schema: Schema, name: str) -> Any:
        parts = [schema["properties"][name]] if name in _as_dict(schema.get("properties", {})) else []
        for pattern, part in _as_dict(schema.get("patternProperties", {})).items():
            # asked of the library, so that a pattern means here what it means there
            if Draft202012Validator({"pattern": pattern}).is_valid(name):
                parts.append(part)
        if not parts:
            return schema.get("additionalProperties", schema.get("unevaluatedProperties", True))
        return parts[0] if len(parts) == 1 else {"allOf": parts}

    def _arrays(self, schema: Schema, depth: int) -> Iterator[Any]:
        head: list[Any] = []
        for part in schema.get("prefixItems", ()):
            value = next(self.values(part, depth + 1), _NOTHING)
            if value is _NOTHING:
                break
            head.append(value)
        least = min(schema.get("minItems", 0), MAX_ITEMS)
        items = schema.get("items", True)
        wanted = schema.get("minContains", 1) if "contains" in schema else 0
        held = {"allOf": [schema.get("contains", True), items]}
        unique = bool(schema.get("uniqueItems"))
        for start in (head[:least], head):
            inside = self._several(held, wanted, depth, unique)
            more = self._several(items, max(0, least - len(start) - len(inside)) + len(start), depth, unique)
            rest = [value for value in more if not unique or (value not in start and value not in inside)]
            yield [*start, *inside, *rest[: max(0, least - len(start) - len(inside))]]

    def _several(self, schema: Any, count: int, depth: int, unique: bool) -> list[Any]:
        if count <= 0:
            return []
        if unique:
            return list(islice(self.values(schema, depth + 1), count))
        one = next(self.values(schema, depth + 1), _NOTHING)
        return [] if one is _NOTHING else [one] * count


_ANYTHING: Sequence[Any] = ("offline", *(f"offline {number}" for number in range(2, 100)))


def _said(schema: Schema) -> Iterator[Any]:
    """The values that the schema itself names."""
    if "const" in schema:
        yield schema["const"]
    yield from schema.get("enum", ())
    if "default" in schema:
        yield schema["default"]
    yield from schema.get("examples", ())


def _in_turn(sources: list[Iterator[Any]]) -> Iterator[Any]:
    """One value of each source, then the next of each."""
    while sources:
        for source in list(sources):
            value = next(source, _NOTHING)
            if value is _NOTHING:
                sources.remove(source)
            else:
                yield value


def _types(schema: Schema) -> Sequence[str]:
    named = schema.get("type")
    if isinstance(named, str):
        return (named,)
    if isinstance(named, list):
        return named
    told = [name for name, keys in _TELLING.items() if any(key in schema for key in keys)]
    return [*told, *(name for name in ("string", *TYPES) if name not in told)]


def _as_dict(part: Any) -> Schema:
    """A schema as an object; `False` as one that allows nothing."""
    if part is False:
        return {"not": {}}
    return part if isinstance(part, dict) else {}


def _combinations(choices: list[list[Any]]) -> Iterator[list[Any]]:
    if not choices:
        yield []
        return
    for first in choices[0]:
        for others in _combinations(choices[1:]):
            yield [first, *others]


def _dependent(schema: Schema, name: str) -> list[str]:
    return [str(more) for more in _as_dict(schema.get("dependentRequired", {})).get(name, ())]


def _merged(one: Schema, two: Schema) -> Schema:
    """Both schemas in one, as far as keywords can be joined; the validator has the last word."""
    merged = dict(one)
    for key, value in two.items():
        merged[key] = _joined(key, merged[key], value) if key in merged else value
    return merged


def _joined(key: str, one: Any, two: Any) -> Any:
    if key in ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"):
        return max(one, two)
    if key in ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"):
        return min(one, two)
    if key in ("required", "allOf"):
        return [*one, *(item for item in two if item not in one)]
    if key == "enum":
        return [item for item in one if item in two]
    if key == "type":
        return _common_types(one, two)
    if key in ("properties", "patternProperties", "$defs", "dependentRequired"):
        both = dict(one)
        for name, part in two.items():
            both[name] = {"allOf": [both[name], part]} if name in both and key.endswith("roperties") else part
        return both
    if key == "multipleOf" and isinstance(one, int) and isinstance(two, int):
        return math.lcm(one, two)
    if key in ("items", "additionalProperties", "propertyNames") and one != two:
        return {"allOf": [one, two]}
    return two


def _common_types(one: Any, two: Any) -> list[str]:
    ones, twos = ([part] if isinstance(part, str) else part for part in (one, two))
    common = [name for name in ones if name in twos]
    if "integer" not in common and {"integer", "number"} <= {*ones, *twos}:
        common.append("integer")  # an integer is a number too
    return common


def _numbers(schema: Schema, *, whole: bool) -> Iterator[Any]:
    step = schema.get("multipleOf", 1)
    low = max((schema[key] for key in ("minimum", "exclusiveMinimum") if key in schema), default=None)
    high = min((schema[key] for key in ("maximum", "exclusiveMaximum") if key in schema), default=None)
    start = 0 if low is None or (low <= 0 and (high is None or high >= 0)) else low
    if low is None and high is not None and high < 0:
        start = high
    for number in range(MAX_PROPOSALS // 4):
        base = math.ceil(start / step) if start >= 0 or low is not None else math.floor(start / step)
        direction = -1 if low is None and high is not None else 1
        value = (base + direction * number) * step
        yield int(value) if whole or float(value).is_integer() else value
    if not whole:
        yield from (bound for bound in (low, high) if bound is not None)
        if low is not None and high is not None:
            yield (low + high) / 2
        yield from ((start + 0.5), (start - 0.5))
