from __future__ import annotations

import copy
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import BadRowError
from store.jsontext import json_dumps, safe_json_loads
from store.statechanges import changes_between, states_along, with_changes
from tests.store.values import CLEAN_TEXT, PLAIN
from tests.support import examples

#: values that Python takes for equal and JSON does not, few enough to meet each other
ALIKE = st.sampled_from([0, 0.0, -0.0, False, 1, 1.0, True, None, "", "a", "a" * 16, "a" * 20, float("nan")])
KEYS = st.sampled_from(["a", "b", "=", "+", "in", "set", "0"])
STATES = st.recursive(
    ALIKE | CLEAN_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=16,
)


def stored(value: Any) -> Any:
    """A value as it comes back from the store."""
    return safe_json_loads(json_dumps(value))


@given(old=STATES | PLAIN, new=STATES | PLAIN)
@examples(600)
def test_the_changes_give_exactly_the_new_state(old: Any, new: Any) -> None:
    before, after = stored(old), stored(new)
    changes = stored(changes_between(before, after))
    assert json_dumps(with_changes(before, changes)) == json_dumps(after)


@given(state=STATES, edits=st.lists(st.tuples(st.integers(0, 5), KEYS, STATES), max_size=6))
@examples(200)
def test_a_chain_of_changes_gives_every_state_on_its_way(state: Any, edits: list[tuple[int, str, Any]]) -> None:
    states: list[Any] = [{"items": [], "text": "it begins here ", "kept": stored(state)}]
    for number, key, value in edits:
        states.append(edited(states[-1], number, key, value))
    changes = [stored(changes_between(old, new)) for old, new in pairwise(states)]
    found = [states[0], *states_along(states[0], changes)]
    assert [json_dumps(one) for one in found] == [json_dumps(one) for one in states]


def edited(state: Any, number: int, key: str, value: Any) -> Any:
    """The next state of an agent that appends, cuts and rewrites."""
    new: Any = copy.deepcopy(state)
    match number:
        case 0:
            new["items"].append(value)
        case 1:
            new["text"] += "and goes on "
        case 2:
            new["items"] = [*new["items"][1:], value]
        case 3:
            new["items"] = new["items"][:-1]
        case 4:
            new = {key: value, **new}
        case _:
            new.pop(key, None)
    return stored(new)


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1}, {"a": 2}, {"set": {"a": 2}}),
        ({"a": 1}, {"a": True}, {"set": {"a": True}}),
        ({"a": {"b": 1}}, {"a": {"b": 1.0}}, {"in": {"a": {"set": {"b": 1.0}}}}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"order": ["b", "a"]}),
        ({"a": 1, "b": 2}, {"b": 2}, {"drop": ["a"]}),
        ({"a": 1}, {"a": 1, "b": None}, {"set": {"b": None}}),
        ({"a": [1, 2]}, {"a": [1, 2, 3]}, {"in": {"a": {"+": [3]}}}),
        ({"a": [1, 2, 3]}, {"a": [2, 3, 4]}, {"in": {"a": {"skip": 1, "+": [4]}}}),
        ({"a": [1, 2, 3]}, {"a": [1]}, {"in": {"a": {"keep": 1}}}),
        ({"a": [{"b": [1]}, 2]}, {"a": [{"b": [1, 1]}, 2]}, {"in": {"a": {"in": {"0": {"in": {"b": {"+": [1]}}}}}}}),
        ({"a": "a text that grows"}, {"a": "a text that grows."}, {"in": {"a": {"+": "."}}}),
        ({"a": "short"}, {"a": "shorter"}, {"set": {"a": "shorter"}}),
        ({"a": 1}, [1], {"=": [1]}),
    ],
)
def test_changes_say_what_happened(old: Any, new: Any, changes: Any) -> None:
    assert json_dumps(changes_between(old, new)) == json_dumps(changes)
    assert json_dumps(with_changes(old, changes)) == json_dumps(new)


def test_the_rebuilt_state_shares_nothing() -> None:
    old = {"same": [[1]], "grown": [[2]]}
    changes = changes_between(old, {"same": [[1]], "grown": [[2], [3]], "new": [[4]]})
    before, told = copy.deepcopy(old), copy.deepcopy(changes)
    new = with_changes(old, changes)
    for key in new:
        new[key][-1].append("changed")
    assert (old, changes) == (before, told)


def test_reading_along_a_chain_changes_neither_the_states_nor_the_changes() -> None:
    changes: list[Any] = [{"set": {"a": [1]}}, {"in": {"a": {"+": [2]}}}, {"in": {"a": {"+": [3]}}}]
    assert list(states_along({}, changes)) == [{"a": [1]}, {"a": [1, 2]}, {"a": [1, 2, 3]}]
    assert changes[0] == {"set": {"a": [1]}}


@pytest.mark.parametrize(
    ("old", "changes"),
    [
        ({}, {"drop": ["gone"]}),
        ({"a": 1}, {"in": {"b": {"=": 1}}}),
        ([1], {"in": {"5": {"=": 1}}}),
        (7, {"+": "text"}),
        ("text", {"in": {}, "set": {}}),
        ({"a": 1}, {"order": ["a", "b"]}),
        ({"a": 1}, "not changes"),
    ],
)
def test_changes_of_another_state_are_refused(old: Any, changes: Any) -> None:
    with pytest.raises(BadRowError, match="is a row damaged"):
        with_changes(old, changes)


@pytest.mark.parametrize("depth", [30, 60, 200])
def test_a_deep_state_is_replaced_rather_than_walked_through(depth: int) -> None:
    old: Any = 1
    new: Any = 2
    for _ in range(depth):
        old, new = {"in": old}, {"in": new}
    assert json_dumps(with_changes(old, stored(changes_between(old, new)))) == json_dumps(new)


def test_a_state_that_is_too_deep_to_compare_is_replaced() -> None:
    old: Any = 1
    new: Any = 2
    for _ in range(3_000):
        old, new = {"in": old}, {"in": new}
    assert changes_between(old, new)["="] is new


def test_a_large_state_is_compared_in_well_under_a_millisecond_and_a_small_one_in_microseconds() -> None:
    items = [{"role": "user", "text": f"{number:04}" * 240} for number in range(500)]
    large, grown = stored({"n": 1, "items": items}), stored({"n": 2, "items": [*items, {"text": "x" * 950}]})
    assert len(json_dumps(changes_between(large, grown))) < 1_100
    # Ten times what it takes here, so that a busy machine does not fail it; walking through all of it takes longer.
    assert fastest(lambda: changes_between(large, grown)) < 2e-3
    small = {"n": 1, "done": ["a"], "topic": "x"}
    assert fastest(lambda: changes_between(small, {**small, "n": 2})) < 50e-6


def fastest(work: Any) -> float:
    took = []
    for _ in range(30):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return min(took)
