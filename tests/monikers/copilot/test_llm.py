"""The client of the agents' model (spec 2 §4.5, §10.4): JSON, retries, failures, and no endpoint without a key."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from monikers.copilot.llm import PURPOSE, LLMClient, LLMResult, ModelCallError
from runtime.llm.offline import COPILOT_PURPOSE
from tests.llmserver import Answer, LlmServer, llm_server, refused, said

ROOT = Path(__file__).resolve().parents[3]
MESSAGES = [{"role": "system", "content": "Listen."}, {"role": "user", "content": "Hi"}]


@pytest.fixture
async def server() -> AsyncIterator[LlmServer]:
    async with llm_server() as running:
        yield running


@pytest.fixture
async def client(server: LlmServer) -> AsyncIterator[LLMClient]:
    it = LLMClient("sk-1234567890abcdef", timeout=20, max_retries=0, max_tokens=77, base_url=server.url)
    yield it
    await it.aclose()


async def test_an_answer_is_parsed_and_its_usage_told(server: LlmServer, client: LLMClient) -> None:
    server.script(said('{"has_insight": true}'))
    found = await client.generate(model="m", messages=MESSAGES)
    assert (found.parsed, found.error_category, found.finish_reason) == ({"has_insight": True}, None, "stop")
    assert found.usage == {"calls": 1, "input_tokens": 7, "output_tokens": 3, "cost": None, "model": "m-2"}


async def test_json_is_demanded_with_the_key_and_the_limits(server: LlmServer, client: LLMClient) -> None:
    server.script(said("{}"), said("{}"))
    await client.generate(model="m", messages=MESSAGES)
    await client.generate("n", MESSAGES, max_tokens=5, model_params={"temperature": 0.5, "top_p": 0.1, "max_tokens": 9})
    first, second = (asked.body for asked in server.asked)
    assert first["response_format"] == {"type": "json_object"}
    assert (first["model"], first["max_tokens"]) == ("m", 77)
    assert (second["model"], second["max_tokens"], second["temperature"], second["top_p"]) == ("n", 5, 0.5, 0.1)
    assert [message["content"] for message in first["messages"]][-2:] == ["Listen.", "Hi"]
    assert server.asked[0].key == "sk-1234567890abcdef"


async def test_slips_are_mended_without_another_call(server: LlmServer, client: LLMClient) -> None:
    server.script(said("Here:\n```json\n{has_insight: true, 'content': \"Hi\",}\n```"))
    found = await client.generate(model="m", messages=MESSAGES)
    assert found.parsed == {"has_insight": True, "content": "Hi"}
    assert len(server.asked) == 1


async def test_what_is_no_json_is_asked_for_once_more(server: LlmServer, client: LLMClient) -> None:
    server.script(said("Sure!"), said('{"a": 1}'))
    found = await client.generate(model="m", messages=MESSAGES)
    assert found.parsed == {"a": 1}
    assert found.usage["calls"] == 2


async def test_no_json_twice_is_malformed_and_what_was_paid_is_told(server: LlmServer, client: LLMClient) -> None:
    server.script(said("Sure! I would"), said("Sure! I would say"))
    found = await client.generate(model="m", messages=MESSAGES)
    assert (found.parsed, found.error_category, found.partial) == (None, "malformed", "Sure! I would say")
    assert found.usage["calls"] == 2


@pytest.mark.parametrize(
    ("answer", "category"),
    [
        (refused(401, "bad key sk-1234567890abcdef"), "auth"),
        (refused(429, headers={"retry-after": "100"}), "rate_limit"),
        (refused(500), "server"),
        (refused(404, code="model_not_found"), "bad_request"),
        (said('{"a":', finish="length"), "truncated"),
        (Answer({}, cut=True), "unavailable"),
    ],
)
async def test_a_failed_call_is_a_category_and_no_exception(
    server: LlmServer, client: LLMClient, answer: Answer, category: str
) -> None:
    server.otherwise = answer
    found = await client.generate(model="m", messages=MESSAGES)
    assert (found.parsed, found.error_category) == (None, category)
    assert "sk-1234567890abcdef" not in found.error


async def test_a_passing_failure_is_tried_again(server: LlmServer) -> None:
    client = LLMClient("k", max_retries=1, base_url=server.url)
    server.script(refused(503, headers={"retry-after": "0"}), said("{}"))
    assert (await client.generate(model="m", messages=MESSAGES)).parsed == {}
    await client.aclose()


async def test_a_call_past_its_time_is_a_timeout(server: LlmServer, client: LLMClient) -> None:
    server.otherwise = Answer(hang=True)
    found = await client.generate(model="m", messages=MESSAGES, timeout=0.2)
    assert found.error_category == "timeout"


async def test_a_cancelled_call_closes_its_request(server: LlmServer, client: LLMClient) -> None:
    server.otherwise = Answer(hang=True)
    call = asyncio.create_task(client.generate(model="m", messages=MESSAGES))
    await server.hanging.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.wait_for(server.left.wait(), 30)


async def test_messages_that_cannot_be_sent_are_a_bad_request(client: LLMClient) -> None:
    found = await client.generate(model="m", messages=MESSAGES, max_tokens=-1)
    assert found.error_category == "bad_request"
    assert "max_tokens" in found.error


async def test_generate_json_gives_the_object_or_says_why(server: LlmServer, client: LLMClient) -> None:
    server.script(said('{"a": 1}'), refused(401), said("[1]"))
    assert await client.generate_json("m", MESSAGES) == {"a": 1}
    with pytest.raises(ModelCallError, match=r"^auth: ") as raised:
        await client.generate_json("m", MESSAGES)
    assert raised.value.category == "auth"
    with pytest.raises(ModelCallError, match="malformed: the answer is a list"):
        await client.generate_json("m", MESSAGES)


def test_one_client_serves_several_event_loops() -> None:
    client = LLMClient(base_url="http://127.0.0.1:1/v1", max_retries=0)
    for _ in range(2):
        found = asyncio.run(client.generate(model="m", messages=MESSAGES))
        assert found.error_category == "unavailable"


async def test_without_a_key_the_offline_model_answers_and_says_so() -> None:
    client = LLMClient()
    assert client.offline
    asked = [{"role": "system", "content": "Tell about objections."}, {"role": "user", "content": "C: too expensive"}]
    found = await client.generate(model="gpt-4o", messages=asked)
    assert found.usage["model"] == "offline"
    assert found.parsed["content"].startswith("[offline model] ")
    assert found.usage["cost"] == 0.0


def test_the_offline_model_knows_the_calls_of_agents() -> None:
    assert PURPOSE == COPILOT_PURPOSE


def test_a_key_is_not_shown() -> None:
    client = LLMClient("sk-secret-secret")
    assert "secret" not in f"{client!r}{vars(client)!r}"


def test_a_result_needs_nothing_but_what_was_parsed() -> None:
    assert LLMResult({"a": 1}) == LLMResult({"a": 1}, None, {}, None)


def test_importing_the_engine_loads_no_client_of_endpoints() -> None:
    code = (
        "import sys, asyncio, monikers.copilot, monikers.copilot.dynamic as d\n"
        "from monikers.copilot.llm import LLMClient\n"
        "asyncio.run(LLMClient().generate(model='m', messages=[]))\n"
        "LLMClient('key')\n"
        "print([name for name in ('openai', 'lancedb', 'flask', 'httpx2') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
