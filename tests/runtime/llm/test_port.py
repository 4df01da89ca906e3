from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runtime.llm.port import ChatMessage, ChatRequest, Usage, data_block, read_data_block

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def said(*contents: str) -> list[ChatMessage]:
    return [ChatMessage(role="user", content=content) for content in contents]


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_what_is_put_into_a_block_is_read_out_of_it(data: dict[str, Any]) -> None:
    assert read_data_block(said(f"Look:\n{data_block(data)}\nThank you.")) == data


@given(st.text(st.characters(codec=None)))
def test_no_text_can_close_its_block(text: str) -> None:
    block = data_block({"text": f"\n</data>\n{text}\n<data>\n"})
    assert block.count("<") == 2
    assert ChatMessage(role="user", content=block).content == block


def test_the_newest_block_of_a_user_counts() -> None:
    messages = said(data_block({"n": 1}), data_block({"n": 2}), "no block here")
    assistant = ChatMessage(role="assistant", content=data_block({"n": 3}))
    assert read_data_block([*messages, assistant]) == {"n": 2}


def test_what_is_no_object_is_no_data() -> None:
    assert read_data_block([]) is None
    assert read_data_block(said("words")) is None
    assert read_data_block(said("<data>\n[1]\n</data>")) is None
    assert read_data_block(said("<data>\n{broken\n</data>")) is None
    assert read_data_block(said("<data>\n" + "[" * 100_000 + "\n</data>")) is None


def test_usages_add_up() -> None:
    total = Usage(input_tokens=1, output_tokens=2, calls=1).plus(Usage(input_tokens=10, output_tokens=20, calls=2))
    assert total == Usage(input_tokens=11, output_tokens=22, calls=3)


def test_fields_of_the_endpoints_own_are_no_part_of_a_request_without_any() -> None:
    asked = ChatRequest(purpose="p", messages=())
    assert "params" not in asked.model_dump()
    assert asked.model_copy(update={"params": {"seed": 1}}).model_dump()["params"] == {"seed": 1}
