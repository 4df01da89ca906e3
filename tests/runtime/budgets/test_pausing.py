"""Sessions under a budget: they stop when it is spent, rest for as long as it is, and go on when it is raised."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

from runtime.contract import StepFrame, StepOut, WaitForInput
from runtime.files import AllowedFiles
from runtime.llm.port import ChatMessage, ChatReply, ChatRequest, Usage
from runtime.replay import replay_session
from store import filters
from store.actions import Action, ActionKind, ApprovalDecision
from store.agent_requests import approval_action
from store.agent_state import SessionStatus
from store.approvals import ApprovalFilter, list_approvals
from store.budgets import TOTAL, Scope, delete_budget, find_budget, put_budget
from store.ids import SessionId
from store.limits import Limits
from store.records import records_of
from store.spending import spent_of
from tests.runtime.kit import Gate, Workshop, moniker, out, workshop
from tests.support import eventually

WAIT = {"wait": WaitForInput()}
OTHER = {"a": "b", "b": "a"}


class Priced:
    """A model whose every call costs 7 + 3 tokens and, unless told otherwise, 0.10."""

    label = "priced"

    def __init__(self, cost: Decimal | None = Decimal("0.10"), gate: Gate | None = None) -> None:
        self.calls = 0
        self._cost = cost
        self._gate = gate

    async def chat(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        if self._gate is not None:
            await self._gate.passing()
        used = Usage(input_tokens=7, output_tokens=3, calls=1)
        return ChatReply(text="x", model=self.label, usage=used, cost=self._cost)


def asking(number: int) -> ChatRequest:
    return ChatRequest(purpose="test", messages=(ChatMessage(role="user", content=str(number)),))


def calling(times: int, **options: Any) -> Any:
    """A moniker `m` that calls the model so often in each step."""

    async def step(ctx: Any, frame: StepFrame) -> StepOut:
        for number in range(times):
            await ctx.llm.chat(asking(number))
        return out(frame, **options)

    return moniker("m", step)


async def mark_of(shop: Workshop, session: str = "s") -> Any:
    return ((await shop.state(session)).inbox or {}).get("budget")


async def test_a_session_stops_in_its_step_when_its_tokens_are_spent(tmp_path: Path) -> None:
    model = Priced()
    async with workshop(tmp_path, calling(100), model=model) as shop:
        await shop.create("m", budget={"tokens": 95})
        row = await shop.until(SessionStatus.PAUSED)
        assert model.calls == 10
        assert row.reason == "budget spent: 100 of 95 tokens of this session"
        mark = await mark_of(shop)
        assert mark.pop("n") > 0
        assert mark == {"scope": "session:s", "limit": "tokens", "spent": 100, "allowed": 95}
        assert row.iteration == -1
        assert spent_of(row.usage).tokens == 100


async def test_it_goes_on_by_itself_where_it_was_when_it_is_raised(tmp_path: Path) -> None:
    model = Priced()
    async with workshop(tmp_path, calling(12, **WAIT), model=model) as shop:
        await shop.create("m", budget={"calls": 5})
        await shop.until(SessionStatus.PAUSED)
        assert model.calls == 5
        await put_budget(shop.db, Scope("session:s"), Limits(calls=8))
        await eventually(lambda: model.calls == 8)
        row = await shop.until(SessionStatus.PAUSED)
        assert row.reason == "budget spent: 8 of 8 model calls of this session"
        await put_budget(shop.db, Scope("session:s"), Limits(calls=100))
        row = await shop.until(SessionStatus.WAITING)
        assert model.calls == 12  # none was paid twice
        assert row.usage["calls"] == 12
        assert "open" not in row.usage
        assert await mark_of(shop) is None


async def test_a_resume_without_a_raise_pauses_again_without_a_call(tmp_path: Path) -> None:
    model = Priced()
    async with workshop(tmp_path, calling(9), model=model) as shop:
        await shop.create("m", budget={"calls": 3})
        before = await shop.until(SessionStatus.PAUSED)
        for _ in range(3):
            await shop.done(await shop.resume())
        after = await shop.state()
        assert (after.status, after.reason, after.inbox) == (before.status, before.reason, before.inbox)
        assert model.calls == 3


async def test_a_restart_leaves_it_paused_and_knows_what_was_spent(tmp_path: Path) -> None:
    model = Priced()
    async with workshop(tmp_path, calling(9), model=model) as shop:
        await shop.create("m", budget={"calls": 3})
        before = await shop.until(SessionStatus.PAUSED)
        for _ in range(2):
            await shop.restart()
            await shop.done(await shop.resume())
        after = await shop.state()
        assert (after.status, after.reason, after.usage) == (before.status, before.reason, before.usage)
        assert model.calls == 3


async def test_a_raise_while_no_worker_runs_is_seen_by_the_next_one(tmp_path: Path) -> None:
    model = Priced()
    async with workshop(tmp_path, calling(6, **WAIT), model=model) as shop:
        await shop.create("m", agent="x")
        await put_budget(shop.db, Scope("agent:x"), Limits(calls=6))
        await shop.until(SessionStatus.WAITING)
        said = await shop.say("more")
        await shop.until(SessionStatus.PAUSED)
        await shop.stop()
        await put_budget(shop.db, Scope("agent:x"), Limits(calls=100))
        await shop.start()
        await shop.done(said)
        assert model.calls == 12


async def test_who_was_paused_by_a_person_does_not_go_on_when_a_budget_is_raised(tmp_path: Path) -> None:
    model = Priced()
    async with workshop(tmp_path, calling(9), model=model) as shop:
        await shop.create("m", budget={"calls": 3})
        await shop.create("m", "other", budget={"calls": 3})
        await shop.until(SessionStatus.PAUSED)
        await shop.until(SessionStatus.PAUSED, "other")
        await shop.done(await shop.pause())
        row = await shop.state()
        assert (row.status, row.reason, await mark_of(shop)) == (SessionStatus.PAUSED, "paused", None)
        for name in ("s", "other"):
            await put_budget(shop.db, Scope(f"session:{name}"), Limits(calls=4))
        await eventually(lambda: model.calls == 7)  # the other one's
        await shop.until(SessionStatus.PAUSED, "other")
        assert (await shop.state()).reason == "paused"
        await shop.done(await shop.resume())
        await eventually(lambda: model.calls == 8)


async def test_a_moniker_that_catches_everything_does_not_get_past_it(tmp_path: Path) -> None:
    model = Priced()
    caught: list[Exception] = []

    async def stubborn(ctx: Any, frame: StepFrame) -> StepOut:
        for number in range(9):
            try:
                await ctx.llm.chat(asking(number))
            except Exception as error:
                caught.append(error)
        return out(frame, text="did what I could", **WAIT)

    async with workshop(tmp_path, moniker("m", stubborn), model=model) as shop:
        await shop.create("m", budget={"calls": 2})
        await shop.until(SessionStatus.PAUSED)
        assert (model.calls, len(caught)) == (2, 7)
        assert await shop.steps() == []


async def test_money_is_exact(tmp_path: Path) -> None:
    model = Priced()
    async with workshop(tmp_path, calling(50), model=model) as shop:
        await shop.create("m", budget={"money": "0.30"})
        row = await shop.until(SessionStatus.PAUSED)
        assert model.calls == 3  # three tenths are not more than 0.30, as they would be in floats
        assert row.reason == "budget spent: 0.30 of 0.30 of money of this session"


async def test_where_money_is_limited_a_call_of_unknown_price_stops_the_session(tmp_path: Path) -> None:
    model = Priced(cost=None)
    async with workshop(tmp_path, calling(50), model=model) as shop:
        await shop.create("m", budget={"money": "5"})
        row = await shop.until(SessionStatus.PAUSED)
        assert model.calls == 1
        assert row.reason == "budget spent: 1 of 0 calls of unknown price of this session"
        await put_budget(shop.db, Scope("session:s"), Limits(money=Decimal(5), unpriced_calls=4))
        await eventually(lambda: model.calls == 5)
        await shop.until(SessionStatus.PAUSED)


async def test_steps_and_seconds_of_work_are_looked_at_before_a_step(tmp_path: Path) -> None:
    async def step(ctx: Any, frame: StepFrame) -> StepOut:
        shop.clock.leap(3.0)
        return out(frame)

    async with workshop(tmp_path, moniker("m", step)) as shop:
        await shop.create("m", "steps", budget={"steps": 4})
        row = await shop.until(SessionStatus.PAUSED, "steps")
        assert (row.iteration, row.reason) == (3, "budget spent: 4 of 4 steps of this session")
        await shop.create("m", "time", budget={"time_s": 10})
        row = await shop.until(SessionStatus.PAUSED, "time")
        assert row.iteration <= 3
        assert "10.0 seconds of work of this session" in (row.reason or "")


async def test_a_session_that_waits_is_not_paused_before_it_is_asked(tmp_path: Path) -> None:
    model = Priced()
    async with workshop(tmp_path, calling(1, **WAIT), model=model) as shop:
        await shop.create("m", budget={"calls": 1})
        await shop.until(SessionStatus.WAITING)
        said = await shop.say("again")
        row = await shop.until(SessionStatus.PAUSED)
        assert (model.calls, row.iteration) == (1, 0)
        assert not (await shop.action(said)).processed
        await put_budget(shop.db, Scope("session:s"), Limits(calls=2))
        await shop.done(said)
        assert model.calls == 2


async def test_sessions_share_the_budgets_of_their_agent_their_thread_and_all(tmp_path: Path) -> None:
    for scope, words in (
        ("agent:x", "agent 'x'"),
        ("conversation:t", "conversation 't'"),
        (TOTAL, "all sessions"),
    ):
        model = Priced()
        async with workshop(tmp_path / scope.partition(":")[0], calling(4), model=model) as shop:
            await shop.thread("t")
            await put_budget(shop.db, Scope(scope), Limits(tokens=155))
            for name in ("one", "two", "three"):
                await shop.create("m", name, agent="x", conversation="t")
            for name in ("one", "two", "three"):
                row = await shop.until(SessionStatus.PAUSED, name)
                assert row.reason == f"budget spent: 160 of 155 tokens of {words}"
            assert model.calls == 16


async def test_calls_in_flight_are_reserved_so_that_a_number_of_calls_is_never_passed(tmp_path: Path) -> None:
    gate = Gate()
    model = Priced(gate=gate)

    async def many(ctx: Any, frame: StepFrame) -> StepOut:
        await asyncio.gather(*[ctx.llm.chat(asking(number)) for number in range(20)])
        return out(frame)

    async with workshop(tmp_path, moniker("m", many), model=model) as shop:
        await put_budget(shop.db, TOTAL, Limits(calls=7, tokens=10_000))
        await shop.create("m", "one")
        await shop.create("m", "two")
        gate.open()
        for name in ("one", "two"):
            await shop.until(SessionStatus.PAUSED, name)
        assert model.calls == 7


async def test_a_budget_taken_away_holds_nobody(tmp_path: Path) -> None:
    model = Priced()
    async with workshop(tmp_path, calling(6, **WAIT), model=model) as shop:
        await put_budget(shop.db, TOTAL, Limits(calls=2))
        await shop.create("m")
        await shop.until(SessionStatus.PAUSED)
        await delete_budget(shop.db, TOTAL)
        await shop.until(SessionStatus.WAITING)
        assert model.calls == 6


async def test_a_session_paused_for_a_budget_can_be_stopped(tmp_path: Path) -> None:
    async with workshop(tmp_path, calling(6), model=Priced()) as shop:
        await shop.create("m", budget={"calls": 2})
        await shop.until(SessionStatus.PAUSED)
        await shop.done(await shop.destroy())
        row = await shop.state()
        assert (row.status, await mark_of(shop)) == (SessionStatus.STOPPED, None)
        assert spent_of(row.usage).calls == 2  # also of the step that never was


async def test_what_a_turn_had_used_that_was_taken_back_stays_spent(tmp_path: Path) -> None:
    model, gate = Priced(), Gate()

    async def step(ctx: Any, frame: StepFrame) -> StepOut:
        if frame.inputs:
            await ctx.llm.chat(asking(0))
            await gate.passing()
        return out(frame, **WAIT)

    async with workshop(tmp_path, moniker("m", step), model=model) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        one = await shop.say("one")
        await gate.reached.wait()
        two = await shop.ask(ActionKind.INPUT, payload={"text": "two", "when_busy": "rollback"})
        assert "rolled back" in await shop.error_of(one)
        gate.open()
        await shop.done(two)
        assert (model.calls, (await shop.steps())[-1].usage["calls"]) == (2, 2)


async def test_agents_that_delegate_to_each_other_stop_at_a_budget(tmp_path: Path) -> None:
    async def passes_on(ctx: Any, frame: StepFrame) -> StepOut:
        for said in frame.inputs:
            await ctx.llm.chat(asking(int(frame.step)))
            await ctx.enqueue("agent_input", session_id=OTHER[ctx.session_id], payload={"text": said.text})
        return out(frame, **WAIT)

    for scope in ("conversation:t", TOTAL):
        model = Priced()
        folder = tmp_path / scope.partition(":")[0]
        async with workshop(folder, moniker("m", passes_on), model=model, max_hops=1000) as shop:
            await shop.thread("t")
            for name in OTHER:
                await shop.create("m", name, conversation="t")
                await shop.until(SessionStatus.WAITING, name)
            await put_budget(shop.db, Scope(scope), Limits(calls=6))
            await shop.say("do it", "a")

            async def over() -> bool:
                return any([(await shop.state(name)).status is SessionStatus.PAUSED for name in OTHER])

            await eventually(over)
            states = [await shop.state(name) for name in OTHER]
            stopped = next(state for state in states if state.status is SessionStatus.PAUSED)
            assert "6 of 6 model calls of" in (stopped.reason or "")
            assert model.calls == 6


async def test_the_inbox_asks_for_more_until_there_is_more(tmp_path: Path) -> None:
    async with workshop(tmp_path, calling(6, **WAIT), model=Priced()) as shop:
        await shop.create("m", budget={"calls": 2})
        await shop.until(SessionStatus.PAUSED)
        (asked,) = (await list_approvals(shop.db)).items
        assert (asked.kind, asked.session_id, asked.key) == ("budget", "s", "session:s")
        assert asked.approval_id.startswith("s:budget:")
        assert "2 of 2 model calls" in asked.question
        await put_budget(shop.db, Scope("session:s"), Limits(calls=20))
        await shop.until(SessionStatus.WAITING)
        assert (await list_approvals(shop.db)).items == ()


async def asked_of(shop: Workshop, session: str = "s") -> str:
    """The id of the question that a session asks."""
    asked = (await list_approvals(shop.db, ApprovalFilter(session_id=SessionId(session)))).items
    return asked[0].approval_id


async def answer(shop: Workshop, decision: str, asked: str | None = None, **given: Any) -> Action:
    approval_id = asked or await asked_of(shop)
    return await approval_action(shop.db, approval_id, ApprovalDecision(decision), session_id=SessionId("s"), **given)


async def test_approve_allows_as_much_again(tmp_path: Path) -> None:
    model = Priced()
    async with workshop(tmp_path, calling(7, **WAIT), model=model) as shop:
        await shop.create("m", budget={"calls": 3, "tokens": 1000})
        await shop.until(SessionStatus.PAUSED)
        asked = await asked_of(shop)
        await shop.done(await answer(shop, "approve"))
        await eventually(lambda: model.calls == 6)
        await shop.until(SessionStatus.PAUSED)
        budget = await find_budget(shop.db, Scope("session:s"))
        assert budget is not None
        assert budget.limits == {"calls": 6, "tokens": 1000}
        assert "is not open" in await shop.error_of(await answer(shop, "approve", asked))  # a second click
        assert model.calls == 6
        await shop.done(await answer(shop, "edit", value={"limits": {"calls": 50}}))
        await shop.until(SessionStatus.WAITING)
        assert model.calls == 7


async def test_reject_ends_the_session_with_the_reason(tmp_path: Path) -> None:
    async with workshop(tmp_path, calling(7), model=Priced()) as shop:
        await shop.create("m", budget={"calls": 3})
        await shop.until(SessionStatus.PAUSED)
        await shop.done(await answer(shop, "reject"))
        row = await shop.state()
        words = "budget spent: 3 of 3 model calls of this session; no more is allowed"
        assert (row.status, row.reason) == (SessionStatus.STOPPED, words)
        assert (await list_approvals(shop.db)).items == ()


async def test_answers_that_give_nothing_are_refused(tmp_path: Path) -> None:
    async with workshop(tmp_path, calling(7), model=Priced()) as shop:
        await shop.create("m", budget={"calls": 0})
        await shop.until(SessionStatus.PAUSED)
        assert "as much again is 0" in await shop.error_of(await answer(shop, "approve"))
        assert "limits" in await shop.error_of(await answer(shop, "edit", value="more"))
        assert "no such limit" in await shop.error_of(await answer(shop, "edit", value={"limits": {"gold": 1}}))
        assert "approve, edit or reject" in await shop.error_of(await answer(shop, "repeat"))
        assert (await shop.state()).status is SessionStatus.PAUSED


async def test_a_moniker_knows_what_is_left(tmp_path: Path) -> None:
    told: list[Any] = []

    async def step(ctx: Any, frame: StepFrame) -> StepOut:
        told.append(await ctx.left())
        await ctx.llm.chat(asking(0))
        told.append(await ctx.left())
        return out(frame, **WAIT)

    async with workshop(tmp_path, moniker("m", step), model=Priced()) as shop:
        await shop.create("m", "free")
        await shop.until(SessionStatus.WAITING, "free")
        assert told == [None, None]
        assert await records_of(shop.db).find(filters.equals("kind", "budget")) == []
        await put_budget(shop.db, TOTAL, Limits(tokens=1000, money=Decimal("2.5")))
        await shop.create("m", budget={"tokens": 30, "steps": 4})
        await shop.until(SessionStatus.WAITING)
        assert [{**left, "money": Decimal(left["money"])} for left in told[2:]] == [
            {"tokens": 30, "steps": 4, "money": Decimal("2.4"), "unpriced_calls": 0},
            {"tokens": 20, "steps": 4, "money": Decimal("2.3"), "unpriced_calls": 0},
        ]
        for name in ("free", "s"):
            again = await replay_session(shop.db, shop._catalogue, AllowedFiles([]), SessionId(name))
            assert (again.steps, again.difference) == (1, None)
        assert told[4:] == told[:4]


async def test_a_call_inside_of_a_call_waits_for_nobody(tmp_path: Path) -> None:
    async def step(ctx: Any, frame: StepFrame) -> StepOut:
        async def judged() -> str:
            return str((await ctx.llm.chat(asking(0))).text)

        await ctx.record("judged", judged, kind="model")
        return out(frame, **WAIT)

    model = Priced()
    async with workshop(tmp_path, moniker("m", step), model=model) as shop:
        await shop.create("m", budget={"calls": 1})
        await shop.until(SessionStatus.WAITING)
        assert model.calls == 1
