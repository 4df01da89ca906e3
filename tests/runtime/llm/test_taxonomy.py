"""Every row of the taxonomy, over real sockets: whole answers, streams and embeddings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.llm.openai_chat import OpenAiChat
from runtime.llm.port import BadRequestReason, LlmError, LlmErrorKind, StreamEnd, StreamPart, TextDelta, ToolCall
from runtime.llm.sse import BadEventError, event_data
from runtime.llm.streaming import whole_stream
from runtime.llm.streamwire import Assembly, read_stream
from tests.llmserver import Answer, LlmServer, call_piece, event, llm_server, piece, refused, said, streamed
from tests.runtime.llm.poolkit import ASKED

Row = tuple[Answer, LlmErrorKind, BadRequestReason | None]
KIND, WHY = LlmErrorKind, BadRequestReason

BOTH: list[Row] = [
    (refused(408), KIND.TIMEOUT, None),
    (refused(504), KIND.TIMEOUT, None),
    (refused(429), KIND.RATE_LIMIT, None),
    (refused(401), KIND.AUTH, None),
    (refused(402), KIND.AUTH, None),
    (refused(403), KIND.AUTH, None),
    (refused(429, code="insufficient_quota"), KIND.AUTH, None),
    (refused(500), KIND.SERVER, None),
    (refused(502), KIND.SERVER, None),
    (refused(503), KIND.UNAVAILABLE, None),
    (refused(400, code="context_length_exceeded"), KIND.BAD_REQUEST, WHY.CONTEXT_LENGTH),
    (refused(400, code="content_filter"), KIND.BAD_REQUEST, WHY.CONTENT_FILTER),
    (refused(404, code="model_not_found"), KIND.BAD_REQUEST, WHY.MODEL_NOT_FOUND),
    (refused(400, "m does not support tools"), KIND.BAD_REQUEST, WHY.UNSUPPORTED),
    (refused(422), KIND.BAD_REQUEST, WHY.OTHER),
    (Answer(b"<html>busy</html>"), KIND.MALFORMED, None),
]
WHOLE: list[Row] = [
    (Answer(b""), KIND.MALFORMED, None),
    (said("half", finish="length"), KIND.TRUNCATED, None),
    (said(None), KIND.MALFORMED, None),
    (said(None, tool_calls=[{"id": "a", "function": {"arguments": "{}"}}]), KIND.MALFORMED, None),
    (said("", finish="content_filter"), KIND.BAD_REQUEST, WHY.CONTENT_FILTER),
    (said(None, refusal="no"), KIND.BAD_REQUEST, WHY.REFUSAL),
    (Answer({"choices": []}), KIND.MALFORMED, None),
    (Answer({"error": {"message": "busy", "code": 429}}), KIND.RATE_LIMIT, None),
    (Answer({"error": {"message": "broken"}}), KIND.SERVER, None),
    (Answer(said().body, cut=True), KIND.UNAVAILABLE, None),
    (Answer(hang=True), KIND.TIMEOUT, None),
]
STREAMED: list[Row] = [
    (Answer(b""), KIND.UNAVAILABLE, None),
    (streamed("half", finish="length"), KIND.TRUNCATED, None),
    (streamed("half", finish="content_filter"), KIND.BAD_REQUEST, WHY.CONTENT_FILTER),
    (Answer(pieces=(piece(refusal="no"), piece(finish="stop"))), KIND.BAD_REQUEST, WHY.REFUSAL),
    (Answer(pieces=(piece("half"),), cut=True), KIND.UNAVAILABLE, None),
    (Answer(pieces=(piece("half"),)), KIND.UNAVAILABLE, None),
    (Answer(pieces=(piece("half"),), hang=True), KIND.TIMEOUT, None),
    (Answer(pieces=(), hang=True), KIND.TIMEOUT, None),
    (streamed(), KIND.MALFORMED, None),
    (Answer(pieces=(piece("half"), event(b'{"choices": 3}'))), KIND.MALFORMED, None),
    (Answer(pieces=(piece("half"), event(b"{oops"))), KIND.MALFORMED, None),
    (Answer(pieces=(piece("half"), b"garbage\n\n")), KIND.MALFORMED, None),
    (Answer(pieces=(piece("half"), event({"error": {"message": "busy", "code": 503}}))), KIND.UNAVAILABLE, None),
    (Answer(pieces=(call_piece(-1, "f", "{}"), piece(finish="stop"))), KIND.MALFORMED, None),
    (Answer(pieces=(call_piece(0, None, "{}"), piece(finish="tool_calls"))), KIND.MALFORMED, None),
]


@pytest.fixture
async def server() -> AsyncIterator[LlmServer]:
    async with llm_server() as it:
        yield it


@pytest.fixture
async def model(server: LlmServer) -> AsyncIterator[OpenAiChat]:
    it = OpenAiChat(base_url=server.url, api_key="sk-canary-0123456789", model="m", attempts=1)
    yield it
    await it.aclose()


def quick(answer: Answer) -> float:
    return 0.1 if answer.hang else 30.0


@pytest.mark.parametrize(("answer", "kind", "reason"), BOTH + WHOLE)
async def test_a_whole_answer(
    server: LlmServer, model: OpenAiChat, answer: Answer, kind: LlmErrorKind, reason: BadRequestReason | None
) -> None:
    server.script(answer)
    with pytest.raises(LlmError) as caught:
        await model.chat(ASKED.model_copy(update={"deadline_s": quick(answer)}))
    assert (caught.value.kind, caught.value.reason) == (kind, reason)
    if kind is KIND.TRUNCATED:
        assert caught.value.partial == "half"


@pytest.mark.parametrize(("answer", "kind", "reason"), BOTH + STREAMED)
async def test_a_stream(
    server: LlmServer, model: OpenAiChat, answer: Answer, kind: LlmErrorKind, reason: BadRequestReason | None
) -> None:
    server.script(answer)
    parts = []
    with pytest.raises(LlmError) as caught:  # noqa: PT012 - what came before the error is looked at too
        async for part in model.stream(ASKED.model_copy(update={"deadline_s": quick(answer)})):
            parts.append(part)
    assert (caught.value.kind, caught.value.reason) == (kind, reason)
    came = "".join(part.text for part in parts if isinstance(part, TextDelta))
    assert caught.value.partial == came
    assert not any(isinstance(part, StreamEnd) for part in parts)


@pytest.mark.parametrize(("answer", "kind", "reason"), BOTH)
async def test_embeddings(
    server: LlmServer, model: OpenAiChat, answer: Answer, kind: LlmErrorKind, reason: BadRequestReason | None
) -> None:
    server.script(answer)
    with pytest.raises(LlmError) as caught:
        await model.embed(["a text"])
    assert (caught.value.kind, caught.value.reason) == (kind, reason)


async def test_nobody_there_is_unavailable() -> None:
    it = OpenAiChat(base_url="http://127.0.0.1:1/v1", api_key=None, model="m", attempts=1)
    for call in (it.chat(ASKED), it.embed(["x"]), whole_stream(it.stream(ASKED))):
        with pytest.raises(LlmError) as caught:
            await call
        assert caught.value.kind is KIND.UNAVAILABLE
    await it.aclose()


async def test_tool_calls_are_put_together_and_a_bad_one_leaves_the_others_good(
    server: LlmServer, model: OpenAiChat
) -> None:
    pieces = (
        call_piece(0, "look", "", "a"),
        call_piece(1, "find", '{"what":', "b"),
        call_piece(0, None, '{"at": "it"}'),
        call_piece(1, None, " oops"),
        piece(finish="tool_calls"),
    )
    server.script(Answer(pieces=pieces))
    reply = await whole_stream(model.stream(ASKED))
    good, bad = reply.tool_calls
    assert good == ToolCall(id="a", name="look", arguments='{"at": "it"}')
    assert good.parsed() == {"at": "it"}
    with pytest.raises(LlmError, match="find"):
        bad.parsed()
    assert (reply.text, reply.finish_reason) == ("", "tool_calls")


async def test_a_server_without_stream_options_is_asked_without(server: LlmServer, model: OpenAiChat) -> None:
    server.script(refused(400, "unknown field stream_options"), streamed("ha"), streamed("ha"))
    for _ in range(2):
        assert (await whole_stream(model.stream(ASKED))).text == "ha"
    assert ["stream_options" in asked.body for asked in server.asked] == [True, False, False]


async def test_the_first_piece_arrives_before_the_last_is_sent(server: LlmServer, model: OpenAiChat) -> None:
    server.script(Answer(pieces=(piece("ha"),), hang=True))
    parts = model.stream(ASKED)
    assert await anext(parts) == TextDelta(text="ha")
    await server.hanging.wait()
    assert not server.left.is_set()
    await parts.aclose()
    await server.left.wait()


async def test_a_cancelled_stream_closes_its_request(server: LlmServer, model: OpenAiChat) -> None:
    server.script(Answer(pieces=(piece("ha"),), hang=True))
    call = asyncio.create_task(whole_stream(model.stream(ASKED)))
    await server.hanging.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await server.left.wait()


# --- any bytes -------------------------------------------------------------------------------------------------------


async def chunks(pieces: Sequence[bytes]) -> AsyncIterator[bytes]:
    for each in pieces:
        yield each


async def read_all(pieces: Sequence[bytes]) -> list[bytes]:
    return [data async for data in event_data(chunks(pieces))]


def cut_up(whole: bytes, places: Sequence[int]) -> list[bytes]:
    ends = sorted({place % (len(whole) + 1) for place in places} | {0, len(whole)})
    return [whole[begin:end] for begin, end in pairwise(ends)]


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8"))), st.lists(st.integers(0, 10**4)))
def test_however_a_stream_is_cut_its_events_are_the_same(texts: list[str], places: list[int]) -> None:
    for end in ("\n", "\r\n", "\r"):
        whole = "".join(f"data: {text}{end}{end}" for text in texts).encode()
        assert asyncio.run(read_all(cut_up(whole, places))) == [text.encode() for text in texts]


@given(st.lists(st.binary(max_size=60) | st.just(piece("x")) | st.just(b"\n\n") | st.just(b'data: {"choices":[')))
def test_any_bytes_end_in_an_answer_or_in_an_error_of_the_taxonomy(pieces: list[bytes]) -> None:
    async def read() -> list[StreamPart | LlmError]:
        found: list[StreamPart | LlmError] = []
        try:
            async for part in read_stream(chunks(pieces), Assembly("m")):
                found.append(part)
        except LlmError as error:
            found.append(error)
        return found

    assert isinstance(asyncio.run(read())[-1], StreamEnd | LlmError)


def test_a_line_without_end_is_refused() -> None:
    with pytest.raises(BadEventError, match="longer"):
        asyncio.run(read_all([b"data: " + b"x" * 3_000_000] * 2))
