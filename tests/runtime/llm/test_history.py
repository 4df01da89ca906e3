from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from runtime.contract import MonikerError, StepFrame, StepOut, WaitForInput
from runtime.llm.history import CANCELLED, acceptable
from runtime.llm.openai_chat import OpenAiChat
from runtime.llm.port import ChatMessage, ChatRequest, LlmError, ToolCall
from store.agent_state import SessionStatus
from tests.runtime.kit import moniker, out, workshop
from tests.standin import stand_in

ids = st.sampled_from(["", "a", "b", "a-2", "call"])
calls = st.lists(st.builds(ToolCall, id=ids, name=st.just("look")), max_size=3).map(tuple)
texts = st.sampled_from(["", "hi", "there"])
histories = st.lists(
    st.one_of(
        st.builds(ChatMessage, role=st.sampled_from(["system", "user"]), content=texts),
        st.builds(ChatMessage, role=st.just("assistant"), content=texts, tool_calls=calls),
        st.builds(ChatMessage, role=st.just("tool"), content=texts, tool_call_id=ids),
    ),
    max_size=12,
)


def complaint(messages: Sequence[Any]) -> str | None:
    """What an endpoint says to a history as it goes over the wire, after OpenAI's rules; None when it takes it."""
    asked: list[str] = []
    seen: set[str] = set()
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            if message.get("tool_call_id") not in asked:
                return f"messages[{number}]: a result without a call before it, or a second one"
            asked.remove(message["tool_call_id"])
            continue
        if asked:
            return f"messages[{number}]: tool_call_ids without a result: {asked}"
        asked = [call["id"] for call in message.get("tool_calls", [])]
        if len(set(asked)) != len(asked) or seen & set(asked) or "" in asked:
            return f"messages[{number}]: duplicate or empty tool-call ids: {asked}"
        seen.update(asked)
    return f"tool_call_ids without a result: {asked}" if asked else None


def wire(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    return [message.model_dump(exclude_defaults=True) | {"role": message.role} for message in messages]


@given(histories)
def test_any_mess_becomes_a_history_that_is_accepted(messages: list[ChatMessage]) -> None:
    mended = acceptable(messages)
    assert complaint(wire(mended)) is None
    assert acceptable(mended) == mended
    kept = [message for message in messages if message.role != "tool"]
    assert [(one.role, one.content) for one in mended if one.role != "tool"] == [(m.role, m.content) for m in kept]


@given(histories)
def test_an_acceptable_history_is_unchanged(messages: list[ChatMessage]) -> None:
    if complaint(wire(messages)) is None:
        assert acceptable(messages) == tuple(messages)


def asking(*call_ids: str) -> ChatMessage:
    return ChatMessage(role="assistant", tool_calls=tuple(ToolCall(id=one, name="look") for one in call_ids))


def result(call_id: str, content: str) -> ChatMessage:
    return ChatMessage(role="tool", content=content, tool_call_id=call_id)


def test_each_call_gets_its_own_result() -> None:
    mended = acceptable([asking("a", "b"), result("b", "B"), ChatMessage(role="user", content="stop")])
    assert [(one.tool_call_id, one.content) for one in mended[1:3]] == [("a", CANCELLED), ("b", "B")]


def test_calls_of_one_id_are_told_apart_and_keep_their_results() -> None:
    mended = acceptable([asking("a", "a"), result("a", "one"), result("a", "two"), asking("a"), result("a", "three")])
    assert [(one.tool_call_id, one.content) for one in mended if one.role == "tool"] == [
        ("a", "one"),
        ("a-2", "two"),
        ("a-3", "three"),
    ]


@pytest.mark.parametrize("fields", [{"role": "tool"}, {"role": "user", "tool_call_id": "a"}])
def test_a_message_that_no_endpoint_could_take_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="tool_call_id"):
        ChatMessage(**fields)


async def strict(request: web.Request) -> web.Response | None:
    found = complaint((await request.json())["messages"])
    return None if found is None else web.json_response({"error": {"message": found}}, status=400)


async def test_an_endpoint_that_is_strict_refuses_the_mess_and_takes_what_was_mended() -> None:
    mess = [ChatMessage(role="user", content="hi"), asking("a", "a"), result("a", "one")]
    async with stand_in() as it:
        it.judge = strict
        model = OpenAiChat(base_url=it.url, api_key=None, model="m", attempts=1)
        with pytest.raises(LlmError, match="bad_request"):
            await model.chat(ChatRequest(purpose="p", messages=tuple(mess)))
        reply = await model.chat(ChatRequest(purpose="p", messages=acceptable(mess)))
        await model.aclose()
        assert reply.text.startswith("Joke")
        sent = it.asked[-1]["messages"]
        assert sent[1]["tool_calls"][1] == {
            "id": "a-2",
            "type": "function",
            "function": {"name": "look", "arguments": "{}"},
        }
        assert sent[3] == {"role": "tool", "content": CANCELLED, "tool_call_id": "a-2"}


async def test_a_turn_that_was_cut_leaves_a_history_that_the_next_call_accepts(tmp_path: Path) -> None:
    """A cancelled turn leaves a tool call without its result; peers get a 400 for every later call."""
    cut: list[str] = []

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        history = [ChatMessage.model_validate(one) for one in frame.state.get("history", [])]
        history += [ChatMessage(role="user", content=said.text) for said in frame.inputs]
        if frame.inputs and frame.inputs[0].text == "look it up":
            return out(frame, state={"history": [one.model_dump() for one in [*history, asking("a")]]})
        if frame.state and not frame.inputs and not cut:
            cut.append("the tool was cancelled")
            raise MonikerError(cut[0])
        if not frame.inputs:
            return out(frame, state=frame.state, wait=WaitForInput())
        reply = await ctx.llm.chat(ChatRequest(purpose="p", messages=tuple(history)))
        return out(frame, text=reply.text, state=frame.state, wait=WaitForInput())

    async with stand_in() as it:
        it.judge = strict
        model = OpenAiChat(base_url=it.url, api_key=None, model="m", attempts=1)
        async with workshop(tmp_path, moniker("m", body, takes_input="any_step"), model=model) as shop:
            await shop.create("m")
            await shop.until(SessionStatus.WAITING)
            await shop.say("look it up")
            await shop.until(SessionStatus.ERROR)
            await shop.done(await shop.resume(), await shop.say("never mind"))
            assert (await shop.texts())[-1] == "Joke 1 of the stand-in"
        await model.aclose()
    assert [one["role"] for one in it.asked[-1]["messages"]] == ["user", "assistant", "tool", "user"]
