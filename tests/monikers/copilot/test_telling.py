"""What callbacks hear, and that none of them harms a turn (spec 2 §11.1)."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from monikers.copilot import AgentCallbackHandler, AgentContext, AgentInsight, AgentResponse, InsightType
from tests.monikers.copilot.agents import (
    Heard,
    Scripted,
    StillClock,
    context_of,
    emitting,
    engine_of,
    listener,
    says,
)

HOOKS = [name for name in vars(AgentCallbackHandler) if name.startswith("on_")]


#: the hooks of §11.1 with what they are told
SPEC_HOOKS = {
    "on_turn_start": ["context"],
    "on_phase_start": ["phase", "agents"],
    "on_agent_start": ["agent_name", "context"],
    "on_agent_finish": ["agent_name", "response", "duration"],
    "on_agent_skipped": ["agent_name", "reason"],
    "on_agent_error": ["agent_name", "error"],
    "on_phase_end": ["phase", "events_emitted"],
    "on_turn_end": ["response", "duration"],
}


@pytest.mark.parametrize(("hook", "parameters"), SPEC_HOOKS.items())
def test_11_1_each_hook_is_there_with_its_parameters(hook: str, parameters: list[str]) -> None:
    method = getattr(AgentCallbackHandler, hook)
    assert list(inspect.signature(method).parameters) == ["self", *parameters]
    assert inspect.iscoroutinefunction(method)


async def test_8_1_without_events_there_is_no_phase_2() -> None:
    heard = Heard()
    await engine_of(Scripted("quiet"), listener("woken", "e"), callbacks=[heard]).process_turn(context_of())
    assert [args[0] for args in heard.of("on_phase_start")] == [1]


async def test_a_turn_is_told_in_order() -> None:
    heard = Heard()
    both = [Scripted("emits", emitting("e", "e", "f")), listener("woken", "e")]
    response = await engine_of(*both, callbacks=[heard]).process_turn(context := context_of())
    one_agent = ["on_agent_start", "on_agent_finish"]
    skipped = ["on_agent_skipped"]
    assert heard.hooks == [
        *["on_turn_start", *skipped, "on_phase_start", *one_agent, "on_phase_end"],
        *["on_phase_start", *one_agent, "on_phase_end", "on_turn_end"],
    ]
    assert heard.of("on_turn_start") == [(context,)]
    assert heard.of("on_phase_start") == [(1, ["emits"]), (2, ["woken"])]
    assert heard.of("on_phase_end") == [(1, ["e", "f"]), (2, [])]
    assert heard.of("on_turn_end") == [(response, 0.0)]
    name, answered, duration = heard.of("on_agent_finish")[0]
    assert (name, answered.source_agent_id, duration) == ("emits", "emits", 0.0)


async def test_an_insight_is_told_as_soon_as_its_agent_has_finished() -> None:
    told, release = asyncio.Event(), asyncio.Event()

    class Screen(AgentCallbackHandler):
        async def on_insight(self, insight: AgentInsight, context: AgentContext) -> None:
            assert context.session_id == "session"
            told.set()

    async def waits(agent: Any, context: AgentContext) -> Any:
        await release.wait()
        return says(agent, "late")

    engine = engine_of(Scripted("slow", waits), Scripted("quick", lambda a, c: says(a)), callbacks=[Screen()])
    turn = asyncio.create_task(engine.process_turn(context_of()))
    await told.wait()
    assert not turn.done()
    release.set()
    assert [insight.content for insight in (await turn).insights] == ["late", "hello"]


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("error", [ValueError("boom"), asyncio.CancelledError()])
async def test_a_callback_that_raises_harms_no_turn(hook: str, error: BaseException) -> None:
    calls = []

    async def raises(self: Any, *args: Any) -> None:
        calls.append(hook)
        raise error

    bad, heard = type("Bad", (AgentCallbackHandler,), {hook: raises})(), Heard()

    def fails(agent: Any, context: Any) -> None:
        raise ValueError

    agents = [
        Scripted("says", lambda a, c: says(a)),
        Scripted("fails", fails),
        Scripted("skipped", trigger_types=["silence"]),
    ]
    response = await engine_of(*agents, callbacks=[bad, heard]).process_turn(context_of())
    assert [insight.type for insight in response.insights] == [InsightType.SUGGESTION, InsightType.ERROR]
    assert heard.hooks[-1] == "on_turn_end"
    assert bool(calls) is (hook != "on_chain_error")


async def test_a_hook_that_cancels_itself_keeps_nothing_from_the_handler() -> None:
    told = []

    class Odd(AgentCallbackHandler):
        async def on_turn_end(self, *args: Any) -> None:
            raise asyncio.CancelledError

        async def on_turn_record(self, *args: Any) -> None:
            told.append("on_turn_record")

    await engine_of(callbacks=[Odd()]).process_turn(context_of())
    assert told == ["on_turn_record"]


@pytest.mark.parametrize("hook", ["on_turn_start", "on_agent_start", "on_turn_end"])
async def test_a_callback_that_hangs_is_left_behind_at_the_end(hook: str) -> None:
    clock, asked = StillClock(), list[AgentContext]()

    async def hangs(self: Any, *args: Any) -> None:
        await asyncio.Event().wait()

    bad, heard = type("Bad", (AgentCallbackHandler,), {hook: hangs})(), Heard()

    def answer(agent: Any, context: AgentContext) -> AgentResponse:
        asked.append(context)
        return says(agent)

    agent = Scripted("agent", answer)
    engine = engine_of(agent, clock=clock, callbacks=[bad, heard], callback_timeout=2)
    turn = asyncio.create_task(engine.process_turn(context_of()))
    await clock.sleeper()
    assert asked
    assert heard.hooks[-1] == "on_turn_end"
    clock.move(2)
    assert len((await turn).insights) == 1
    turn = asyncio.create_task(engine.process_turn(context_of()))  # and it is hardly waited for again
    began = clock.monotonic()
    while not turn.done():
        await asyncio.sleep(0)
        clock.move(0.01)
    assert len((await turn).insights) == 1
    assert clock.monotonic() - began < 1


async def test_a_callback_that_is_in_time_again_is_waited_for_again() -> None:
    clock, release, told = StillClock(), asyncio.Event(), list[str]()

    class Slow(AgentCallbackHandler):
        async def on_turn_end(self, *args: Any) -> None:
            await release.wait()
            await asyncio.sleep(0)
            told.append("end")

    engine = engine_of(clock=clock, callbacks=[Slow()], callback_timeout=2)
    turn = asyncio.create_task(engine.process_turn(context_of()))
    await clock.sleeper()
    clock.move(2)
    await turn
    assert (told, len(engine._hung)) == ([], 1)
    release.set()
    await engine.process_turn(context_of())
    assert (told, engine._hung) == (["end"], {})


async def test_a_turn_that_is_cancelled_leaves_no_callback_running() -> None:
    started = asyncio.Event()

    class Bad(AgentCallbackHandler):
        async def on_turn_start(self, context: AgentContext) -> None:
            started.set()
            await asyncio.Event().wait()

    async def hangs(agent: Any, context: AgentContext) -> None:
        await asyncio.Event().wait()

    engine = engine_of(Scripted("agent", hangs), callbacks=[Bad()])
    turn = asyncio.create_task(engine.process_turn(context_of()))
    await started.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    while len(engine._abandoned):
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_handler_need_not_be_one_of_ours() -> None:
    calls: list[str] = []

    class Plain:
        def on_turn_start(self, context: AgentContext) -> None:
            calls.append("on_turn_start")

    engine = engine_of(Scripted("agent"), callbacks=[Plain()])
    await engine.process_turn(context_of())
    assert calls == ["on_turn_start"]


async def test_the_base_class_hears_nothing_and_costs_no_task() -> None:
    handler = AgentCallbackHandler()
    for hook in HOOKS:
        assert await getattr(handler, hook)(*[None] * (getattr(handler, hook).__code__.co_argcount - 1)) is None
    engine = engine_of(Scripted("agent"), callbacks=[handler])
    await engine.process_turn(context_of())
