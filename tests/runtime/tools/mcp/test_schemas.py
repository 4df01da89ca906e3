"""Schemas of strangers: what is left of them is small, checked quickly, and never stricter than the schema was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from runtime.tools.errors import ArgumentsError
from runtime.tools.mcp.config import ServerName
from runtime.tools.mcp.names import local_name, param_name
from runtime.tools.mcp.plain import plain_text
from runtime.tools.mcp.schemas import MAX_CHARS, SchemaRefused, checker, fitted
from runtime.tools.reserved import is_tag_name


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def accepts(schema: Any, arguments: dict[str, Any]) -> bool:
    try:
        checker(fitted(schema).schema)(arguments)
    except ArgumentsError:
        return False
    return True


def test_references_are_put_in_their_places() -> None:
    schema = obj(a={"$ref": "#/$defs/word"}, b={"$ref": "#/$defs/word", "description": "mine"})
    schema["$defs"] = {"word": {"type": "string", "maxLength": 3, "description": "theirs"}}
    made = fitted(schema).schema
    assert made["properties"]["a"] == {"type": "string", "maxLength": 3, "description": "theirs"}
    assert made["properties"]["b"]["description"] == "mine"
    assert "$defs" not in made
    assert accepts(schema, {"a": "abc"})
    assert not accepts(schema, {"a": "abcd"})


def test_a_reference_beside_checks_keeps_both() -> None:
    schema = obj(a={"$ref": "#/$defs/word", "maxLength": 10})
    schema["$defs"] = {"word": {"type": "string", "maxLength": 3}}
    assert not accepts(schema, {"a": "abcd"})


def test_a_reference_into_itself_ends() -> None:
    schema = obj(tree={"$ref": "#/$defs/node"})
    schema["$defs"] = {"node": obj(left={"$ref": "#/$defs/node"}, name={"type": "string"})}
    assert accepts(schema, {"tree": {"left": {"left": 7}, "name": "x"}})
    assert not accepts(schema, {"tree": {"name": 7}})
    assert accepts(obj(a={"$ref": "#"}), {"a": {"a": {"a": {}}}})
    assert not accepts(obj(a={"$ref": "#"}), {"a": 1})


@pytest.mark.parametrize(
    "schema",
    [
        [],
        "object",
        None,
        {"type": "array"},
        {"type": ["object", "null"]},
        obj(a=7),
        obj(a={"type": 7}),
        obj(a={"type": "text"}),
        obj(a={"$ref": "http://evil.example/x"}),
        obj(a={"$ref": "other.json#/a"}),
        obj(a={"$ref": "#/nowhere"}),
        obj(a={"$ref": "#anchor"}),
        obj(a={"$ref": 3}),
        obj(a={"$dynamicRef": "#a"}),
        obj(**{"a\u202eb": {}}),
        obj(**{"a" * 101: {}}),
        obj(a={"enum": ["x" * MAX_CHARS]}),
        obj(a={"properties": {f"p{number}": {} for number in range(1001)}}),
        {**obj(), "required": "a"},
    ],
)
def test_what_cannot_be_used_is_refused(schema: Any) -> None:
    with pytest.raises(SchemaRefused):
        fitted(schema)


def test_a_few_lines_cannot_become_millions_of_parts() -> None:
    bomb = obj(a={"$ref": "#/$defs/d0"})
    bomb["$defs"] = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 10} for n in range(12)}
    bomb["$defs"]["d12"] = {"type": "string"}
    with pytest.raises(SchemaRefused, match=r"parts|deep"):
        fitted(bomb)


def test_a_deep_schema_does_not_overflow() -> None:
    deep: Any = {"type": "string"}
    for _ in range(400):
        deep = {"items": deep}
    with pytest.raises(SchemaRefused, match="deep"):
        fitted(obj(a=deep))


def test_no_regular_expression_of_a_stranger_runs() -> None:
    evil = obj(a={"type": "string", "pattern": "(a|a)*(a|a)*(a|a)*b"})
    assert accepts(evil, {"a": "a" * 50_000})
    assert "pattern" in fitted(evil).schema["properties"]["a"]


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        (obj(a={"not": {"pattern": "^x"}}), {"a": "y"}),
        (obj(a={"oneOf": [{"pattern": "^x"}, {"pattern": "^y"}]}), {"a": "y"}),
        (obj(a={"if": {"pattern": "^x"}, "then": {"maxLength": 1}}), {"a": "yy"}),
        ({**obj(), "patternProperties": {"^x": {}}, "additionalProperties": False}, {"x1": 1}),
        (obj(a={"contains": {"pattern": "^x"}, "maxContains": 1}), {"a": ["x", "y"]}),
        (obj(a={"items": [{"type": "string"}, {"type": "integer"}]}), {"a": ["x", 1]}),
    ],
)
def test_the_check_is_never_stricter_than_the_schema(schema: Any, arguments: Any) -> None:
    assert accepts(schema, arguments)


PARTS = st.recursive(
    st.sampled_from(
        [
            {},
            True,
            {"type": "string"},
            {"type": "integer", "minimum": 3},
            {"type": "string", "pattern": "^x"},
            {"enum": ["x", 4]},
            {"const": 4},
            {"type": ["null", "array"], "maxItems": 1},
            {"$ref": "#/$defs/d"},
        ]
    ),
    lambda inner: st.one_of(
        st.builds(lambda key, value: {key: value}, st.sampled_from(["items", "not", "contains"]), inner),
        st.builds(
            lambda key, value: {key: value},
            st.sampled_from(["anyOf", "oneOf", "allOf"]),
            st.lists(inner, min_size=1, max_size=3),
        ),
        st.builds(lambda part: {"type": "object", "properties": {"k": part}, "additionalProperties": False}, inner),
        st.builds(lambda one, two: {"if": one, "then": two}, inner, inner),
        st.builds(lambda part: {"patternProperties": {"^k": part}, "additionalProperties": False}, inner),
    ),
    max_leaves=6,
)
VALUES = st.recursive(
    st.sampled_from(["x", "xy", "a", 3, 4, 1, None, True]),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["k", "other"]), inner)),
    max_leaves=4,
)


@given(PARTS, PARTS, VALUES)
def test_whatever_fits_the_schema_passes_the_check(part: Any, shared: Any, value: Any) -> None:
    schema = {**obj(a=part), "$defs": {"d": shared if "$ref" not in json.dumps(shared) else {}}}
    if Draft202012Validator(schema).is_valid({"a": value}):
        assert accepts(schema, {"a": value})


@given(st.text(max_size=100), st.text(max_size=100))
def test_names_fit_and_differ(one: str, other: str) -> None:
    server = ServerName("srv")
    for name in (one, other):
        assert is_tag_name(local_name(server, name))
        assert is_tag_name(param_name(name))
        assert local_name(server, name).startswith("srv_")
    if one != other:
        assert local_name(server, one) != local_name(server, other)
        assert param_name(one) != param_name(other)


@given(st.text())
def test_plain_text_hides_nothing(text: str) -> None:
    assert all(letter == "\n" or letter.isprintable() or letter.isspace() for letter in plain_text(text))


def test_plain_text_is_bounded() -> None:
    assert len(plain_text("x" * 1_000_000)) < 5_000
    assert plain_text("a\u200bb\U000e0041c\td") == "abc d"
