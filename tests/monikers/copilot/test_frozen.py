"""Lists and dicts that cannot be changed, plain ones, and copies (spec 2 §6.5.2)."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monikers.copilot import Blackboard, Event, Fact, ReadOnlyError, plain
from monikers.copilot.frozen import FrozenDict, FrozenList, copied, frozen
from tests.support import examples

CHANGES: dict[str, Any] = {
    "dict set": lambda box: box["d"].__setitem__("x", 1),
    "dict delete": lambda box: box["d"].__delitem__("a"),
    "dict join": lambda box: box["d"].__ior__({"x": 1}),
    **{
        f"dict {name}": (lambda box, name=name: getattr(box["d"], name)())
        for name in ("clear", "pop", "popitem", "setdefault", "update")
    },
    "list set": lambda box: box["l"].__setitem__(0, 1),
    "list delete": lambda box: box["l"].__delitem__(0),
    "list add": lambda box: box["l"].__iadd__([1]),
    "list times": lambda box: box["l"].__imul__(2),
    **{
        f"list {name}": (lambda box, name=name: getattr(box["l"], name)())
        for name in ("append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort")
    },
    "deep": lambda box: box["l"][0]["x"].append(1),
    "in a tuple": lambda box: box["t"][0].append(1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_no_change_of_a_list_or_dict_goes_through(change: Any) -> None:
    box = frozen({"d": {"a": 1}, "l": [{"x": [1]}], "t": ([1],), "s": {1}})
    before = repr(box)
    with pytest.raises(ReadOnlyError, match="variable_updates"):
        change(box)
    assert repr(box) == before
    assert isinstance(box["s"], frozenset)


def test_every_way_in_which_a_list_or_dict_changes_is_refused() -> None:
    """Of the methods that Python gives them, those that change nothing are known by name."""
    reading = {"copy", "fromkeys", "get", "items", "keys", "values", "count", "index"}
    for kind, base in ((FrozenDict, dict), (FrozenList, list)):
        changing = [name for name in dir(base) if not name.startswith("_") and name not in reading]
        changing += [
            name for name in ("__setitem__", "__delitem__", "__ior__", "__iadd__", "__imul__") if hasattr(base, name)
        ]
        assert [name for name in changing if getattr(kind, name) is getattr(base, name)] == []


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3) | st.tuples(inner, inner)
    ),
    max_leaves=8,
)


@given(VALUES)
@examples(150)
def test_freezing_and_copying_keep_what_a_value_says(value: Any) -> None:
    assert frozen(value) == copied(value) == copied(frozen(value)) == value
    assert json.dumps(plain(frozen(value))) == json.dumps(value)
    assert copy.deepcopy(frozen(value)) == plain(value) or isinstance(value, tuple)
    assert frozen(frozen(value)) == frozen(value)


@pytest.mark.parametrize("make", [plain, copied, copy.deepcopy])
def test_what_is_made_plain_may_be_changed_and_changes_nothing_else(make: Any) -> None:
    inside: dict[str, Any] = {"d": {"a": [1]}}
    for value in (inside, frozen(inside), Blackboard(variables=inside).variables):
        again = make(value)
        again["d"]["a"].append(2)
        again["d"]["b"] = 1
        assert value == {"d": {"a": [1]}}


def test_plain_makes_records_and_sets_what_json_has() -> None:
    found = plain({"f": Fact(type="t", value=(1, {3, 2})), "e": [Event(name="e")], "o": (object,)})
    assert found["f"]["value"] == [1, [2, 3]]
    assert found["e"][0]["name"] == "e"
    assert found["o"] == [object]


@pytest.mark.parametrize("make", [frozen, copied])
def test_a_value_that_holds_itself_is_refused(make: Any) -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(RecursionError):
        make(loop)
