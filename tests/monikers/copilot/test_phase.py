"""An agent costs nobody but itself (spec 2 §8.5): errors, deadlines, cancellation of one and of all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from monikers.copilot import AgentContext, AgentResponse, BaseAgent, Blackboard, InsightType
from tests.monikers.copilot.agents import Heard, Scripted, StillClock, context_of, engine_of, says


async def hangs(agent: BaseAgent, context: AgentContext) -> AgentResponse:
    await asyncio.Event().wait()
    raise AssertionError("nobody wakes it")


def will_not_die(release: asyncio.Event, *, late: AgentResponse) -> Any:
    """An agent's function that swallows its cancellation and answers when it is released."""

    async def answer(agent: BaseAgent, context: AgentContext) -> AgentResponse:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return late

    return answer


def raising(error: BaseException) -> Callable[..., Awaitable[AgentResponse]]:
    async def answer(agent: BaseAgent, context: AgentContext) -> AgentResponse:
        context.shared_state["touched"] = True
        agent.private_state["touched"] = True
        await asyncio.sleep(0)
        raise error

    return answer


class NoException(BaseException):
    """What an agent has no business to raise."""


@pytest.mark.parametrize(
    "error", [ValueError("boom"), asyncio.CancelledError(), TimeoutError(), SystemExit(3), NoException("odd")]
)
async def test_whatever_an_agent_raises_the_others_go_on(error: BaseException) -> None:
    board, heard = Blackboard(variables={"x": 1}), Heard()
    bad = Scripted("bad", raising(error))
    good = Scripted("good", lambda agent, context: says(agent, variable_updates={"y": 2}))
    response = await engine_of(bad, good, callbacks=[heard]).process_turn(context_of(board))
    assert [(insight.agent_id, insight.type) for insight in response.insights] == [
        ("bad", InsightType.ERROR),
        ("good", InsightType.SUGGESTION),
    ]
    assert board.get_var("y") == 2
    assert not board.has_var("touched")
    assert bad.private_state == {}
    assert [args[0] for args in heard.of("on_agent_error")] == ["bad"]
    assert [args[0] for args in heard.of("on_agent_finish")] == ["good", "bad"]


async def test_an_agent_that_fails_changes_no_private_state() -> None:
    """The existing implementation kept what an agent wrote before it failed."""

    def answer(agent: BaseAgent, context: AgentContext) -> AgentResponse | None:
        agent.private_state.setdefault("turns", []).append(context.turn_count)
        if context.turn_count == 2:
            raise ValueError("boom")
        return AgentResponse(data={"turns": list(agent.private_state["turns"])})

    engine, board = engine_of(Scripted("agent", answer)), Blackboard()
    turns = [(await engine.process_turn(context_of(board))).data.get("turns") for _ in range(3)]
    assert turns == [[1], None, [1, 3]]


async def test_8_5_private_memory_that_cannot_be_copied_costs_nothing() -> None:
    """A lock, a connection: it is kept as it is, the rest is a copy of the evaluation's own."""

    def answer(agent: BaseAgent, context: AgentContext) -> AgentResponse:
        agent.private_state.setdefault("lock", threading.Lock())
        agent.private_state.setdefault("turns", []).append(context.turn_count)
        if context.turn_count == 2:
            raise ValueError("boom")
        return AgentResponse(data={"turns": list(agent.private_state["turns"])})

    engine, board = engine_of(Scripted("agent", answer)), Blackboard()
    turns = [(await engine.process_turn(context_of(board))).data.get("turns") for _ in range(3)]
    assert turns == [[1], None, [1, 3]]


class Speechless(Exception):
    """An error whose own code fails."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(("error", "words"), [(Speechless(), "Speechless"), (ValueError("half \ud800"), "half ?")])
async def test_8_5_an_error_that_cannot_be_said_is_an_error_insight_still(error: Exception, words: str) -> None:
    response = await engine_of(Scripted("bad", raising(error)), Scripted("good", lambda a, c: says(a))).process_turn(
        context_of()
    )
    assert [insight.content for insight in response.insights] == [f"bad failed: {words}", "hello"]


@pytest.mark.parametrize("waits", [True, False])
async def test_what_the_engine_does_wrong_is_raised_and_not_lost_in_a_task(
    monkeypatch: pytest.MonkeyPatch, *, waits: bool
) -> None:
    async def answer(agent: BaseAgent, context: AgentContext) -> AgentResponse:
        for _ in range(3 if waits else 0):
            await asyncio.sleep(0)
        return AgentResponse()

    def broken(*args: Any) -> None:
        raise LookupError("broken engine")

    monkeypatch.setattr("monikers.copilot.turn.Taker.taken", broken)
    with pytest.raises(LookupError, match="broken engine"):
        await engine_of(Scripted("agent", answer)).process_turn(context_of())


@pytest.mark.parametrize(("own", "engines"), [(5, 100), (None, 5)])
async def test_an_agent_past_its_deadline_is_cancelled(own: float | None, engines: float) -> None:
    clock, board = StillClock(), Blackboard()
    slow = Scripted("slow", hangs, timeout=own)
    quick = Scripted("quick", lambda agent, context: says(agent, variable_updates={"y": 2}))
    engine = engine_of(slow, quick, clock=clock, agent_timeout=engines)
    turn = asyncio.create_task(engine.process_turn(context_of(board)))
    await clock.sleeper()
    clock.move(4.9)
    await asyncio.sleep(0)
    assert not turn.done()
    clock.move(0.1)
    response = await turn
    assert [insight.type for insight in response.insights] == [InsightType.ERROR, InsightType.SUGGESTION]
    assert "5" in response.insights[0].content
    assert board.get_var("y") == 2


async def test_each_agent_has_its_own_deadline() -> None:
    clock, release = StillClock(), asyncio.Event()

    async def waits(agent: BaseAgent, context: AgentContext) -> AgentResponse:
        await release.wait()
        return says(agent)

    engine = engine_of(Scripted("short", hangs, timeout=1), Scripted("long", waits, timeout=10), clock=clock)
    turn = asyncio.create_task(engine.process_turn(context_of()))
    await clock.sleeper()
    clock.move(1)
    await clock.sleeper()
    clock.move(5)
    release.set()
    assert [insight.type for insight in (await turn).insights] == [InsightType.ERROR, InsightType.SUGGESTION]


async def test_an_agent_that_swallows_its_cancellation_is_abandoned() -> None:
    clock, board, release = StillClock(), Blackboard(), asyncio.Event()
    heard = Heard()
    stubborn = Scripted(
        "stubborn", will_not_die(release, late=AgentResponse(variable_updates={"late": 1})), timeout=1, cooldown=0
    )
    engine = engine_of(stubborn, clock=clock, callbacks=[heard])
    turn = asyncio.create_task(engine.process_turn(context_of(board)))
    await clock.sleeper()
    clock.move(1)
    response = await turn
    assert [insight.type for insight in response.insights] == [InsightType.ERROR]
    assert len(engine._abandoned) == 1
    told = len(heard.calls)
    release.set()
    while len(engine._abandoned):
        await asyncio.sleep(0)
    assert not board.has_var("late")
    assert len(heard.calls) == told


async def test_what_an_abandoned_agent_is_shown_does_not_change() -> None:
    """A view outlives its phase."""
    clock, board, release = StillClock(), Blackboard(variables={"x": [1]}), asyncio.Event()
    seen: list[Any] = []

    async def reads(agent: BaseAgent, context: AgentContext) -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        assert context.blackboard is not None
        seen.append((context.blackboard.get_var("x"), list(context.blackboard.variables)))

    engine = engine_of(Scripted("slow", reads, timeout=1), clock=clock)
    turn = asyncio.create_task(engine.process_turn(context_of(board)))
    await clock.sleeper()
    clock.move(1)
    await turn
    keys = list(board.variables)
    board.variables["x"].append(2)
    board.set_var("x", 3)
    board.delete_var("x")
    board.set_var("z", 1)
    release.set()
    while len(engine._abandoned):
        await asyncio.sleep(0)
    assert seen == [([1], keys)]


async def test_a_turn_that_is_cancelled_cancels_its_agents_and_merges_nothing() -> None:
    board, started, cancelled = Blackboard(), asyncio.Event(), []

    async def waits(agent: BaseAgent, context: AgentContext) -> AgentResponse:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(agent.config.id)
            raise
        raise AssertionError

    quick = Scripted("quick", lambda agent, context: AgentResponse(variable_updates={"y": 1}))
    engine = engine_of(quick, Scripted("a", waits), Scripted("b", waits))
    turn = asyncio.create_task(engine.process_turn(context_of(board)))
    await started.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    while len(engine._abandoned):
        await asyncio.sleep(0)
    assert cancelled == ["a", "b"]
    assert not board.has_var("y")


async def test_a_turn_that_is_cancelled_does_not_wait_for_a_stubborn_agent() -> None:
    release = asyncio.Event()
    stubborn = Scripted("stubborn", will_not_die(release, late=AgentResponse(variable_updates={"late": 1})))
    heard = Heard()
    engine, board = engine_of(stubborn, callbacks=[heard]), Blackboard()
    turn = asyncio.create_task(engine.process_turn(context_of(board)))
    while not stubborn.runs:
        await asyncio.sleep(0)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    release.set()
    while len(engine._abandoned):
        await asyncio.sleep(0)
    assert not board.has_var("late")
    assert heard.of("on_agent_finish") == []


async def test_an_agent_whose_task_is_cancelled_by_somebody_else_has_failed() -> None:
    started = asyncio.Event()

    async def waits(agent: BaseAgent, context: AgentContext) -> AgentResponse:
        agent.logger.task = asyncio.current_task()  # type: ignore[attr-defined]
        started.set()
        await asyncio.Event().wait()
        raise AssertionError

    victim = Scripted("victim", waits)
    turn = asyncio.create_task(engine_of(victim, Scripted("other", lambda a, c: says(a))).process_turn(context_of()))
    await started.wait()
    victim.logger.task.cancel()  # type: ignore[attr-defined]
    assert [insight.type for insight in (await turn).insights] == [InsightType.ERROR, InsightType.SUGGESTION]


async def test_agents_of_a_phase_run_side_by_side() -> None:
    """Spec 2 §3.1. Each waits for the other, which would never end one after the other."""
    meet = asyncio.Barrier(3)

    async def meets(agent: BaseAgent, context: AgentContext) -> AgentResponse:
        await meet.wait()
        return says(agent, agent.config.id * 2)

    response = await engine_of(*[Scripted(name, meets) for name in "cab"]).process_turn(context_of())
    assert [insight.content for insight in response.insights] == ["cc", "aa", "bb"]
