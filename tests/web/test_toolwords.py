"""What is said to people of a tool of an MCP server: its state, and which of its server's words changed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.tool_pins import FIRST_USE, ToolState
from tests.support import examples
from web.toolwords import approver, changed_words, parameter_names, tool_state, tool_words

LINES = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=9)


def a_tool(was: str | None, now: str, **more: Any) -> dict[str, Any]:
    return {
        "approved_description": was,
        "description": now,
        "approved_parameters": {},
        "parameters": {},
        **more,
    }


@pytest.mark.parametrize("state", ToolState)
def test_every_state_has_words(state: ToolState) -> None:
    assert all(tool_state({"state": state.value}))
    assert ("Off" in tool_words({"state": state.value})) == (state is not ToolState.APPROVED)


def test_what_changed_is_told_line_by_line() -> None:
    (part,) = changed_words(a_tool("one\ntwo\nthree\nfour\nfive", "one\ntwo\nthree\n4\nfive"))
    assert part["title"] == "Description"
    assert [(line["mark"], line["text"]) for line in part["lines"]] == [
        ("", "two"),
        ("", "three"),
        ("-", "four"),
        ("+", "4"),
        ("", "five"),
    ]
    parameters = a_tool("x", "x", approved_parameters={"b": 1, "a": 2}, parameters={"a": 2, "b": 1})
    assert changed_words(parameters) == [], "the order of keys is no change"
    assert changed_words(a_tool(None, "x")) == [], "what was agreed to is not known"


@examples(200)
@given(was=LINES, now=LINES)
def test_no_line_that_is_not_marked_differs(was: list[str], now: list[str]) -> None:
    """Taking the marked lines away, or putting them in, leads from the one text to the other."""
    for part in changed_words(a_tool("\n".join(was), "\n".join(now))):
        marks = [line["mark"] for line in part["lines"]]
        assert {"-", "+"} & set(marks)
        gone = [line["text"] for line in part["lines"] if line["mark"] == "-"]
        come = [line["text"] for line in part["lines"] if line["mark"] == "+"]
        old, new = "\n".join(was).split("\n"), "\n".join(now).split("\n")
        assert len(old) - len(gone) == len(new) - len(come), "what stayed is as long in both"
        places = [at for at in range(len(old) + 1) if old[at : at + len(gone)] == gone]
        assert any(old[:at] + come + old[at + len(gone) :] == new for at in places)


def test_names_of_parameters_and_of_people() -> None:
    schema = {"properties": {"b": {}, "a": {}}, "required": ["a"]}
    assert parameter_names({"parameters": schema}) == "a, b (optional)"
    odd: Any
    for odd in (None, [], {"properties": []}, {"properties": {}}):
        assert parameter_names({"parameters": odd}) == "none"
    assert parameter_names({"parameters": {"properties": {"a": 1}, "required": 7}}) == "a (optional)"
    assert [approver({"approved_by": by}) for by in ("me", None)] == ["by me", ""]
    assert "tools.toml" in approver({"approved_by": FIRST_USE})
