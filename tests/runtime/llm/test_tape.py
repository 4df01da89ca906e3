from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from runtime.llm.openai_chat import OpenAiChat
from runtime.llm.port import ChatMessage, ChatRequest, LlmError, LlmErrorKind, StreamPart, ToolSpec
from runtime.llm.tape import BadTapeError, NotOnTapeError, TapePlayer, TapeRecorder
from runtime.testing import ScriptedModel
from tests.llmserver import Answer, call_piece, llm_server, piece, refused, said, streamed, vectors
from tests.runtime.llm.poolkit import ASKED

SECRET = SecretStr('canary"\\quoted-secret-0123')
OTHER = ASKED.model_copy(update={"tools": (ToolSpec(name="look"),)})


def asks(text: str, **more: object) -> ChatRequest:
    return ASKED.model_copy(update={"messages": (ChatMessage(role="user", content=text),), **more})


async def parts_of(model: OpenAiChat | TapeRecorder | TapePlayer, request: ChatRequest) -> list[StreamPart | str]:
    parts: list[StreamPart | str] = []
    try:
        async for part in model.stream(request):
            parts.append(part)
    except LlmError as error:
        parts.append(f"{error} {error.partial}")
    return parts


async def test_whatever_was_recorded_is_played_back(tmp_path: Path) -> None:
    tape = tmp_path / "calls.jsonl"
    async with llm_server() as server:
        model = OpenAiChat(base_url=server.url, api_key=None, model="m", attempts=1)
        recorder = TapeRecorder(model, tape, embedder=model)
        half = Answer(pieces=(piece("half"),), cut=True)
        tool = Answer(pieces=(call_piece(0, "look", "{}", "a"), piece(finish="tool_calls")))
        server.script(said("one"), said("two"), refused(429, headers={"retry-after": "9"}), streamed("ha", "ha"), half)
        server.answers += [tool, vectors([[1.0, 0.5]])]
        replies = [await recorder.chat(ASKED), await recorder.chat(ASKED)]
        with pytest.raises(LlmError) as failed:
            await recorder.chat(asks("fail"))
        streams = [await parts_of(recorder, request) for request in (ASKED, asks("cut"), OTHER)]
        embedded = await recorder.embed(["a text"])
        await model.aclose()
    player = TapePlayer(tape)
    later = ASKED.model_copy(update={"deadline_s": 1.0})
    assert [await player.chat(later) for _ in range(3)] == [*replies, replies[-1]]
    with pytest.raises(LlmError) as again:
        await player.chat(asks("fail"))
    assert (str(again.value), again.value.kind, again.value.retry_after_s) == (
        str(failed.value),
        LlmErrorKind.RATE_LIMIT,
        9.0,
    )
    assert [await parts_of(player, request) for request in (ASKED, asks("cut"), OTHER)] == streams
    assert "half" in str(streams[1][-1])
    assert await player.embed(["a text"]) == embedded


async def test_a_missing_call_names_the_nearest_one(tmp_path: Path) -> None:
    tape = tmp_path / "calls.jsonl"
    recorder = TapeRecorder(ScriptedModel("a", "b"), tape)
    await recorder.chat(asks("Tell me about the old well."))
    await recorder.chat(asks("Quite another question."))
    player = TapePlayer(tape)
    with pytest.raises(NotOnTapeError) as caught:
        await player.chat(asks("Tell me about the new well."))
    said_so = str(caught.value)
    assert "Nearest is line 1" in said_so
    assert "the old well" in said_so
    assert "the new well" in said_so
    with pytest.raises(NotOnTapeError, match="no embed call at all"):
        await player.embed(["x"])


async def test_no_secret_reaches_the_tape_and_the_call_is_found_all_the_same(tmp_path: Path) -> None:
    tape = tmp_path / "calls.jsonl"
    secret, looks_like_one = SECRET.get_secret_value(), "sk-abcdefghijklmnop0123"
    asked = asks(f"{secret} and {looks_like_one}", json_schema={secret: {"const": looks_like_one}})
    error = LlmError(LlmErrorKind.AUTH, f"Incorrect key {secret}")
    recorder = TapeRecorder(ScriptedModel(f"It is {secret}", error), tape, secrets=[SECRET])
    await recorder.chat(asked)
    with pytest.raises(LlmError):
        await recorder.chat(asks(secret))
    written = tape.read_text()
    assert "canary" not in written
    assert looks_like_one not in written
    player = TapePlayer(tape, secrets=[SECRET])
    assert "canary" not in (await player.chat(asked)).text


@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
async def test_any_text_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, ask: str, answer: str) -> None:
    tape = tmp_path_factory.mktemp("tape") / "calls.jsonl"
    await TapeRecorder(ScriptedModel(answer), tape).chat(asks(ask))
    assert (await TapePlayer(tape).chat(asks(ask))).text == answer


@pytest.mark.parametrize("line", ["", "{}", "[", '{"digest": 3}', '{"digest": "x", "kind": "sing", "request": {}}'])
def test_a_line_that_is_no_call_is_named(tmp_path: Path, line: str) -> None:
    tape = tmp_path / "calls.jsonl"
    tape.write_text(f"{line}\n")
    with pytest.raises(BadTapeError, match="line 1"):
        TapePlayer(tape)
