"""The client against a real endpoint on loopback that answers what each test scripts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from runtime.llm.failures import retry_after_s
from runtime.llm.openai_chat import LONGEST_WAIT_S, OpenAiChat
from runtime.llm.port import ChatMessage, ChatReply, ChatRequest, LlmError, LlmErrorKind, Usage

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
ASKED = ChatRequest(purpose="joke.tell", messages=(ChatMessage(role="user", content="Tell one."),))


@dataclass(frozen=True)
class Answer:
    """One scripted answer. `cut` leaves its last bytes out and closes; `hang` never answers."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    hang: bool = False

    def raw(self) -> bytes:
        body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        lines = [f"HTTP/1.1 {self.status} X", "content-type: application/json", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + (body[:-5] if self.cut else body)


class Endpoint:
    """Answers in order; keeps the bodies and headers that it was sent. Hanging answers end when the client leaves."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[str] = []
        self.hanging = asyncio.Event()
        self.left = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client closed the connection, which is its right
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.split("content-length:")[1].split("\r\n")[0])
        self.headers.append(head)
        self.bodies.append(json.loads(await reader.readexactly(length)))
        answer = self.answers.pop(0)
        if answer.hang:
            self.hanging.set()
            await reader.read()
            self.left.set()
            return False
        writer.write(answer.raw())
        await writer.drain()
        return not answer.cut


@dataclass
class Chat:
    """A client of an `Endpoint` that does not really sleep."""

    model: OpenAiChat
    endpoint: Endpoint
    slept: list[float]

    async def ask(self, *answers: Answer, request: ChatRequest = ASKED) -> ChatReply:
        self.endpoint.answers = list(answers)
        return await self.model.chat(request)

    async def fail(self, *answers: Answer, request: ChatRequest = ASKED) -> LlmError:
        with pytest.raises(LlmError) as caught:
            await self.ask(*answers, request=request)
        assert self.endpoint.answers == []
        return caught.value


def sleeper(slept: list[float]) -> Callable[[float], Awaitable[None]]:
    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    return sleep


@pytest.fixture
async def chat() -> AsyncIterator[Chat]:
    endpoint, slept = Endpoint(), list[float]()
    server = await asyncio.start_server(endpoint.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    model = OpenAiChat(base_url=f"http://127.0.0.1:{port}/v1", api_key=None, model="m", sleep=sleeper(slept))
    yield Chat(model, endpoint, slept)
    await model.aclose()
    server.close()
    await server.wait_closed()


def said(content: Any = "ha", finish: str | None = "stop", **more: Any) -> Answer:
    message = {"role": "assistant", "content": content, **more}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    return Answer(
        {"id": "x", "model": "m-2", "choices": [{"message": message, "finish_reason": finish}], "usage": usage}
    )


def refused(status: int, message: str = "no", headers: dict[str, str] | None = None, **error: Any) -> Answer:
    return Answer({"error": {"message": message, **error}}, status, headers or {})


async def test_asks_and_reads_the_answer(chat: Chat) -> None:
    reply = await chat.ask(said())
    assert reply == ChatReply(text="ha", model="m-2", usage=Usage(input_tokens=7, output_tokens=3, calls=1))
    assert chat.endpoint.bodies == [{"model": "m", "messages": [{"role": "user", "content": "Tell one."}]}]
    assert "authorization: bearer none" in chat.endpoint.headers[0]
    assert chat.slept == []


async def test_an_answer_without_usage_and_finish_reason_will_do(chat: Chat) -> None:
    reply = await chat.ask(Answer({"choices": [{"message": {"content": "ha"}}]}))
    assert reply == ChatReply(text="ha", model="m", usage=Usage(calls=1))


async def test_limits_temperature_and_schema_are_sent(chat: Chat) -> None:
    request = ASKED.model_copy(update={"max_tokens": 9, "temperature": 0.5, "json_schema": SCHEMA})
    await chat.ask(said(), request=request)
    body = chat.endpoint.bodies[0]
    assert (body["max_tokens"], body["temperature"]) == (9, 0.5)
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "joke_tell", "schema": SCHEMA, "strict": False},
    }


async def test_waits_as_long_as_a_busy_provider_asks(chat: Chat) -> None:
    assert (await chat.ask(refused(429, headers={"retry-after": "7"}), said())).text == "ha"
    assert chat.slept == [7.0]


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
async def test_a_passing_failure_is_tried_again_after_a_jittered_pause(chat: Chat, status: int) -> None:
    assert (await chat.ask(refused(status), refused(status), said())).text == "ha"
    assert len(chat.slept) == 2
    assert all(0 <= pause <= LONGEST_WAIT_S for pause in chat.slept)


async def test_after_the_last_attempt_the_failure_is_raised(chat: Chat) -> None:
    error = await chat.fail(*[refused(500, "broken")] * 4)
    assert error.kind is LlmErrorKind.SERVER
    assert "m: " in str(error)
    assert "broken" in str(error)
    assert len(chat.slept) == 3


async def test_a_provider_that_asks_for_more_time_than_there_is_is_left_at_once(chat: Chat) -> None:
    error = await chat.fail(refused(429, headers={"retry-after": "120"}))
    assert (error.kind, error.retry_after_s) == (LlmErrorKind.RATE_LIMIT, 120.0)
    assert chat.slept == []


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (400, {}, LlmErrorKind.BAD_REQUEST),
        (401, {}, LlmErrorKind.AUTH),
        (402, {}, LlmErrorKind.AUTH),
        (403, {}, LlmErrorKind.AUTH),
        (404, {}, LlmErrorKind.BAD_REQUEST),
        (413, {}, LlmErrorKind.BAD_REQUEST),
        (422, {}, LlmErrorKind.BAD_REQUEST),
        (429, {"code": "insufficient_quota"}, LlmErrorKind.AUTH),
        (499, {}, LlmErrorKind.BAD_REQUEST),
    ],
)
async def test_a_failure_that_will_not_pass_is_raised_at_once(
    chat: Chat, status: int, error: dict[str, Any], kind: LlmErrorKind
) -> None:
    assert (await chat.fail(refused(status, **error))).kind is kind
    assert chat.slept == []


@pytest.mark.parametrize(
    ("status", "kind"), [(503, "unavailable"), (504, "timeout"), (529, "server"), (408, "timeout")]
)
async def test_a_passing_failure_keeps_its_kind(chat: Chat, status: int, kind: str) -> None:
    assert (await chat.fail(*[refused(status)] * 4)).kind == kind


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (said("half a jo", finish="length"), LlmErrorKind.TRUNCATED),
        (said(None, finish="length"), LlmErrorKind.TRUNCATED),
        (said(None), LlmErrorKind.MALFORMED),
        (said(" \n"), LlmErrorKind.MALFORMED),
        (said([{"type": "text"}]), LlmErrorKind.MALFORMED),
        (said(None, refusal="I will not"), LlmErrorKind.BAD_REQUEST),
        (said("", finish="content_filter"), LlmErrorKind.BAD_REQUEST),
        (Answer({"choices": []}), LlmErrorKind.MALFORMED),
        (Answer({"choices": None}), LlmErrorKind.MALFORMED),
        (Answer({"choices": [{}]}), LlmErrorKind.MALFORMED),
        (Answer([]), LlmErrorKind.MALFORMED),
        (Answer(b"<html>busy</html>"), LlmErrorKind.MALFORMED),
        (Answer(b""), LlmErrorKind.MALFORMED),
        (Answer(b'{"choices": [{"message": {"content": "\\ud800"}}]}'), LlmErrorKind.MALFORMED),
    ],
)
async def test_an_answer_that_cannot_be_used_is_an_error_of_its_kind(
    chat: Chat, answer: Answer, kind: LlmErrorKind
) -> None:
    assert (await chat.fail(answer)).kind is kind
    assert chat.slept == []


async def test_a_cut_body_is_tried_again(chat: Chat) -> None:
    cut = Answer(said().body, cut=True)
    assert (await chat.ask(cut, said())).text == "ha"
    assert (await chat.fail(*[cut] * 4)).kind is LlmErrorKind.UNAVAILABLE


async def test_nobody_listening_is_unavailable() -> None:
    slept: list[float] = []
    model = OpenAiChat(base_url="http://127.0.0.1:1/v1", api_key="k", model="m", attempts=2, sleep=sleeper(slept))
    with pytest.raises(LlmError) as caught:
        await model.chat(ASKED)
    await model.aclose()
    assert caught.value.kind is LlmErrorKind.UNAVAILABLE
    assert len(slept) == 1


async def test_a_hanging_endpoint_is_left_at_the_deadline(chat: Chat) -> None:
    request = ASKED.model_copy(update={"deadline_s": 0.05})
    error = await chat.fail(Answer(hang=True), request=request)
    assert error.kind is LlmErrorKind.TIMEOUT
    await chat.endpoint.left.wait()


async def test_a_cancelled_call_closes_its_connection(chat: Chat) -> None:
    call = asyncio.create_task(chat.ask(Answer(hang=True)))
    await chat.endpoint.hanging.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await chat.endpoint.left.wait()


def format_of(body: dict[str, Any]) -> str:
    return str(body.get("response_format", {}).get("type"))


async def test_an_endpoint_without_json_schemas_is_asked_more_plainly_and_this_is_remembered(chat: Chat) -> None:
    request = ASKED.model_copy(update={"json_schema": SCHEMA})
    no = refused(400, "response_format json_schema is not supported")
    await chat.ask(no, said(), request=request)
    await chat.ask(said(), request=request)
    assert [format_of(body) for body in chat.endpoint.bodies] == ["json_schema", "json_object", "json_object"]
    assert "JSON Schema" in chat.endpoint.bodies[1]["messages"][0]["content"]
    assert chat.slept == []


async def test_an_endpoint_without_json_mode_is_told_the_schema_in_words(chat: Chat) -> None:
    request = ASKED.model_copy(update={"json_schema": SCHEMA})
    await chat.ask(refused(400), refused(400), said(), request=request)
    assert [format_of(body) for body in chat.endpoint.bodies] == ["json_schema", "json_object", "None"]
    assert json.dumps(SCHEMA) in chat.endpoint.bodies[2]["messages"][0]["content"]


async def test_a_400_that_no_plainer_request_avoids_is_not_remembered(chat: Chat) -> None:
    request = ASKED.model_copy(update={"json_schema": SCHEMA})
    assert (await chat.fail(*[refused(400, "odd")] * 3, request=request)).kind is LlmErrorKind.BAD_REQUEST
    assert (await chat.fail(refused(400, code="context_length_exceeded"), request=request)).kind == "bad_request"
    await chat.ask(said(), request=request)
    assert format_of(chat.endpoint.bodies[-1]) == "json_schema"


async def test_a_limit_or_temperature_that_is_not_taken_is_left_out(chat: Chat) -> None:
    request = ASKED.model_copy(update={"max_tokens": 9, "temperature": 0.5})
    limit = refused(
        400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", param="max_tokens"
    )
    warm = refused(400, "temperature does not support 0.5", param="temperature")
    await chat.ask(limit, warm, said(), request=request)
    sent = {name: value for name, value in chat.endpoint.bodies[-1].items() if name not in ("model", "messages")}
    assert sent == {"max_completion_tokens": 9}
    await chat.ask(refused(400, "max_completion_tokens?"), said(), request=request)
    assert "max_completion_tokens" not in chat.endpoint.bodies[-1]


async def test_calls_run_side_by_side(chat: Chat) -> None:
    chat.endpoint.answers = [said()] * 5
    replies = await asyncio.gather(*(chat.model.chat(ASKED) for _ in range(5)))
    assert [reply.text for reply in replies] == ["ha"] * 5


@pytest.mark.parametrize(
    ("header", "seconds"),
    [(None, None), ("", None), ("3", 3.0), ("0.5", 0.5), ("-4", 0.0), ("soon", None), ("nan", None), ("inf", 86_400.0)],
)
def test_retry_after_in_seconds(header: str | None, seconds: float | None) -> None:
    assert retry_after_s(header) == seconds


def test_retry_after_as_a_date() -> None:
    far = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    assert 3_000 < (retry_after_s(far) or 0) <= 3_600
    assert retry_after_s("Wed, 01 Jan 2020 00:00:00 GMT") == 0.0
