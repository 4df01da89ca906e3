"""The operations of a board (spec 2 §6.2, §6.3)."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from monikers.copilot import AgentContext, Blackboard, Event, Fact
from tests.monikers.copilot.agents import Scripted, answering, engine_of


def test_events_are_not_deduplicated_and_keep_their_order() -> None:
    board = Blackboard()
    for number in range(2):
        board.emit_event(Event(name="question", payload={"n": number}))
    board.emit_event(Event(name="other"))
    assert board.has_event("question")
    assert not board.has_event("none")
    assert [event.payload["n"] for event in board.get_events_by_name("question")] == [0, 1]
    assert board.count_events("question") == 2
    board.clear_events()
    assert board.events == []


def test_only_the_named_events_are_dropped() -> None:
    board = Blackboard(events=[Event(name="a"), Event(name="a")])
    board.drop_events([board.events[0]])
    assert board.count_events("a") == 1


def test_the_payload_of_an_event_is_copied() -> None:
    payload = {"words": ["a"]}
    board = Blackboard()
    board.emit_event(Event(name="x", payload=payload))
    board.events.append(Event(name="y", payload=payload))
    payload["words"].append("b")
    assert [event.payload for event in board.events] == [{"words": ["a"]}] * 2


def test_variables() -> None:
    board = Blackboard()
    board.set_var("flag", 0)
    assert (board.get_var("flag"), board.has_var("flag"), board.get_var("none"), board.get_var("none", 1)) == (
        0,
        True,
        None,
        1,
    )
    board.delete_var("flag")
    board.delete_var("flag")
    assert not board.has_var("flag")


def test_sys_belongs_to_the_engine(caplog: pytest.LogCaptureFixture) -> None:
    """Spec 2 §6.2, §8.7."""
    board = Blackboard()
    board.set_sys("turn_count", 3)
    with caplog.at_level(logging.WARNING):
        board.set_var("sys.turn_count", 99)
        board.delete_var("sys.turn_count")
    assert board.variables == {"sys.turn_count": 3}
    assert len(caplog.records) == 2


def test_queues_are_first_in_first_out() -> None:
    board = Blackboard()
    board.push_queue("q", "a")
    board.push_queue_items("q", ["b", {"c": 1}])
    assert (board.peek_queue("q"), board.queue_length("q"), board.has_queue("q")) == ("a", 3, True)
    assert [board.pop_queue("q") for _ in range(4)] == ["a", "b", {"c": 1}, None]
    assert (board.peek_queue("none"), board.pop_queue("none"), board.queue_length("none")) == (None, None, 0)
    board.clear_queue("q")
    assert (board.has_queue("q"), board.has_queue("none")) == (True, False)


def test_memory_is_handed_out_as_a_copy() -> None:
    board = Blackboard()
    assert board.get_memory("coach") == {}
    board.update_memory("coach", {"seen": [1]})
    board.get_memory("coach")["seen"].append(2)
    assert board.get_memory("coach") == {"seen": [1]}
    board.set_memory("coach", {"other": 1})
    assert board.memory == {"coach": {"other": 1}}
    assert (board.has_memory("coach"), board.has_memory("none")) == (True, False)


def test_a_board_survives_being_written_down() -> None:
    board = Blackboard(
        variables={"a": [1, {"b": None}]},
        queues={"q": [1]},
        facts=[Fact(type="t", key="k", value=[1], confidence=0.5, priority=3, source_agent="x", timestamp=2.0)],
        memory={"m": {"n": 1}},
        events=[Event(name="e", payload={"p": 1}, timestamp=1.0, id="i")],
    )
    board.set_sys("turn_count", 4)
    again = Blackboard.from_dict(json.loads(json.dumps(board.to_dict())))
    assert again == board == board.snapshot()
    assert again.variables["sys.turn_count"] == 4
    assert Blackboard.from_dict({}) == Blackboard()
    assert again != Blackboard()
    assert repr(board) == "Blackboard(1 events, 2 variables, 1 queues, 1 facts, 1 memory)"


def filled() -> Blackboard:
    return Blackboard(
        variables={"a": [1, (2, [3])]},
        queues={"q": [1]},
        facts=[Fact(type="t", value=[1])],
        memory={"m": {"x": [1]}},
        events=[Event(name="e", payload={"p": [1]})],
    )


COPIES: dict[str, Callable[[Blackboard], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "context": lambda board: AgentContext(session_id="s", blackboard=board).model_copy(deep=True).blackboard,
}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
async def test_6_3_a_copy_of_a_board_is_a_board_of_its_own(copied: Callable[[Blackboard], Any]) -> None:
    board = filled()
    board.heard = {"a": 1}
    before, again = board.to_dict(), copied(board)
    assert again == board
    assert (again.heard, again.heard is board.heard) == ({"a": 1}, False)
    view = again.snapshot()
    await engine_of(Scripted("a", answering(variable_updates={"k": 1}, memory_updates={"y": 1}))).process_turn(
        AgentContext(session_id="s", blackboard=again)
    )
    again.variables["a"].append(2)
    again.queues["q"].clear()
    again.add_fact(Fact(type="t", value=2))
    assert again.get_var("k") == 1
    assert (board.to_dict(), view.to_dict()) == (before, before)


def test_6_3_a_board_may_be_made_of_what_was_written_down() -> None:
    assert Blackboard(**json.loads(json.dumps(filled().to_dict()))) == filled()
    with pytest.raises(ValueError, match="name"):
        Blackboard(events=[{"payload": {}}])
    with pytest.raises(ValueError, match="type"):
        Blackboard(facts=[{"value": 1}])


def test_a_context_with_a_board_can_be_written_down() -> None:
    context = AgentContext(session_id="s", blackboard=Blackboard(variables={"a": 1}))
    assert json.loads(context.model_dump_json())["blackboard"]["variables"] == {"a": 1}
    with pytest.raises(ValueError, match="Board"):
        AgentContext(session_id="s", blackboard={"variables": {}})
