"""`ctx.llm`: calls, live calls and embeddings are records; a step that is run again pays for nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from runtime.llm.money import CallCosts
from runtime.llm.offline import OfflineModel
from runtime.llm.port import (
    Attempt,
    ChatReply,
    ChatRequest,
    EmbeddingReply,
    LlmError,
    LlmErrorKind,
    StreamRestart,
    Usage,
)
from runtime.llm.structured import ask_json
from runtime.testing import FakeLog, ScriptedModel
from runtime.tokens import TokenFeed
from store.records import list_records
from tests.runtime.kit import Gate
from tests.runtime.livetext import ScriptedStream, pieces, shown
from tests.runtime.test_context import Bench, asked, bench


@asynccontextmanager
async def desk_with(folder: Path, model: Any, embedder: Any = None) -> AsyncIterator[Bench]:
    """A step on a real store whose live text is stored."""
    async with bench(folder, model) as desk:
        feed = TokenFeed(desk.db, desk.db.clock, FakeLog())
        desk.services = replace(desk.services, tokens=feed, embedder=embedder)
        yield desk


class Priced:
    """Answers with a text, a usage and a price each time; None is a price that is not known."""

    label = "priced"

    def __init__(self, *costs: str | None) -> None:
        self._costs = list(costs)

    async def chat(self, request: ChatRequest) -> ChatReply:
        cost = self._costs.pop(0)
        used = Usage(input_tokens=10, output_tokens=3, calls=1)
        return ChatReply(text="so", model="p", usage=used, cost=None if cost is None else Decimal(cost))

    async def embed(self, texts: Any, *, deadline_s: float = 60.0) -> EmbeddingReply:
        cost = self._costs.pop(0)
        used = Usage(input_tokens=len(texts), calls=2)
        return EmbeddingReply(vectors=((1.0, 0.0),) * len(texts), model="e", usage=used, cost=cost and Decimal(cost))


async def test_a_live_call_is_shown_while_it_comes_and_read_after_a_crash(tmp_path: Path) -> None:
    gate = Gate()
    model = ScriptedStream(["Once ", "upon ", "a time"], gate=gate.passing)
    async with desk_with(tmp_path, model) as desk:
        telling = asyncio.create_task(desk.step().llm.live(asked("tell")))
        await gate.let_one_through()
        await gate.let_one_through()
        await gate.reached.wait()
        gate.open()
        reply = await telling
        assert reply.text == "Once upon a time"
        assert shown(await pieces(desk.db)) == {1: "Once upon a time"}
        rows = len(await pieces(desk.db))

        again = desk.step(again=True)
        assert await again.llm.live(asked("tell")) == reply
        assert (len(model.asked), len(await pieces(desk.db))) == (1, rows)
        assert again.usage == reply.usage


async def test_a_call_that_was_made_whole_is_read_by_a_live_one_and_the_other_way_round(tmp_path: Path) -> None:
    model = ScriptedModel("one", "two")
    async with desk_with(tmp_path, model) as desk:
        first = desk.step()
        replies = [await first.llm.chat(asked("a")), await first.llm.live(asked("b"))]
        again = desk.step(again=True)
        assert [await again.llm.live(asked("a")), await again.llm.chat(asked("b"))] == replies
        assert len(model.requests) == 2


async def test_a_model_that_cannot_stream_answers_whole(tmp_path: Path) -> None:
    async with desk_with(tmp_path, Priced("0")) as desk:
        assert (await desk.step().llm.live(asked("x"))).text == "so"
        assert await pieces(desk.db) == []


async def test_a_step_that_nobody_watches_is_answered_whole(tmp_path: Path) -> None:
    async with bench(tmp_path, OfflineModel()) as desk:
        assert (await desk.step().llm.live(asked("x"))).text
        assert await pieces(desk.db) == []


async def test_a_stream_that_begins_anew_shows_the_second_text(tmp_path: Path) -> None:
    model = ScriptedStream(["wrong ", "words", StreamRestart(because=LlmErrorKind.SERVER), "right"])
    async with desk_with(tmp_path, model) as desk:
        assert (await desk.step().llm.live(asked("x"))).text == "right"
        assert shown(await pieces(desk.db)) == {1: "right"}


async def test_a_stream_that_fails_is_void_when_the_call_is_made_again(tmp_path: Path) -> None:
    gone = LlmError(LlmErrorKind.UNAVAILABLE, "cut", partial="half")
    async with desk_with(tmp_path, ScriptedStream(["half", gone], ["whole"])) as desk:
        first = desk.step()
        with pytest.raises(LlmError, match="cut"):
            await first.llm.live(asked("x"))
        again = desk.step(again=True)
        assert (await again.llm.live(asked("x"))).text == "whole"
        assert shown(await pieces(desk.db)) == {1: "whole"}
        assert again.usage.calls == 1
        failed = [row for row in await list_records(desk.db, desk.session.session_id, 0) if row.kind == "failed"]
        assert [row.key for row in failed] == ["llm:1"]


async def test_a_cancelled_call_closes_the_request(tmp_path: Path) -> None:
    gate = Gate()
    model = ScriptedStream(["a", "b"], gate=gate.passing)
    async with desk_with(tmp_path, model) as desk:
        telling = asyncio.create_task(desk.step().llm.live(asked("tell")))
        await gate.let_one_through()
        await gate.reached.wait()
        telling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await telling
        assert model.closed == 1


async def test_calls_side_by_side_are_told_apart(tmp_path: Path) -> None:
    async with desk_with(tmp_path, ScriptedStream(["first"], ["second"])) as desk:
        ctx = desk.step()
        await asyncio.gather(ctx.llm.live(asked("a")), ctx.llm.live(asked("b")))
        assert shown(await pieces(desk.db)) == {1: "first", 2: "second"}


class Pooled(ScriptedModel):
    """Answered by the second provider that was asked."""

    async def chat(self, request: ChatRequest) -> ChatReply:
        away = Attempt(provider="away", model="m", key_fingerprint=None, kind=LlmErrorKind.TIMEOUT, latency_ms=1.0)
        attempts = (away, away.model_copy(update={"provider": "vault", "kind": None}))
        return (await super().chat(request)).model_copy(update={"attempts": attempts})


async def test_a_record_tells_who_answered(tmp_path: Path) -> None:
    async with desk_with(tmp_path, Pooled("so")) as desk:
        await desk.step().llm.chat(asked("a"))
        (record,) = await list_records(desk.db, desk.session.session_id, 0)
        assert record.usage["provider"] == "vault"


async def test_vectors_are_records(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with desk_with(tmp_path, model, embedder=model) as desk:
        ctx = desk.step()
        found = await ctx.llm.embed(["water", "stone"])
        again = desk.step(again=True)
        assert await again.llm.embed(["water", "stone"]) == found
        assert model.embedded == [("water", "stone")]
        assert (again.usage, again.usage.calls) == (ctx.usage, 1)
        (record,) = await list_records(desk.db, desk.session.session_id, 0)
        assert (record.kind, record.key, record.usage["texts"]) == ("embed", "embed:1", 2)
        assert "vectors" not in record.usage
        await desk.step(again=True).llm.embed(["other"])
        assert len(model.embedded) == 2


async def test_without_a_model_that_embeds_the_error_names_the_cure(tmp_path: Path) -> None:
    async with desk_with(tmp_path, OfflineModel()) as desk:
        with pytest.raises(LlmError, match=r"STEPWELL_MODELS.*embeddings") as caught:
            await desk.step().llm.embed(["x"])
        assert caught.value.kind is LlmErrorKind.UNAVAILABLE


async def test_costs_are_summed_exactly_and_calls_without_a_price_apart(tmp_path: Path) -> None:
    model = Priced("0.1", None, "0.2", "0.05", None)
    async with desk_with(tmp_path, model, embedder=model) as desk:
        ctx = desk.step()
        for _ in range(3):
            await ctx.llm.chat(asked("x"))
        await ctx.llm.embed(["a", "b"])
        assert ctx.calls.costs == CallCosts(Decimal("0.35"), 1)
        await ctx.llm.embed(["a", "b"])
        assert ctx.calls.costs == CallCosts(Decimal("0.35"), 3)  # two batches
        assert ctx.usage == Usage(input_tokens=34, output_tokens=9, calls=7)

        again = desk.step(again=True)
        for _ in range(3):
            await again.llm.live(asked("x"))
        await again.llm.embed(["a", "b"])
        await again.llm.embed(["a", "b"])
        assert again.calls.used == ctx.calls.used


async def test_an_answer_to_another_request_was_paid_for_all_the_same(tmp_path: Path) -> None:
    async with desk_with(tmp_path, Priced("0.1", "0.2")) as desk:
        await desk.step().llm.chat(asked("first"))
        for _ in range(2):  # the second time both are records
            again = desk.step(again=True)
            await again.llm.chat(asked("changed"))
            assert again.calls.costs == CallCosts(Decimal("0.3"))


async def test_the_ladder_of_agreed_shapes_takes_ctx_llm(tmp_path: Path) -> None:
    async with desk_with(tmp_path, ScriptedModel("no JSON", '{"n": 1}')) as desk:
        ctx = desk.step()
        schema = {"type": "object", "required": ["n"]}
        assert (await ask_json(ctx.llm, asked("x"), schema)).value == {"n": 1}
        assert ctx.usage.calls == 2


async def test_calls_apart_are_found_again_in_whatever_order_they_are_made(tmp_path: Path) -> None:
    model = ScriptedModel("one", "two", "three")
    async with bench(tmp_path, model) as desk:
        first = desk.step().llm
        before = [await first.apart(name).chat(asked(name)) for name in ("ann", "bob")]
        again = desk.step(again=True).llm
        after = [await again.apart(name).chat(asked(name)) for name in ("bob", "ann")]
        assert after == before[::-1]
        assert len(model.requests) == 2
        assert (await again.chat(asked("ann"))).text == "three", "a call of the step itself is none of theirs"


async def test_a_name_apart_counts_its_own_calls(tmp_path: Path) -> None:
    model = ScriptedModel("one", "two", "three")
    async with bench(tmp_path, model) as desk:
        llm = desk.step().llm
        for name in ("ann", "bob", "ann"):
            await llm.apart("turn").apart(name).chat(asked(name))
        keys = [record.key for record in await list_records(desk.db, desk.session.session_id, 0)]
        assert keys == ["llm:turn:ann:1", "llm:turn:bob:1", "llm:turn:ann:2"]


async def test_a_failure_apart_is_an_answer_that_is_kept(tmp_path: Path) -> None:
    failure = LlmError(
        LlmErrorKind.RATE_LIMIT,
        "too many",
        retry_after_s=3.0,
        partial="so f",
        attempts=(
            Attempt(provider="p", model="m", key_fingerprint=None, kind=LlmErrorKind.RATE_LIMIT, latency_ms=1.0),
        ),
    )
    model = ScriptedModel(failure)
    async with bench(tmp_path, model) as desk:
        told = []
        for again in (False, True):
            with pytest.raises(LlmError, match="too many") as caught:
                await desk.step(again=again).llm.apart("ann").chat(asked("tell"))
            told.append(caught.value.told())
        assert told == [failure.told()] * 2
        assert len(model.requests) == 1


async def test_a_failure_of_a_call_that_stands_alone_is_made_again(tmp_path: Path) -> None:
    model = ScriptedModel(LlmError(LlmErrorKind.SERVER, "broken"), "well")
    async with bench(tmp_path, model) as desk:
        with pytest.raises(LlmError, match="broken"):
            await desk.step().llm.chat(asked("tell"))
        assert (await desk.step(again=True).llm.chat(asked("tell"))).text == "well"
