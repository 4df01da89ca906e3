"""Values as JSON has them: what is left out, and that the same again gives the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monikers.copilot import Blackboard, Fact, InsightType
from monikers.copilot.jsonvalues import MAX_BITS, MAX_DEPTH, json_object, json_value
from tests.support import examples


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ({"a": [1, 2.5, "x", True, None]}, {"a": [1, 2.5, "x", True, None]}),
        ({"a": (1, (2,))}, {"a": [1, [2]]}),
        ({"a": {2, 1}}, {"a": [1, 2]}),
        ({1: "a", 2.5: "b"}, {"1": "a", "2.5": "b"}),
        ({None: 1, (1, 2): 2, b"x": 3}, {}),
        ({"a": object(), "b": b"x", "c": float("nan"), "d": float("-inf")}, {}),
        ({"a": [object(), 1]}, {"a": [None, 1]}),
        ({"a": 2**MAX_BITS, "b": 2 ** (MAX_BITS - 1)}, {"b": 2 ** (MAX_BITS - 1)}),
        ({"a": InsightType.FACT}, {"a": "fact"}),
        ({"\ud800": "half \udfff"}, {"?": "half ?"}),
        ({"a": "Größe"}, {"a": "Größe"}),
        (Blackboard(variables={"x": {"y": [1]}}).variables, {"x": {"y": [1]}}),
        (Blackboard(variables={"x": {"y": [1]}}).snapshot().variables, {"x": {"y": [1]}}),
        *((nothing, {}) for nothing in (None, [], [1], "x", 5, object())),
    ],
    ids=lambda one: str(type(one).__name__),
)
def test_a_value_as_json_has_it(value: Any, kept: dict[str, Any]) -> None:
    found = json_object(value)
    assert found == kept
    assert json.loads(json.dumps(found, allow_nan=False)) == kept


def test_a_record_is_its_fields() -> None:
    assert json_object({"f": Fact(type="t", value=(1,))})["f"]["value"] == [1]


@pytest.mark.parametrize("inner", [dict, list])
def test_what_is_too_deep_or_holds_itself_is_left_out(inner: type) -> None:
    loop: Any = inner()
    loop.append(loop) if inner is list else loop.__setitem__("x", loop)
    depth = 0
    found: Any = json_object({"x": loop})
    while found:
        found, depth = (found["x"] if isinstance(found, dict) else found[0]), depth + 1
    assert depth in (MAX_DEPTH - 1, MAX_DEPTH)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.none() | st.integers() | st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4))
@examples(300)
def test_the_same_again_gives_the_same_through_any_writer_of_json(value: dict[str, Any]) -> None:
    kept = json_object(value)
    assert json_object(kept) == kept
    assert json.loads(json.dumps(kept, allow_nan=False, ensure_ascii=False).encode()) == kept


def test_something_may_stand_for_what_json_does_not_know() -> None:
    odd = {"a": [object(), {"b": float("inf")}], "c": 2**MAX_BITS}
    assert json_value(odd, lambda value: type(value).__name__) == {"a": ["object", {"b": "float"}], "c": "int"}
    assert json_value(object(), lambda value: "?") == "?"


def test_what_is_given_back_is_nobody_elses() -> None:
    held: dict[str, Any] = {"list": [1], "dict": {"a": 1}}
    kept = json_object(held)
    held["list"].append(2)
    held["dict"]["b"] = 2
    assert kept == {"list": [1], "dict": {"a": 1}}
