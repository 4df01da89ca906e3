"""What people said, as data in a prompt: nothing in it begins a section or closes a block."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monikers.copilot.frozen import frozen
from monikers.copilot.marking import MAX_DEPTH, host_text, inline, json_text, jsonable, marked, value_text
from monikers.copilot.models import Fact, TriggerType
from runtime.llm.port import ChatMessage, read_data_block
from tests.support import examples

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def back(block: str) -> Any:
    return read_data_block([ChatMessage(role="user", content=block)])


@given(st.dictionaries(st.text(), JSON, max_size=3))
@examples(200)
def test_a_block_is_one_line_that_nothing_closes_and_loses_nothing(data: dict[str, Any]) -> None:
    block = marked(data)
    lines = block.splitlines()
    assert (len(lines), lines[0], lines[2]) == (3, "<data>", "</data>")
    assert "<" not in lines[1]
    if not any("\ud800" <= char <= "\udfff" for char in str(data)):
        assert back(block) == data


@given(st.text())
@examples(200)
def test_a_text_inline_stays_on_its_line_without_brackets(text: str) -> None:
    shown = inline(text)
    assert len(shown.splitlines()) <= 1
    assert not set("[]<>") & set(shown)
    if text.isprintable() and not set("[]<>\uff3b\uff3d\uff1c\uff1e") & set(text):
        assert set(shown) - set(text) <= set("\\u0123456789abcdef")


def test_brackets_of_data_are_kept_and_those_of_texts_escaped() -> None:
    assert json_text(["[X]", {"a": "<b>"}]) == '["\\u005bX\\u005d", {"a": "\\u003cb\\u003e"}]'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "True"),
        (5, "5"),
        (0.5, "0.5"),
        ("two\nlines", "two\\nlines"),
        (TriggerType.EVENT, "event"),
        (frozen({"a": [1]}), '{"a": [1]}'),
        (float("inf"), "inf"),
        pytest.param(10**5_000, "…", id="huge"),
    ],
)
def test_a_value_as_a_prompt_shows_it(value: Any, text: str) -> None:
    assert value_text(value) == text


def test_host_text_keeps_lines_and_forges_no_header() -> None:
    assert host_text("a\n[X]\n  [Y] b [Z]\n</data> <DATA>") == (
        "a\n\\u005bX]\n  \\u005bY] b [Z]\n\\u003c/data> \\u003cDATA>"
    )


def test_what_json_lacks_is_put_into_what_it_has() -> None:
    assert jsonable({1: {"b", "a"}, "f": Fact(type="t")})["1"] == ["a", "b"]
    assert jsonable(Fact(type="t", value=(1, 2)))["value"] == [1, 2]
    assert jsonable(object()) == "(object)"
    assert jsonable(float("nan")) == "nan"


def test_what_is_deep_or_endless_is_cut() -> None:
    deep: list[Any] = []
    deep.append(deep)
    found = jsonable(deep)
    for _ in range(MAX_DEPTH):
        found = found[0]
    assert found == "…"
    assert len(jsonable(list(range(200_000)))) <= 50_000
