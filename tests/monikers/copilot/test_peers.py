"""What the engine that this one follows gets wrong, one test a fault; the numbers are those of the list in the
project's notes on its peers."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from typing import Any

import pytest

from monikers.copilot import (
    AgentConfigurationError,
    AgentContext,
    AgentResponse,
    Blackboard,
    Event,
    Fact,
    InsightType,
    ReadOnlyError,
    StructuredLogTracer,
    TriggerType,
)
from tests.monikers.copilot.agents import (
    Heard,
    Scripted,
    StillClock,
    answering,
    context_of,
    emitting,
    engine_of,
    listener,
    says,
    segment,
)


async def test_1_agents_cannot_write_the_board_or_the_transcript() -> None:
    refused: list[type] = []

    def vandal(agent: Any, context: Any) -> None:
        for write in (
            lambda: context.blackboard.variables.__setitem__("x", 2),
            lambda: context.blackboard.variables["list"].append(2),
            lambda: setattr(context.recent_segments[0], "text", "rewritten"),
        ):
            try:
                write()
            except (ReadOnlyError, ValueError) as error:
                refused.append(type(error))
        context.recent_segments.clear()

    board, second = Blackboard(variables={"x": 1, "list": [1]}), Scripted("second")
    context = context_of(board, recent_segments=[segment("said")])
    await engine_of(Scripted("vandal", vandal), second).process_turn(context)
    assert len(refused) == 3
    assert (board.get_var("x"), board.get_var("list")) == (1, [1])
    assert (
        [one.text for one in context.recent_segments] == [one.text for one in second.seen.recent_segments] == ["said"]
    )


async def test_2_two_sessions_share_neither_cooldowns_nor_memory() -> None:
    def answer(agent: Any, context: AgentContext) -> AgentResponse:
        agent.private_state.setdefault("heard", []).append(context.session_id)
        return AgentResponse(
            data={"heard": list(agent.private_state["heard"])}, memory_updates={"who": context.session_id}
        )

    engine = engine_of(Scripted("agent", answer, cooldown=9_999))
    boards = {name: Blackboard() for name in "ab"}
    heard = [(await engine.process_turn(context_of(boards[name], name))).data for name in "ab"]
    assert heard == [{"heard": ["a"]}, {"heard": ["b"]}]
    assert [board.get_memory("agent") for board in boards.values()] == [{"who": "a"}, {"who": "b"}]


async def test_3_turns_that_overlap_do_not_run_a_cooling_agent_twice() -> None:
    release = asyncio.Event()

    async def waits(agent: Any, context: AgentContext) -> AgentResponse:
        await release.wait()
        return says(agent)

    engine = engine_of(agent := Scripted("agent", waits, cooldown=9_999))
    turns = [asyncio.create_task(engine.process_turn(context_of())) for _ in range(2)]
    while not agent.runs:
        await asyncio.sleep(0)
    release.set()
    await asyncio.gather(*turns)
    assert agent.runs == 1


async def test_4_one_hung_agent_does_not_block_a_turn_and_cancelled_error_does_not_abort_it() -> None:
    clock = StillClock()

    async def hangs(agent: Any, context: AgentContext) -> None:
        await asyncio.Event().wait()

    async def cancels(agent: Any, context: AgentContext) -> None:
        raise asyncio.CancelledError

    agents = [Scripted("hangs", hangs, timeout=1), Scripted("cancels", cancels), Scripted("ok", lambda a, c: says(a))]
    turn = asyncio.create_task(engine_of(*agents, clock=clock).process_turn(context_of()))
    await clock.sleeper()
    clock.move(1)
    types = [insight.type for insight in (await turn).insights]
    assert types == [InsightType.ERROR, InsightType.ERROR, InsightType.SUGGESTION]


async def test_5_one_bad_response_costs_only_itself() -> None:
    bad = AgentResponse.model_construct(**{**AgentResponse().__dict__, "queue_pushes": None, "facts": [3]})
    good = answering(variable_updates={"lock": threading.Lock(), "x": 1})
    board = Blackboard()
    engine = engine_of(Scripted("bad", lambda a, c: bad), Scripted("good", good))
    for _ in range(2):
        await engine.process_turn(context_of(board))
    assert board.get_var("x") == 1


async def test_6_a_malformed_field_keeps_the_insight_and_an_error_keeps_the_private_state() -> None:
    def odd(agent: Any, context: AgentContext) -> AgentResponse:
        fields = {"events": [{"payload": {}}], "insights": [agent.create_insight("good advice")], "facts": "no"}
        return AgentResponse.model_construct(**{**AgentResponse().__dict__, **fields})

    def fails(agent: Any, context: AgentContext) -> None:
        agent.private_state["x"] = context.turn_count
        if context.turn_count == 2:
            raise ValueError

    failing = Scripted("fails", fails)
    engine = engine_of(Scripted("odd", odd), failing)
    response = await engine.process_turn(context_of())
    await engine.process_turn(context_of())
    assert [insight.content for insight in response.insights] == ["good advice"]
    assert engine.export_session("session")["agents"]["fails"]["private"] == {"x": 1}


def test_7_facts_without_a_key_replace_all_and_old_ones_can_be_corrected() -> None:
    board = Blackboard(facts=[Fact(type="t", key="a", value=1), Fact(type="t", key="b", value=2)])
    board.add_fact(Fact(type="t", value=3))
    assert [fact.value for fact in board.facts] == [3]
    old = Fact(type="u", value="old", priority=100, confidence=0.9, source_agent="a")
    for corrected in (
        Fact(type="u", value="new", confidence=0.9),
        Fact(type="u", value="new", confidence=0.1, source_agent="a"),
    ):
        board = Blackboard(facts=[old])
        board.add_fact(corrected)
        assert [fact.value for fact in board.facts] == ["new"]


async def test_8_version_1() -> None:
    updates = {"memory_memory_keeper": {"a": 1}, "memory_usage": 80}
    board = Blackboard(variables={"gone": 1})
    keeper = Scripted("memory_keeper", answering(state_updates=updates))
    gated = Scripted("gated", trigger_conditions={"rules": [{"var": "phase", "op": "eq", "value": "x"}]})
    engine = engine_of(keeper, gated)
    context = context_of(board, shared_state={"phase": "x"})
    await engine.process_turn(context)
    assert board.memory == {"memory_keeper": {"a": 1}}
    assert board.get_var("memory_usage") == 80
    assert gated.runs == 1
    board.delete_var("gone")
    await engine.process_turn(context)
    assert "gone" not in gated.seen.shared_state


async def test_9_events_of_the_host_subscriptions_silence_and_orders() -> None:
    woken, other = listener("woken", "e"), listener("other", "x")
    quiet = Scripted("quiet", trigger_types=[TriggerType.SILENCE], silence_threshold=5)
    heard = Heard()
    names = [f"e{number}" for number in range(20)]
    engine = engine_of(woken, other, quiet, Scripted("many", emitting(*names, *names)), callbacks=[heard])
    await engine.process_turn(context_of(Blackboard(events=[Event(name="e")])))
    assert (woken.runs, other.runs) == (1, 0)
    assert heard.of("on_phase_end")[0] == (1, names)
    event = Blackboard(events=[Event(name="x")])
    await engine.process_turn(context_of(event, "another"), trigger_type=TriggerType.EVENT)
    assert (woken.runs, other.runs) == (1, 1)
    silence = {"silence_duration": 2}
    await engine.process_turn(context_of(), trigger_type=TriggerType.SILENCE, trigger_metadata=silence)
    assert quiet.runs == 0


async def test_10_conditions_that_make_no_sense_do_not_raise_and_do_not_pass() -> None:
    odd: list[Any] = [[1], {"rules": 5}, {"rules": [{"vra": "x", "op": "exists"}]}, {"rules": [5]}, "text"]
    agents = [Scripted(f"a{number}", trigger_conditions=one) for number, one in enumerate(odd)]
    response = await engine_of(*agents).process_turn(context_of(Blackboard(variables={"x": 1})))
    assert [agent.runs for agent in agents] == [0] * len(odd)
    assert response.insights == []


async def test_11_ids_are_unique_and_values_of_a_response_are_not_those_of_the_board() -> None:
    engine, board = engine_of(Scripted("a", answering(variable_updates={"x": [1]}))), Blackboard()
    with pytest.raises(AgentConfigurationError):
        engine.register_agent(Scripted("a"))
    response = await engine.process_turn(context_of(board))
    response.variable_updates["x"].append(2)
    assert board.get_var("x") == [1]


async def test_12_the_trace_the_skips_sys_and_the_metadata_of_the_host() -> None:
    tracer, heard = StructuredLogTracer(), Heard()
    cooling, woken = Scripted("cooling", emitting("e"), cooldown=9), listener("woken", "e", cooldown=9)
    engine = engine_of(cooling, Scripted("emits", emitting("e")), woken, callbacks=[tracer, heard])
    board = Blackboard()
    for _ in range(2):
        await engine.process_turn(context_of(board, trigger_metadata={"by": "host"}))
    trace = tracer.traces[1]
    assert [phase["phase"] for phase in trace["phases"]] == [1, 2]
    assert [phase["agents_skipped"] for phase in trace["phases"]] == [
        [{"agent": "cooling", "reason": "cooldown"}],
        [{"agent": "woken", "reason": "cooldown"}],
    ]
    assert sorted(trace["replay"]) == ["agent_configs_hash", "blackboard_snapshot_hash", "context_hash"]
    assert heard.of("on_agent_skipped")[-2:] == [("woken", "trigger_type_mismatch"), ("woken", "cooldown")]
    assert woken.seen.trigger_metadata == {"by": "host"}
    writes = Scripted("writes", answering(variable_updates={"sys.turn_count": 99}))
    await engine_of(writes).process_turn(context_of(board, turn_count=3))
    assert board.get_var("sys.turn_count") == 3
    json.dumps(trace)


async def test_13_a_turn_costs_what_it_does_and_not_what_the_board_holds() -> None:
    """Counted in calls, which are the same on every machine; in seconds it is `python -m bench copilot`."""
    costs = []
    for size in (10, 1_000):
        agents = [
            Scripted("emits", lambda a, c: AgentResponse(events=[Event(name="e")], variable_updates={"x": 1})),
            Scripted("facts", answering(facts=[Fact(type="t", key="0", value=2)], queue_pushes={"q": [1]})),
            listener("woken", "e", trigger_conditions={"rules": [{"queue": "q", "op": "not_empty"}]}),
        ]
        board = Blackboard(
            variables={f"name{number}": number for number in range(size)},
            facts=[Fact(type="t", key=str(number), value=number) for number in range(size)],
            queues={"q": list(range(size))},
        )
        engine = engine_of(*agents)
        await engine.process_turn(context_of(board))
        calls = 0

        def count(frame: Any, event: str, argument: Any) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            await engine.process_turn(context_of(board))
        finally:
            sys.setprofile(None)
        costs.append(calls)
        assert agents[2].runs == 2
    assert costs[0] == costs[1]
