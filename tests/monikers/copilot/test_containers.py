"""One list and one dict of a board, changed in every way that lists and dicts have, under views taken in between."""

from __future__ import annotations

import copy
import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monikers.copilot import Blackboard, plain
from tests.support import examples

LIST_CHANGES: dict[str, Any] = {
    "append": lambda box: box.append(7),
    "extend": lambda box: box.extend([8, 9]),
    "insert": lambda box: box.insert(1, 6),
    "pop": lambda box: box.pop() if box else None,
    "pop first": lambda box: box.pop(0) if box else None,
    "remove": lambda box: box.remove(7) if 7 in box else None,
    "clear": lambda box: box.clear(),
    "reverse": lambda box: box.reverse(),
    "sort": lambda box: box.sort(),
    "sort by": lambda box: box.sort(key=lambda item: -item, reverse=False),
    "set": lambda box: box.__setitem__(0, 5) if box else None,
    "set slice": lambda box: box.__setitem__(slice(0, 1), [1, 2]),
    "delete": lambda box: box.__delitem__(-1) if box else None,
    "delete slice": lambda box: box.__delitem__(slice(0, 1)),
    "add": lambda box: box.__iadd__([3]),
    "times": lambda box: box.__imul__(2) if len(box) < 20 else None,
}
DICT_CHANGES: dict[str, Any] = {
    "set": lambda box: box.__setitem__("a", len(box)),
    "set another": lambda box: box.__setitem__("b", len(box)),
    "set a third": lambda box: box.__setitem__("c", len(box)),
    "delete": lambda box: box.__delitem__("a") if "a" in box else None,
    "pop": lambda box: box.pop("b", None),
    "popitem": lambda box: box.popitem() if box else None,
    "clear": lambda box: box.clear(),
    "setdefault": lambda box: box.setdefault("a", 9),
    "update": lambda box: box.update({"c": 1}, d=2),
    "join": lambda box: box.__ior__({"e": 3}),
}


def check(start: Any, changes: list[str], table: dict[str, Any]) -> None:
    """Do the same to a list or dict of a board and to a plain one; every view shows what was there when it was
    taken."""
    board, model, views = Blackboard(variables={"box": start}), copy.deepcopy(start), []
    for name in changes:
        if name == "view":
            views.append((board.snapshot(), json.dumps(model)))
        else:
            table[name](board.variables["box"])
            table[name](model)
        assert json.dumps(board.variables["box"]) == json.dumps(model)
    # Read at the end only: what is read once is kept.
    for view, shown in views:
        assert json.dumps(view.variables["box"]) == shown


@given(st.lists(st.integers(0, 3), max_size=3), st.lists(st.sampled_from(["view", *LIST_CHANGES]), max_size=12))
@examples(300)
def test_a_list(start: list[int], changes: list[str]) -> None:
    check(start, changes, LIST_CHANGES)


@given(st.lists(st.sampled_from(["view", *DICT_CHANGES]), max_size=12))
@examples(300)
def test_a_dict(changes: list[str]) -> None:
    check({"a": 1, "b": 2}, changes, DICT_CHANGES)


@pytest.mark.parametrize("first", LIST_CHANGES)
@pytest.mark.parametrize("second", LIST_CHANGES)
def test_two_changes_of_a_list_under_views(first: str, second: str) -> None:
    check([2, 7, 1], ["view", first, "view", second], LIST_CHANGES)


def test_what_is_put_in_is_copied() -> None:
    given_list, given_dict = [1, [2]], {"a": {"b": 1}}
    board = Blackboard(variables={"list": given_list}, memory={"agent": given_dict})
    board.set_var("dict", given_dict)
    given_list[1].append(3)  # type: ignore[attr-defined]
    given_dict["a"]["b"] = 2
    assert board.variables == {"list": [1, [2]], "dict": {"a": {"b": 1}}}
    assert board.memory == {"agent": {"a": {"b": 1}}}


def test_to_a_host_they_are_lists_and_dicts() -> None:
    board = Blackboard(variables={"x": {"y": [1, 2]}, "z": (1, [2])}, queues={"q": ["a"]})
    assert isinstance(board.variables, dict)
    assert isinstance(board.queues["q"], list)
    assert json.loads(json.dumps(board.variables)) == {"x": {"y": [1, 2]}, "z": [1, [2]]}
    assert orjson.loads(orjson.dumps(board.queues)) == {"q": ["a"]}
    assert {**board.variables}["x"] == {"y": [1, 2]}
    assert type(copy.deepcopy(board.variables)) is dict
    assert type(copy.deepcopy(board.queues["q"])) is list
    assert board.variables["x"]["y"][0] == 1
    assert board.variables.get("none", 5) == 5
    assert list(board.variables) == ["x", "z"]


def test_what_cannot_be_copied_is_kept_as_it_is() -> None:
    thing = object()
    board = Blackboard(variables={"thing": thing, "set": {1, 2}})
    assert board.get_var("thing") is thing
    assert board.snapshot().get_var("thing") is thing
    assert board.get_var("set") == {1, 2}
    assert plain(board.variables["set"]) == [1, 2]
