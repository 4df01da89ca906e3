"""Model calls that nobody asks for by name, a judge's and those of the memory, pass the same budgets as all others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runtime.contract import StepFrame, StepOut, WaitForInput
from runtime.guard.errors import GateFailedError
from runtime.guard.guard import Cost
from runtime.guard.judge import JudgeGate
from runtime.guard.judging import Principle
from runtime.guard.port import Channel, RuleId, Severity
from runtime.guard.taint import CLEAN
from runtime.llm.port import ChatReply, ChatRequest, EmbeddingReply, Usage
from runtime.tools.result import Call
from store.agent_state import SessionStatus
from store.budgets import Scope, put_budget
from store.limits import Limits
from store.records import list_records
from store.spending import spent_by_call, spent_of
from tests.runtime.budgets.test_pausing import Priced, asking
from tests.runtime.kit import Workshop, moniker, out, workshop
from tests.runtime.test_context import bench
from tests.runtime.test_gatedstep import Speaker, guarding
from tests.runtime.tools.stepkit import tools_file
from tests.support import eventually

OWN = Scope("session:s")


class PricedJudge:
    """A judge's model: each answer costs 10 tokens. It gives `answers` in turn, then the last one for ever."""

    label = "judge"

    def __init__(self, *answers: str) -> None:
        self.answers = answers or ("<OK/>",)
        self.asked = 0

    async def chat(self, request: ChatRequest) -> ChatReply:
        self.asked += 1
        text = self.answers[min(self.asked, len(self.answers)) - 1]
        return ChatReply(text=text, model=self.label, usage=Usage(input_tokens=8, output_tokens=2, calls=1))


class PricedVectors:
    """A model for vectors of which each call costs 10 tokens."""

    label = "vectors"

    def __init__(self) -> None:
        self.asked = 0

    async def embed(self, texts: Sequence[str], *, deadline_s: float = 60.0) -> EmbeddingReply:
        self.asked += 1
        vectors = tuple((1.0, float(len(text))) for text in texts)
        return EmbeddingReply(vectors=vectors, model=self.label, usage=Usage(input_tokens=10, calls=1))


def judging(model: PricedJudge, *channels: Channel) -> Any:
    judge = JudgeGate(model, (Principle(RuleId("p"), "p", "be kind", Severity.HIGH),), lambda: "n0nce1234567")
    return guarding(judge, *channels, keeps_all=False, cost=Cost.MODEL)


async def opened(shop: Workshop, model: PricedJudge, *channels: Channel, **limits: int) -> None:
    """A session under a budget that waits for what it is told."""
    shop.guard = judging(model, *channels)
    await shop.start()
    await shop.create("m", budget=limits)
    await shop.until(SessionStatus.WAITING)


async def test_a_spent_budget_pauses_a_session_before_the_judge_and_a_raise_takes_it_on_once(tmp_path: Path) -> None:
    judge, body = PricedJudge(), Speaker()
    async with workshop(tmp_path, moniker("m", body), start=False, quiet=False) as shop:
        await opened(shop, judge, Channel.INPUT, Channel.OUTPUT, tokens=10)
        said = await shop.say("hello")
        row = await shop.until(SessionStatus.PAUSED)
        assert row.reason == "budget spent: 10 of 10 tokens of this session"
        assert judge.asked == 1, "the input was judged, the answer was not"
        assert (await shop.texts())[-1] != "hello"
        await shop.restart()
        await put_budget(shop.db, OWN, Limits(tokens=100))
        await shop.done(said)
        assert judge.asked == 2, "nobody is paid twice"
        assert [text for text in await shop.texts() if text == "hello"] == ["hello"]
        row = await shop.until(SessionStatus.WAITING)
        assert spent_of(row.usage).tokens == 20
        assert (row.usage["calls"], "open" in row.usage) == (2, False)


async def test_an_input_waits_unjudged_while_the_budget_is_spent(tmp_path: Path) -> None:
    judge, body = PricedJudge(), Speaker()
    async with workshop(tmp_path, moniker("m", body), start=False, quiet=False) as shop:
        await opened(shop, judge, Channel.INPUT, calls=1)
        await shop.done(await shop.say("one"))
        said = await shop.say("two")
        row = await shop.until(SessionStatus.PAUSED)
        assert (judge.asked, row.reason) == (1, "budget spent: 1 of 1 model calls of this session")
        await put_budget(shop.db, OWN, Limits(calls=9))
        await shop.done(said)
        assert (judge.asked, body.heard) == (2, ["one", "two"])


async def test_a_judge_without_a_verdict_is_paid_for_all_the_same(tmp_path: Path) -> None:
    judge = PricedJudge("nonsense", "<OK/>")
    async with bench(tmp_path) as at:
        object.__setattr__(at.services, "guard", judging(judge, Channel.INPUT))
        with pytest.raises(GateFailedError):
            await at.step().guard.admit("hello", Channel.INPUT, "x")
        assert at.session.spent.tokens == 10
        again = at.step(again=True)
        await again.guard.admit("hello", Channel.INPUT, "x")
        assert (again.usage.calls, again.usage.input_tokens, at.session.spent.tokens) == (2, 16, 20)
        # After a crash the records alone tell it.
        rows = await list_records(at.db, at.session.session_id, 0)
        assert sum(spent_by_call(row.usage).tokens for row in rows) == 20
        third = at.step(again=True)
        await third.guard.admit("hello", Channel.INPUT, "x")
        assert (judge.asked, third.usage.calls) == (2, 2)


async def test_the_vectors_of_the_memory_stop_at_the_limit(tmp_path: Path) -> None:
    vectors = PricedVectors()

    async def step(ctx: Any, frame: StepFrame) -> StepOut:
        for number in range(3):
            await ctx.memory.remember(f"Well {number}.", taint=CLEAN)
        found = await ctx.memory.recall("well")
        return out(frame, text=str(len(found.items)), wait=WaitForInput())

    async with workshop(tmp_path, moniker("m", step), start=False) as shop:
        shop.embedder = vectors
        await shop.start()
        await shop.create("m", budget={"calls": 2})
        row = await shop.until(SessionStatus.PAUSED)
        assert (vectors.asked, spent_of(row.usage).calls) == (2, 2)
        await put_budget(shop.db, OWN, Limits(calls=3))
        await eventually(lambda: vectors.asked == 3)
        await shop.until(SessionStatus.PAUSED)
        await put_budget(shop.db, OWN, Limits(calls=10))
        row = await shop.until(SessionStatus.WAITING)
        assert (vectors.asked, row.usage["calls"]) == (4, 4), "no vector is paid twice"
        assert (await shop.texts())[-1] == "3"


async def test_a_tool_that_met_a_spent_budget_is_called_again_and_its_error_is_not_kept(tmp_path: Path) -> None:
    vectors, seen = PricedVectors(), []

    async def step(ctx: Any, frame: StepFrame) -> StepOut:
        for number in (1, 2):
            call = Call(id=f"c{number}", name="search_memory", arguments={"query": "wells"})
            seen.append((await ctx.tools.call(call)).ok)
        return out(frame, wait=WaitForInput())

    tools = tools_file(tmp_path, '[grants]\n"*" = ["search_memory"]\n')
    async with workshop(tmp_path, moniker("m", step), start=False, tools=tools) as shop:
        shop.embedder = vectors
        await shop.start()
        await shop.create("m", budget={"calls": 1})
        await shop.until(SessionStatus.PAUSED)
        assert vectors.asked == 1
        await put_budget(shop.db, OWN, Limits(calls=9))
        await shop.until(SessionStatus.WAITING)
        assert seen[-2:] == [True, True]
        assert vectors.asked == 2


async def test_words_alone_cost_nothing_and_ask_no_budget(tmp_path: Path) -> None:
    async def step(ctx: Any, frame: StepFrame) -> StepOut:
        await ctx.llm.chat(asking(0))
        await ctx.memory.remember("A heron.", taint=CLEAN)
        found = await ctx.memory.recall("heron")
        return out(frame, text=found.items[0].text, wait=WaitForInput())

    async with workshop(tmp_path, moniker("m", step), model=Priced(), start=False) as shop:
        shop.embedder = None
        await shop.start()
        await shop.create("m", budget={"calls": 1})
        await shop.until(SessionStatus.WAITING)
        assert (await shop.texts())[-1] == "A heron."
