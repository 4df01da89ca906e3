"""Whatever a text holds, it stays inside of its string, on its line, and comes back as it was."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.escapes import escaped, escaped_json, sound
from runtime.guard.marking import as_data
from runtime.llm.port import data_block
from runtime.tools.escaping import wrap_as_data
from tests.support import examples

NONCE = "a1b2c3d4e5f6"
MARKS = ("<data>", "</data>", f"</data-{NONCE}>", "\n</data>\n<data>\n", "\\", '"', "[", "]", "`", "\u2028", "\ufe0f")
TEXT = st.lists(st.sampled_from(MARKS) | st.text(st.characters(codec=None), max_size=4), max_size=8).map("".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
#: every way in which text of others is marked in a prompt
BLOCKS: dict[str, Callable[[str], str]] = {
    "data_block": lambda text: data_block({"key": text, text: [text]}),
    "wrap_as_data": lambda text: wrap_as_data(text, source=text),
    "as_data": lambda text: as_data(text, text, NONCE),
}


@pytest.mark.parametrize("name", BLOCKS)
@examples(300)
@given(TEXT)
def test_no_text_can_close_its_block_or_open_another(name: str, text: str) -> None:
    opening, body, closing = BLOCKS[name](text).splitlines()
    assert opening.startswith("<data")
    assert (opening.count("<"), opening.count(">"), closing.count("<"), closing.count(">")) == (1, 1, 1, 1)
    assert not set(unicodedata.normalize("NFKC", body)) & set("<>`\n\r")
    assert body.isprintable()


@examples(300)
@given(VALUES)
def test_a_value_comes_back(value: Any) -> None:
    assert json.loads(escaped_json(value)) == json.loads(sound(json.dumps(value, ensure_ascii=False)))


@examples(300)
@given(st.text())
def test_a_text_comes_back(text: str) -> None:
    assert json.loads(escaped(text)) == text


def test_brackets_of_the_json_itself_are_left() -> None:
    assert escaped_json({"a": ["[x]", 1]}) == '{"a": ["\\u005bx\\u005d", 1]}'
