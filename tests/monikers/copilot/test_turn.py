"""The way of a turn: phases, events, counters, what agents are shown, version 1, turns that overlap (spec 2 §8,
§13.3)."""

from __future__ import annotations

import asyncio
import copy
import gc
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monikers.copilot import (
    AgentContext,
    AgentResponse,
    Blackboard,
    Event,
    Fact,
    ReadOnlyError,
    StructuredLogTracer,
    TriggerType,
)
from monikers.copilot.models import shared_state_of
from tests.monikers.copilot.agents import (
    Heard,
    Scripted,
    answering,
    context_of,
    emitting,
    engine_of,
    listener,
    says,
    segment,
)
from tests.support import examples

# --- phases -----------------------------------------------------------------------------------------------------------


async def test_all_agents_of_a_phase_see_one_board_and_the_next_phase_sees_the_merge() -> None:
    """§6.5.2"""
    first = Scripted("first", emitting("e", variable_updates={"x": 1}))
    second, woken = Scripted("second"), listener("woken", "e")
    await engine_of(first, second, woken).process_turn(context_of(Blackboard(variables={"x": 0})))
    boards = [agent.seen.blackboard for agent in (first, second, woken)]
    assert [board.get_var("x") for board in boards if board] == [0, 0, 1]
    assert [event.name for event in boards[2].events] == ["e"]  # type: ignore[union-attr]


async def test_events_of_phase_2_are_returned_and_wake_nobody() -> None:
    """§8.4"""
    board = Blackboard()
    chain = [Scripted("a", emitting("one")), listener("b", "one"), listener("c", "two")]
    chain[1]._answer = emitting("two")
    response = await engine_of(*chain).process_turn(context_of(board))
    assert [agent.runs for agent in chain] == [1, 1, 0]
    assert [event.name for event in response.events] == ["one", "two"]
    assert board.events == []


async def test_6_2_events_last_for_a_turn_and_everything_else_for_the_session() -> None:
    everything = emitting(
        "e",
        variable_updates={"x": 1},
        queue_pushes={"q": [1]},
        facts=[Fact(type="t", value=1)],
        memory_updates={"m": 1},
    )
    agent = Scripted("agent", lambda agent, context: everything(agent, context) if context.turn_count == 1 else None)
    engine, board = engine_of(agent), Blackboard()
    for _ in range(2):
        await engine.process_turn(context_of(board))
        left = (board.get_var("x"), board.queues["q"], len(board.facts), board.memory)
        assert left == (1, [1], 1, {"agent": {"m": 1}})
        assert board.events == []


@pytest.mark.parametrize(("given", "taken", "runs"), [(1, 1, 0), (2, 2, 1), (0, 1, 0), (9, 2, 1)])
async def test_max_phases(given: int, taken: int, runs: int) -> None:
    woken = listener("woken", "e")
    engine = engine_of(Scripted("emits", emitting("e")), woken, max_phases=given)
    await engine.process_turn(context_of())
    assert (engine.max_phases, woken.runs) == (taken, runs)


async def test_a_subscriber_is_woken_once_however_many_events_there_are() -> None:
    woken = listener("woken", "e", "f")
    await engine_of(Scripted("a", emitting("e", "e", "f")), woken).process_turn(context_of())
    assert woken.runs == 1
    assert woken.seen.blackboard is not None
    assert woken.seen.blackboard.count_events("e") == 2


async def test_an_agent_that_answers_to_both_runs_in_both_phases() -> None:
    both = Scripted("both", emitting("e"), trigger_types=["turn_based", "event"], subscribed_events=["e"])
    await engine_of(both).process_turn(context_of())
    assert [context.phase for context in both.contexts] == [1, 2]


async def test_the_events_of_a_turn_leave_the_board_also_when_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    board, heard = Blackboard(events=[Event(name="e")]), Heard()
    engine = engine_of(Scripted("a"), callbacks=[heard])

    def fails(*args: Any) -> None:
        raise LookupError("broken engine")

    monkeypatch.setattr("monikers.copilot.turn.merge", fails)
    with pytest.raises(LookupError):
        await engine.process_turn(context_of(board))
    assert board.events == []
    assert [str(args[0]) for args in heard.of("on_chain_error")] == ["broken engine"]


# --- what agents are shown --------------------------------------------------------------------------------------------


async def test_the_trigger_and_what_the_host_tells_of_it_reach_the_agents() -> None:
    """§5.2; the existing implementation wiped the metadata of the context."""
    agent = Scripted("agent", trigger_types=[TriggerType.KEYWORD])
    context = context_of(trigger_metadata={"a": 1, "b": 1})
    await engine_of(agent).process_turn(context, trigger_type=TriggerType.KEYWORD, trigger_metadata={"b": 2})
    assert agent.seen.trigger_type is TriggerType.KEYWORD
    assert agent.seen.trigger_metadata == {"a": 1, "b": 2}
    assert context.trigger_metadata == {"a": 1, "b": 1}
    assert context.trigger_type is TriggerType.TURN_BASED


async def test_no_agent_can_touch_what_the_host_or_another_agent_holds() -> None:
    def vandal(agent: Any, context: AgentContext) -> None:
        context.recent_segments.clear()
        context.rag_docs.append("x")
        context.trigger_metadata["deep"]["x"] = 1
        context.agent_config_overrides.clear()
        context.shared_state["deep"]["x"] = 1
        context.session_id = "other"

    def rewriter(agent: Any, context: AgentContext) -> None:
        with pytest.raises(ValueError, match="frozen"):
            context.recent_segments[0].text = "rewritten"  # type: ignore[misc]
        with pytest.raises(ReadOnlyError):
            context.blackboard.set_var("x", 1)  # type: ignore[union-attr]

    board = Blackboard(variables={"deep": {"a": 1}})
    context = context_of(board, recent_segments=[segment("hello")], rag_docs=["doc"], trigger_metadata={"deep": {}})
    last = Scripted("last")
    response = await engine_of(Scripted("vandal", vandal), Scripted("rewriter", rewriter), last).process_turn(context)
    assert response.insights == []
    for seen in (context, last.seen):
        assert [one.text for one in seen.recent_segments] == ["hello"]
        assert seen.rag_docs == ["doc"]
        assert seen.trigger_metadata == {"deep": {}}
        assert seen.session_id == "session"
    assert last.seen.shared_state == {"deep": {"a": 1}}
    assert board.get_var("deep") == {"a": 1}


async def test_sys_variables() -> None:
    """§8.7"""
    board = Blackboard()
    agent = Scripted("agent", answering(variable_updates={"sys.turn_count": 99, "x": 1}, state_updates={"sys.x": 1}))
    response = await engine_of(agent).process_turn(context_of(board, turn_count=4))
    assert board.variables == {
        "sys.turn_count": 4,
        "sys.session_id": "session",
        "sys.trigger_type": "turn_based",
        "x": 1,
    }
    assert response.variable_updates == {"x": 1}
    assert not any(key.startswith("sys.") for key in agent.seen.shared_state)


async def test_the_host_counts_turns_or_the_engine_does() -> None:
    """§8.7"""
    engine, board = engine_of(agent := Scripted("agent")), Blackboard()
    for context in (context_of(board), context_of(board), context_of(board, turn_count=7), context_of(board)):
        await engine.process_turn(context)
    await engine.process_turn(context_of(session_id="other"))
    assert [context.turn_count for context in agent.contexts] == [1, 2, 7, 8, 1]


async def test_a_host_without_a_board_gets_that_of_the_session() -> None:
    engine = engine_of(
        Scripted("agent", lambda agent, context: AgentResponse(variable_updates={"n": context.turn_count}))
    )
    first, second, other = context_of(), context_of(), context_of(session_id="other")
    for context in (first, second, other):
        await engine.process_turn(context)
    assert first.blackboard is second.blackboard
    assert first.blackboard is not other.blackboard
    assert second.blackboard is not None
    assert second.blackboard.get_var("n") == 2


async def test_a_view_is_no_board_for_a_turn() -> None:
    heard = Heard()
    with pytest.raises(TypeError, match="live board"):
        await engine_of(callbacks=[heard]).process_turn(context_of(Blackboard().snapshot()))  # type: ignore[arg-type]
    assert heard.hooks == ["on_chain_error"]


# --- version 1 --------------------------------------------------------------------------------------------------------


async def test_state_updates_are_variable_updates() -> None:
    """§13.3.2"""
    board = Blackboard()
    agent = Scripted("old", answering(state_updates={"phase": "a", "both": 1}, variable_updates={"both": 2}))
    response = await engine_of(agent).process_turn(context_of(board))
    assert (board.get_var("phase"), board.get_var("both")) == ("a", 2)
    assert response.state_updates == response.variable_updates == {"phase": "a", "both": 2}


async def test_memory_names_in_state_updates() -> None:
    """§13.3.2; only that of a registered agent is memory, and only its exact id."""
    board = Blackboard()
    updates = {
        "memory_memory_keeper": {"a": 1},
        "memory_old": {"b": 1},
        "memory_usage": 5,
        "memory_stranger": {"c": 1},
        "memory_keeper": {"d": 1},
    }
    await engine_of(Scripted("old", answering(state_updates=updates)), Scripted("memory_keeper")).process_turn(
        context_of(board)
    )
    assert board.memory == {"old": {"b": 1}, "memory_keeper": {"a": 1}}
    rest = {key: value for key, value in board.variables.items() if not key.startswith("sys.")}
    assert rest == {"memory_usage": 5, "memory_stranger": {"c": 1}, "memory_keeper": {"d": 1}}


async def test_shared_state_shows_variables_and_memory() -> None:
    """§13.3.1"""
    board = Blackboard(variables={"phase": "x"}, memory={"old": {"n": 1}})
    await engine_of(agent := Scripted("old")).process_turn(context_of(board))
    assert agent.seen.shared_state == {"phase": "x", "memory_old": {"n": 1}}
    assert type(agent.seen.shared_state) is dict
    board.delete_var("phase")
    assert agent.seen.shared_state["phase"] == "x"


async def test_shared_state_can_be_read_without_copying_the_variables() -> None:
    board = Blackboard(
        variables={"phase": "x", "deep": [1], "memory_old": "hidden", "memory_usage": 5}, memory={"old": {"n": 1}}
    )
    await engine_of(agent := Scripted("old")).process_turn(context_of(board))
    state = shared_state_of(agent.seen)
    assert "shared_state" not in agent.seen.__dict__
    assert dict(state) == agent.seen.shared_state
    assert list(state) == ["phase", "deep", "memory_usage", "memory_old"]
    assert (len(state), state["memory_old"], state.get("sys.turn_count")) == (4, {"n": 1}, None)
    assert shared_state_of(agent.seen) is agent.seen.shared_state
    assert shared_state_of(context_of(shared_state={"a": 1})) == {"a": 1}


@pytest.mark.parametrize(
    "seen",
    [
        lambda context: context.model_dump()["shared_state"],
        lambda context: json.loads(context.model_dump_json())["shared_state"],
        lambda context: context.model_copy(deep=True).shared_state,
        lambda context: copy.copy(context).shared_state,
        lambda context: context.model_copy(update={"phase": 9}).shared_state,
    ],
)
async def test_5_2_a_copy_of_what_an_agent_is_given_has_its_shared_state_too(seen: Any) -> None:
    """It is made when it is asked for."""
    agent = Scripted("agent", lambda agent, context: AgentResponse(data={"seen": seen(context)}))
    response = await engine_of(agent).process_turn(context_of(Blackboard(variables={"x": [1]}, memory={"a": {"n": 1}})))
    assert response.data == {"seen": {"x": [1], "memory_a": {"n": 1}}}


async def test_what_the_host_says_in_shared_state_reaches_conditions_and_agents() -> None:
    rules = {"rules": [{"var": "phase", "op": "eq", "value": "closing"}, {"memory": "n", "op": "eq", "value": 2}]}
    agent = Scripted("old", trigger_conditions=rules)
    state = {"phase": "closing", "memory_old": {"n": 2}, "sys.x": 1}
    board = Blackboard()
    await engine_of(agent).process_turn(context_of(board, shared_state=state))
    assert agent.runs == 1
    assert not board.has_var("sys.x")


async def test_only_what_the_host_says_anew_is_taken_in() -> None:
    """Said again, it does not undo what agents wrote; not said any more, it goes; what agents wrote stays."""
    board = Blackboard()
    agent = Scripted("agent", lambda agent, context: AgentResponse(variable_updates={"phase": "agent's", "own": 1}))
    engine = engine_of(agent)
    await engine.process_turn(context_of(board, shared_state={"phase": "host's", "gone": 1}))
    assert (board.get_var("phase"), board.get_var("gone")) == ("agent's", 1)
    await engine.process_turn(context_of(board, shared_state={"phase": "host's"}), allowed_agent_ids=[])
    assert (board.get_var("phase"), board.has_var("gone"), board.get_var("own")) == ("agent's", False, 1)
    await engine.process_turn(context_of(board, shared_state={"phase": "new"}), allowed_agent_ids=[])
    assert board.get_var("phase") == "new"
    await engine.process_turn(context_of(board), allowed_agent_ids=[])
    assert board.get_var("phase") == "new"


async def test_a_variable_that_was_deleted_does_not_linger() -> None:
    board = Blackboard(variables={"x": 1})
    engine, context = engine_of(agent := Scripted("agent")), context_of(board)
    await engine.process_turn(context)
    board.delete_var("x")
    await engine.process_turn(context)
    assert [seen.shared_state for seen in agent.contexts] == [{"x": 1}, {}]


# --- turns that overlap -----------------------------------------------------------------------------------------------


class Gate:
    """Agents that wait until they are let through, one evaluation after the other."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Event] = []

    async def __call__(self, agent: Any, context: AgentContext) -> AgentResponse:
        self.waiting.append(passed := asyncio.Event())
        await passed.wait()
        return says(agent, f"turn {context.turn_count}", queue_pushes={"q": [context.turn_count]})

    async def reached_by(self, count: int) -> None:
        """Return when so many evaluations wait."""
        while len(self.waiting) < count:
            await asyncio.sleep(0)


async def test_turns_that_overlap_start_an_agent_with_a_cooldown_once() -> None:
    gate = Gate()
    agent = Scripted("agent", gate, cooldown=9_999)
    engine, board = engine_of(agent), Blackboard()
    turns = [asyncio.create_task(engine.process_turn(context_of(board))) for _ in range(3)]
    await gate.reached_by(1)
    gate.waiting[0].set()
    responses = await asyncio.gather(*turns)
    assert agent.runs == 1
    assert [len(response.insights) for response in responses] == [1, 0, 0]


async def test_each_turn_returns_its_own_whatever_the_order_of_their_ends() -> None:
    gate = Gate()
    engine, board = engine_of(Scripted("agent", gate)), Blackboard()
    turns = [asyncio.create_task(engine.process_turn(context_of(board))) for _ in range(3)]
    await gate.reached_by(3)
    for number in (2, 0, 1):
        gate.waiting[number].set()
        await turns[number]
    assert [turn.result().insights[0].content for turn in turns] == ["turn 1", "turn 2", "turn 3"]
    assert board.queues["q"] == [3, 1, 2]


@given(st.integers(1, 4), st.integers(1, 3), st.randoms(use_true_random=False))
@examples(60)
def test_8_turns_that_overlap_see_each_others_phases_whole_or_not_at_all(
    turns: int, agents: int, chance: random.Random
) -> None:
    """Whatever the order in which their agents end: each turn returns its own, and its merge stands in one piece."""

    async def play() -> tuple[Blackboard, list[AgentResponse]]:
        gates = {(turn, number): asyncio.Event() for turn in range(turns) for number in range(agents)}

        async def answer(agent: Any, context: AgentContext) -> AgentResponse:
            mine = (context.turn_count, int(agent.config.id))
            await gates[mine].wait()
            assert context.blackboard is not None
            seen = context.blackboard.queue_length("q")
            assert seen % agents == 0
            return AgentResponse(
                queue_pushes={"q": [mine]}, variable_updates={"last": mine}, data={agent.config.id: seen}
            )

        board = Blackboard()
        engine = engine_of(*[Scripted(str(number), answer) for number in range(agents)])
        running = [
            asyncio.create_task(engine.process_turn(context_of(board, turn_count=number))) for number in range(turns)
        ]
        for gate in chance.sample(list(gates.values()), len(gates)):
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            gate.set()
        return board, await asyncio.gather(*running)

    board, responses = asyncio.run(play())
    for number, response in enumerate(responses):
        assert response.queue_pushes == {"q": [(number, one) for one in range(agents)]}
    pushed = [tuple(one) for one in board.queues["q"]]
    blocks = [pushed[start : start + agents] for start in range(0, len(pushed), agents)]
    assert sorted(blocks) == [[(turn, one) for one in range(agents)] for turn in range(turns)]
    assert board.get_var("last") == pushed[-1]


async def test_an_event_of_the_host_is_dispatched_by_one_of_two_turns_that_overlap() -> None:
    gate, woken = Gate(), listener("woken", "e")
    engine, board = engine_of(Scripted("agent", gate), woken), Blackboard(events=[Event(name="e")])
    turns = [asyncio.create_task(engine.process_turn(context_of(board))) for _ in range(2)]
    await gate.reached_by(2)
    assert board.count_events("e") == 1
    board.emit_event(Event(name="later"))
    for waiting in gate.waiting:
        waiting.set()
    await asyncio.gather(*turns)
    assert woken.runs == 1
    assert [event.name for event in board.events] == ["later"]
    assert board.taken == set()


# --- what a turn leaves behind ----------------------------------------------------------------------------------------


@pytest.fixture
def without_garbage_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_garbage_collection")
async def test_a_turn_leaves_no_picture_behind() -> None:
    """Whoever writes the board after it pays for nobody: not even after errors, whose tracebacks hold much."""

    def fails(agent: Any, context: AgentContext) -> None:
        raise ValueError(context)

    async def waits(agent: Any, context: AgentContext) -> AgentResponse:
        await asyncio.sleep(0)
        return emitting("e")(agent, context)  # type: ignore[return-value]

    agents = [Scripted("fails", fails), Scripted("waits", waits), listener("woken", "e")]
    engine, board = engine_of(*agents, callbacks=[StructuredLogTracer()]), Blackboard()
    await engine.process_turn(context_of(board))
    for agent in agents:
        agent.contexts.clear()
    assert board._pictures.alive == []
