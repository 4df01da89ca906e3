"""What belongs to (session, agent) and how long it is kept (spec 2 §8.2; docs/copilot.md, "Rules")."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from monikers.copilot import AgentContext, AgentResponse, RateLimit
from tests.monikers.copilot.agents import Scripted, StillClock, context_of, engine_of, says
from tests.support import examples


def counting(agent: Any, context: AgentContext) -> AgentResponse:
    """An agent's function that counts its turns in its private state."""
    agent.private_state["n"] = agent.private_state.get("n", 0) + 1
    return AgentResponse(data={"n": agent.private_state["n"], "last": agent.last_run_time})


async def test_two_sessions_on_one_engine_never_see_each_other() -> None:
    agent = Scripted("agent", counting, cooldown=10)
    engine = engine_of(agent, clock=StillClock())
    data = [(await engine.process_turn(context_of(session_id=name))).data for name in ("a", "b", "a")]
    assert data == [{"n": 1, "last": 0.0}, {"n": 1, "last": 0.0}, {}]


async def test_overlapping_evaluations_of_one_agent_keep_their_sessions_apart() -> None:
    both = asyncio.Barrier(2)

    async def answer(agent: Any, context: AgentContext) -> AgentResponse:
        agent.private_state["who"] = context.session_id
        await both.wait()
        inner = await asyncio.gather(asyncio.to_thread(lambda: agent.private_state["who"]), whoever(agent))
        return AgentResponse(data={"who": [agent.private_state["who"], *inner]})

    async def whoever(agent: Any) -> Any:
        return agent.private_state["who"]

    engine = engine_of(agent := Scripted("agent", answer))
    turns = [engine.process_turn(context_of(session_id=name)) for name in ("a", "b")]
    assert [response.data["who"] for response in await asyncio.gather(*turns)] == [["a"] * 3, ["b"] * 3]
    assert agent.private_state == {}


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 7)), max_size=12))
@examples(60)
def test_what_happens_in_a_session_is_as_if_it_had_the_engine_alone(turns: list[tuple[str, int]]) -> None:
    """Cooldowns, rate limits, private memory, counters, said words, usage and what waits: whatever others do."""

    def talks(agent: Any, context: AgentContext) -> AgentResponse:
        found = counting(agent, context)
        found.insights = [agent.create_insight("the same words")]
        found.usage = {"calls": 1}
        return found

    async def played(names: str) -> dict[str, list[Any]]:
        clock, found = StillClock(), dict[str, list[Any]]()
        agents = [
            Scripted("cooling", talks, cooldown=5),
            Scripted("limited", talks, rate_limit=RateLimit(2, per_s=10)),
            Scripted("careful", talks, needs_approval=True),
        ]
        engine = engine_of(*agents, clock=clock, insight_window=8)
        for name, seconds in turns:
            clock.move(seconds)
            if name in names:
                response = await engine.process_turn(context_of(session_id=name))
                waits = [held.insight for held in engine.held_insights(name)]
                kept = {key: value for key, value in engine.export_session(name).items() if key != "held"}
                found.setdefault(name, []).append((response, waits, kept))
        return found

    async def compare() -> None:
        both = await played("ab")
        assert both == {**await played("a"), **await played("b")}

    asyncio.run(compare())


async def test_every_session_begins_with_what_the_agent_was_made_with() -> None:
    agent = Scripted("agent", counting)
    agent.private_state = {"n": 10, "deep": []}
    engine = engine_of(agent)
    counted = [(await engine.process_turn(context_of(session_id=name))).data["n"] for name in ("a", "a", "b")]
    assert counted == [11, 12, 11]
    assert agent.private_state == {"n": 10, "deep": []}


async def test_last_run_time_is_that_of_the_session_and_can_be_set() -> None:
    clock = StillClock()
    agent = Scripted("agent", counting, cooldown=100)
    engine = engine_of(agent, clock=clock)
    began = clock.now().timestamp()
    await engine.process_turn(context_of())
    assert agent.last_run_time == began
    clock.move(1)
    agent.last_run_time = 0.0
    response = await engine.process_turn(context_of())
    assert response.data == {"n": 2, "last": 0.0}
    clock.move(99)
    assert (await engine.process_turn(context_of())).data == {}
    agent.last_run_time = clock.now().timestamp() - 50
    assert (await engine.process_turn(context_of(session_id="new"))).data == {}
    clock.move(50)
    assert (await engine.process_turn(context_of(session_id="new"))).data["n"] == 1


async def test_what_an_evaluation_says_of_its_last_run_is_its_own() -> None:
    """Set within an evaluation it ends no cooldown, neither there nor elsewhere."""

    def resets(agent: Any, context: AgentContext) -> AgentResponse:
        agent.last_run_time = 5.0
        return AgentResponse(data={"last": agent.last_run_time})

    agent = Scripted("agent", resets, cooldown=100)
    engine = engine_of(agent)
    found = [(await engine.process_turn(context_of())).data for _ in range(2)]
    assert found == [{"last": 5.0}, {}]


async def test_the_session_that_was_idle_longest_is_forgotten_first() -> None:
    agent = Scripted("agent", counting)
    engine = engine_of(agent, max_sessions=2)
    for name in ("a", "b", "a", "c"):
        await engine.process_turn(context_of(session_id=name))
    assert engine.session_count == 2
    counted = [(await engine.process_turn(context_of(session_id=name))).data["n"] for name in ("a", "b")]
    assert counted == [3, 1]


async def test_what_waits_in_a_session_that_is_forgotten_goes_with_it() -> None:
    engine = engine_of(Scripted("agent", lambda a, c: says(a), needs_approval=True), max_sessions=1)
    await engine.process_turn(context_of(session_id="a"))
    (held,) = engine.held_insights("a")
    await engine.process_turn(context_of(session_id="b"))
    assert (engine.held_insights("a"), len(engine.held_insights("b"))) == ([], 1)
    assert await engine.decide(held.held_id, agreed=True) is None


async def test_a_session_in_the_middle_of_a_turn_is_not_forgotten() -> None:
    release = asyncio.Event()

    async def waits(agent: Any, context: AgentContext) -> AgentResponse:
        agent.private_state["n"] = agent.private_state.get("n", 0) + 1
        if context.session_id == "running":
            await release.wait()
        return AgentResponse(data=dict(agent.private_state))

    engine = engine_of(agent := Scripted("agent", waits), max_sessions=1)
    running = asyncio.create_task(engine.process_turn(context_of(session_id="running")))
    while not agent.runs:
        await asyncio.sleep(0)
    for number in range(3):
        await engine.process_turn(context_of(session_id=f"other{number}"))
    assert engine.session_count == 2
    release.set()
    await running
    assert (await engine.process_turn(context_of(session_id="running"))).data == {"n": 2}


async def test_an_ended_session_begins_anew() -> None:
    engine = engine_of(agent := Scripted("agent", counting, cooldown=100))
    await engine.process_turn(context_of())
    assert engine.end_session("session")
    assert not engine.end_session("session")
    response = await engine.process_turn(context_of())
    assert response.data["n"] == 1
    assert [context.turn_count for context in agent.contexts] == [1, 1]
