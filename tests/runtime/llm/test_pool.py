"""The pool against real servers on loopback; its pauses pass on a fake clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from decimal import Decimal
from pathlib import Path

import pytest

from runtime.llm.port import (
    BadRequestReason,
    ChatRequest,
    LlmError,
    LlmErrorKind,
    StreamEnd,
    StreamRestart,
    TextDelta,
    ToolSpec,
)
from tests.llmserver import Answer, piece, refused, said, streamed, vectors
from tests.runtime.llm.poolkit import ASKED, FILE, KEYS, Kit, kit, ways

TOOL = ToolSpec(name="look", description="Looks.")
QUICK = "[retrying]\nattempts = 1\n"


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Kit]:
    async with kit(tmp_path) as found:
        yield found


async def fails(it: Kit, request: ChatRequest = ASKED, role: str = "default") -> LlmError:
    with pytest.raises(LlmError) as caught:
        await it.pool.model(role).chat(request)
    return caught.value


# --- the order -------------------------------------------------------------------------------------------------------


async def test_local_providers_come_first_then_each_key_with_its_largest_models(tmp_path: Path) -> None:
    async with kit(tmp_path, QUICK) as it:
        it.house.otherwise = it.cloud.otherwise = refused(500)
        error = await fails(it)
        models = [attempt.model for attempt in error.attempts]
        assert models == ["tiny-1", "large-1", "medium-1", "large-1", "medium-1"]
        keys = [attempt.key_fingerprint for attempt in error.attempts]
        assert keys[0] is None
        assert keys[1] == keys[2] != keys[3] == keys[4]


async def test_a_role_is_asked_before_the_others(tmp_path: Path) -> None:
    async with kit(tmp_path, QUICK + '[roles]\nfast = ["medium"]\n') as it:
        it.cloud.otherwise = refused(500)
        it.house.script(said())
        reply = await it.pool.model("fast").chat(ASKED)
        models = [attempt.model for attempt in reply.attempts]
        assert models == ["medium-1", "medium-1", "tiny-1"]
        assert it.pool.model("fast").label == "medium-1"
        with pytest.raises(ValueError, match="no role or model 'slow'"):
            it.pool.model("slow")


async def test_without_failover_only_the_role_is_asked(tmp_path: Path) -> None:
    async with kit(tmp_path, "[retrying]\nattempts = 1\nfailover = false\n") as it:
        it.house.script(refused(500))
        assert ways((await fails(it, role="tiny")).attempts) == [("tiny-1", "server")]


# --- answers ---------------------------------------------------------------------------------------------------------


async def test_an_answer_says_who_was_tried_and_what_it_cost(two: Kit) -> None:
    two.house.otherwise = refused(400, code="model_not_found")
    two.cloud.script(said())
    reply = await two.pool.model().chat(ASKED)
    assert ways(reply.attempts) == [("tiny-1", "bad_request"), ("large-1", None)]
    assert reply.cost == Decimal("0.000044")
    assert all(attempt.latency_ms >= 0 for attempt in reply.attempts)
    assert reply.attempts[1].key_fingerprint is not None
    assert "canary" not in reply.model_dump_json()


async def test_a_model_without_prices_has_no_cost(two: Kit) -> None:
    two.cloud.script(said())
    assert (await two.pool.model("medium").chat(ASKED)).cost is None
    two.house.script(said())
    assert (await two.pool.model("tiny").chat(ASKED)).cost == 0


# --- trying again ----------------------------------------------------------------------------------------------------


async def test_a_passing_failure_is_tried_again_with_jitter_that_doubles(two: Kit) -> None:
    two.house.script(refused(500), refused(503), said())
    reply = await two.pool.model().chat(ASKED)
    assert ways(reply.attempts) == [("tiny-1", "server"), ("tiny-1", "unavailable"), ("tiny-1", None)]
    assert two.clock.slept == [0.5, 1.0]


async def test_a_short_retry_after_is_waited_for_and_a_long_one_sends_on(two: Kit) -> None:
    two.house.script(refused(429, headers={"retry-after": "7"}), refused(429, headers={"retry-after": "3000"}))
    two.cloud.script(said())
    reply = await two.pool.model().chat(ASKED)
    assert ways(reply.attempts) == [("tiny-1", "rate_limit"), ("tiny-1", "rate_limit"), ("large-1", None)]
    assert two.clock.slept == [7.0]
    two.cloud.script(said())
    assert ways((await two.pool.model().chat(ASKED)).attempts) == [("large-1", None)]
    two.clock.advance(3_000)
    two.house.script(said())
    assert ways((await two.pool.model().chat(ASKED)).attempts) == [("tiny-1", None)]


async def test_a_call_waits_for_the_only_way_when_it_opens_soon(tmp_path: Path) -> None:
    async with kit(tmp_path, "[retrying]\nattempts = 1\nfailover = false\n") as it:
        it.house.script(refused(429, headers={"retry-after": "5"}), said())
        assert (await fails(it, role="tiny")).retry_after_s == 5
        assert (await it.pool.model("tiny").chat(ASKED)).text == "ha"
        assert it.clock.slept == [5.0]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (refused(400, "odd"), "bad_request"),
        (said("half", finish="length"), "truncated"),
        (said("", finish="content_filter"), "bad_request"),
        (said(None, refusal="I will not"), "bad_request"),
    ],
)
async def test_what_no_other_provider_would_answer_is_raised_at_once(two: Kit, answer: Answer, kind: str) -> None:
    two.house.script(answer)
    assert ways((await fails(two)).attempts) == [("tiny-1", kind)]
    assert two.cloud.asked == []


async def test_a_prompt_that_is_too_long_goes_to_larger_models_only(two: Kit) -> None:
    two.cloud.script(refused(400, code="context_length_exceeded"))
    error = await fails(two, role="large")
    assert (error.reason, ways(error.attempts)) == (BadRequestReason.CONTEXT_LENGTH, [("large-1", "bad_request")])
    two.house.script(refused(400, code="context_length_exceeded"))
    two.cloud.script(said())
    assert ways((await two.pool.model().chat(ASKED)).attempts)[-1] == ("large-1", None)


async def test_an_answer_that_is_no_answer_goes_on_to_the_next(two: Kit) -> None:
    two.house.script(Answer(b"<html>busy</html>"))
    two.cloud.script(said())
    assert ways((await two.pool.model().chat(ASKED)).attempts) == [("tiny-1", "malformed"), ("large-1", None)]


async def test_tools_go_to_models_that_call_them(two: Kit) -> None:
    asked = ASKED.model_copy(update={"tools": (TOOL,)})
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "it"}'}}
    two.cloud.script(said(None, finish="tool_calls", tool_calls=[call]))
    reply = await two.pool.model().chat(asked)
    assert [(found.id, found.name, found.parsed()) for found in reply.tool_calls] == [("c1", "look", {"at": "it"})]
    assert two.house.asked == []
    assert two.cloud.asked[0].body["tools"][0]["function"]["name"] == "look"


async def test_tools_that_nobody_can_call_are_refused_with_the_cure(tmp_path: Path) -> None:
    async with kit(tmp_path, "[retrying]\nfailover = false\n") as it:
        error = await fails(it, ASKED.model_copy(update={"tools": (TOOL,)}), role="tiny")
        assert error.reason is BadRequestReason.UNSUPPORTED
        assert "abilities" in str(error)


# --- keys ------------------------------------------------------------------------------------------------------------


async def test_a_bad_key_is_left_alone_and_the_log_says_so_without_it(two: Kit) -> None:
    two.cloud.otherwise = lambda asked: (
        refused(401, f"Incorrect API key provided: {asked.key}") if asked.key == KEYS["KEY_A"] else said()
    )
    model = two.pool.model("large")
    reply = await model.chat(ASKED)
    assert ways(reply.attempts) == [("large-1", "auth"), ("large-1", None)]
    assert ways((await model.chat(ASKED)).attempts) == [("large-1", None)]
    assert two.logged("key_quarantined") == 1
    assert "canary" not in repr(two.log.lines)
    two.clock.advance(901)
    assert ways((await model.chat(ASKED)).attempts) == [("large-1", "auth"), ("large-1", None)]


async def test_no_error_shows_a_key_that_the_provider_repeats(tmp_path: Path) -> None:
    async with kit(tmp_path, "[retrying]\nfailover = false\n") as it:
        it.cloud.otherwise = lambda asked: refused(401, f"Incorrect API key provided: {asked.key}")
        error = await fails(it, role="large")
        assert error.kind is LlmErrorKind.AUTH
        assert "canary" not in f"{error!r} {error} {error.attempts} {error.__cause__!r}"
        again = await fails(it, role="large")
        assert (again.kind, again.attempts) == (LlmErrorKind.AUTH, ())
        assert again.retry_after_s == pytest.approx(900)


# --- breaker and limits ----------------------------------------------------------------------------------------------


async def test_a_provider_that_fails_often_is_left_alone_then_tried_once(two: Kit) -> None:
    two.house.otherwise = refused(500)
    two.cloud.otherwise = said()
    for _ in range(3):
        await two.pool.model().chat(ASKED)
    assert len(two.house.asked) == 5
    assert two.logged("breaker_opened") == 1
    two.clock.advance(31)
    two.house.otherwise = said()
    assert ways((await two.pool.model().chat(ASKED)).attempts) == [("tiny-1", None)]
    assert two.logged("breaker_closed") == 1


async def test_no_more_calls_at_a_time_than_allowed(tmp_path: Path) -> None:
    limits = "[providers.house]\nlimits = { concurrency = 2 }"
    async with kit(tmp_path, file=FILE.replace("[providers.house]", limits)) as it:
        it.house.otherwise = said()
        replies = await asyncio.gather(*(it.pool.model("tiny").chat(ASKED) for _ in range(10)))
        assert [reply.text for reply in replies] == ["ha"] * 10
        assert it.house.most_running <= 2


async def test_a_full_provider_sends_calls_on_and_the_last_one_is_waited_for(tmp_path: Path) -> None:
    limits = "[providers.house]\nlimits = { requests_per_minute = 6 }"
    async with kit(tmp_path, file=FILE.replace("[providers.house]", limits)) as it:
        it.house.otherwise, it.cloud.otherwise = said(), said()
        for model in ("tiny-1", "large-1", "large-1"):
            assert ways((await it.pool.model().chat(ASKED)).attempts) == [(model, None)]
        assert it.clock.slept == []
        it.clock.advance(10)
        assert ways((await it.pool.model().chat(ASKED)).attempts) == [("tiny-1", None)]


async def test_tokens_a_minute_are_counted_by_what_was_used(tmp_path: Path) -> None:
    limits = "[providers.house]\nlimits = { tokens_per_minute = 60 }"
    more = "[retrying]\nfailover = false\n"
    async with kit(tmp_path, more, FILE.replace("[providers.house]", limits)) as it:
        it.house.otherwise = said()  # uses ten
        await it.pool.model("tiny").chat(ASKED)
        assert it.clock.slept == []
        await it.pool.model("tiny").chat(ASKED)
        assert it.clock.slept == [pytest.approx(3.0)]


# --- time ------------------------------------------------------------------------------------------------------------


async def test_a_hanging_provider_is_left_at_its_time_out_and_the_next_is_asked(tmp_path: Path) -> None:
    limits = "[providers.house]\nlimits = { timeout_s = 0.5 }"
    async with kit(tmp_path, QUICK, FILE.replace("[providers.house]", limits)) as it:
        it.house.script(said(), Answer(hang=True))
        await it.pool.model().chat(ASKED)  # connects, so that the time-out is the answer's
        it.cloud.script(said())
        assert ways((await it.pool.model().chat(ASKED)).attempts) == [("tiny-1", "timeout"), ("large-1", None)]
        await it.house.left.wait()


async def test_at_the_deadline_the_call_ends_and_so_does_its_request(two: Kit) -> None:
    two.house.script(said(), Answer(hang=True))
    await two.pool.model().chat(ASKED)  # connects, so that the deadline comes while the answer is awaited
    error = await fails(two, ASKED.model_copy(update={"deadline_s": 0.5}))
    assert error.kind is LlmErrorKind.TIMEOUT
    assert ways(error.attempts)[0] == ("tiny-1", "timeout")
    await two.house.left.wait()


async def test_a_cancelled_call_closes_its_request_and_gives_its_place_back(tmp_path: Path) -> None:
    limits = "[providers.house]\nlimits = { concurrency = 1 }"
    async with kit(tmp_path, file=FILE.replace("[providers.house]", limits)) as it:
        it.house.script(Answer(hang=True))
        call = asyncio.create_task(it.pool.model().chat(ASKED))
        await it.house.hanging.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await it.house.left.wait()
        it.house.script(said())
        assert (await it.pool.model("tiny").chat(ASKED)).text == "ha"


# --- streams ---------------------------------------------------------------------------------------------------------


async def test_a_stream_ends_with_usage_cost_and_tries(two: Kit) -> None:
    two.house.script(refused(400, code="model_not_found"))
    two.cloud.script(streamed("ha", " ha"))
    parts = [part async for part in two.pool.model().stream(ASKED)]
    assert parts[:2] == [TextDelta(text="ha"), TextDelta(text=" ha")]
    end = parts[-1]
    assert isinstance(end, StreamEnd)
    assert (end.reply.text, end.reply.usage.input_tokens, end.reply.cost) == ("ha ha", 7, Decimal("0.000044"))
    assert ways(end.reply.attempts) == [("tiny-1", "bad_request"), ("large-1", None)]


async def test_before_its_first_part_a_stream_is_tried_again_and_after_it_is_not(two: Kit) -> None:
    two.house.script(refused(500), Answer(pieces=(piece("half a"),), cut=True))
    parts = two.pool.model().stream(ASKED)
    assert await anext(parts) == TextDelta(text="half a")
    with pytest.raises(LlmError) as caught:
        await anext(parts)
    assert (caught.value.kind, caught.value.partial) == (LlmErrorKind.UNAVAILABLE, "half a")
    assert ways(caught.value.attempts) == [("tiny-1", "server"), ("tiny-1", "unavailable")]
    assert two.cloud.asked == []


async def test_a_cut_stream_begins_anew_when_the_caller_allows_it(two: Kit) -> None:
    two.house.script(Answer(pieces=(piece("half a"),), cut=True), streamed("whole"))
    parts = [part async for part in two.pool.model().stream(ASKED, restart=True)]
    assert parts[:3] == [
        TextDelta(text="half a"),
        StreamRestart(because=LlmErrorKind.UNAVAILABLE),
        TextDelta(text="whole"),
    ]
    assert isinstance(parts[-1], StreamEnd)
    assert ways(parts[-1].reply.attempts) == [("tiny-1", "unavailable"), ("tiny-1", None)]


async def test_who_leaves_a_stream_closes_its_request_and_gives_its_place_back(tmp_path: Path) -> None:
    limits = "[providers.house]\nlimits = { concurrency = 1 }"
    async with kit(tmp_path, file=FILE.replace("[providers.house]", limits)) as it:
        it.house.script(Answer(pieces=(piece("ha"),), hang=True))
        async with aclosing(it.pool.model().stream(ASKED)) as parts:
            assert await anext(parts) == TextDelta(text="ha")
        await it.house.left.wait()
        it.house.script(said())
        assert (await it.pool.model("tiny").chat(ASKED)).text == "ha"


async def test_a_model_that_does_not_stream_gives_its_answer_at_once(tmp_path: Path) -> None:
    async with kit(tmp_path, file=FILE.replace('abilities = ["streaming"]', "abilities = []")) as it:
        it.house.script(said())
        parts = [part async for part in it.pool.model().stream(ASKED)]
        assert parts[0] == TextDelta(text="ha")
        assert "stream" not in it.house.asked[0].body


# --- vectors ---------------------------------------------------------------------------------------------------------


async def test_embeddings_come_in_batches_and_in_order(two: Kit) -> None:
    two.house.otherwise = lambda asked: vectors([[len(text), 1.0] for text in asked.body["input"]])
    texts = ["x" * (1 + place % 7) for place in range(300)]
    reply = await two.pool.embedder().embed(texts)
    assert [vector[0] for vector in reply.vectors] == [float(len(text)) for text in texts]
    assert [len(asked.body["input"]) for asked in two.house.asked] == [128, 128, 44]
    assert (reply.usage.input_tokens, reply.cost) == (15, Decimal("0.0000003"))
    assert len(reply.attempts) == 3


@pytest.mark.parametrize("rows", [[[1.0]], [[1.0, 2.0, 3.0]], [], [[0.0, 0.0]], [[1.0, 2.0], [1.0, 2.0]]])
async def test_vectors_of_another_shape_are_malformed(two: Kit, rows: list[list[float]]) -> None:
    two.house.otherwise = vectors(rows)
    with pytest.raises(LlmError) as caught:
        await two.pool.embedder().embed(["one text"])
    assert caught.value.kind is LlmErrorKind.MALFORMED


async def test_a_blank_text_is_refused_before_anything_is_sent(two: Kit) -> None:
    with pytest.raises(LlmError, match="text 1 to embed is blank"):
        await two.pool.embedder().embed(["one", " "])
    assert two.house.asked == []
    assert (await two.pool.embedder().embed([])).vectors == ()
