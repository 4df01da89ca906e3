from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from runtime.contract import Wait, WaitForApproval, WaitForInput, WaitUntil
from runtime.errors import ParkedError, RefusedError, SpentError
from runtime.session import LiveSession
from runtime.turns import Turn, Turns
from store.agent_state import SessionStatus
from store.ids import ActionId
from tests.runtime.sessions import NOON, fresh, input_action

A = ActionId("a")


def waiting(**fields: Any) -> LiveSession:
    """A session that waits for an input."""
    session = fresh()
    session.wait = WaitForInput()
    for name, value in fields.items():
        setattr(session, name, value)
    return session


def turns_of(session: LiveSession, *inputs: str, at_any_step: bool = False) -> Turns:
    turns = Turns(session, at_any_step=at_any_step)
    for name in inputs:
        turns.hand_over(input_action(name))
    return turns


def name_of(turn: Turn | None) -> str | None:
    return None if turn is None else turn.action.id


def begun(turns: Turns) -> Turn:
    """Begin the turn of whichever input is next."""
    turn = turns.next()
    assert turn is not None
    turns.begin(turn)
    return turn


async def test_the_most_urgent_input_is_next_and_among_equals_the_first() -> None:
    turns = Turns(waiting(), at_any_step=False)
    for name, urgency in [("a", 0), ("b", 5), ("c", -3), ("d", 5), ("e", 0)]:
        turns.hand_over(input_action(name, urgency=urgency))
    order = []
    while turns.any_wait:
        urgency_of_first = turns.urgency
        turn = begun(turns)
        assert turn.action.urgency == urgency_of_first
        order.append(turn.action.id)
    assert order == ["b", "d", "a", "e", "c"]
    assert turns.urgency is None


async def test_what_is_put_first_comes_before_the_most_urgent() -> None:
    turns = turns_of(waiting())
    turns.hand_over(input_action("urgent", urgency=100))
    turns.put_first(input_action("first", urgency=-100))
    assert name_of(turns.next()) == "first"


async def test_the_input_of_the_running_turn_that_comes_again_does_not_wait() -> None:
    turns = turns_of(waiting(turn=A), "a", "b")
    assert (turns.running_id, name_of(turns.running), turns.cut_short) == ("a", "a", None)
    assert turns.withdraw(ActionId("b"))
    assert not turns.any_wait


@pytest.mark.parametrize(
    ("wait", "turn", "at_any_step", "may"),
    [
        (None, None, False, False),
        (None, None, True, True),
        (WaitForInput(), None, False, True),
        (WaitForInput(), "x", False, True),
        (WaitUntil(time=NOON), None, False, True),
        (WaitUntil(time=NOON + timedelta(days=1)), "x", False, False),
        (WaitUntil(time=NOON), "x", True, True),
        (WaitForApproval(items=({},)), None, False, False),
    ],
)
async def test_when_a_turn_may_begin(wait: Wait | None, turn: str | None, at_any_step: bool, may: bool) -> None:
    turns = turns_of(waiting(wait=wait, turn=turn), "a", at_any_step=at_any_step)
    assert name_of(turns.next()) == ("a" if may else None)


async def test_the_input_that_a_rollback_was_for_is_waited_for() -> None:
    session = waiting(due=ActionId("due"))
    turns = turns_of(session, "a", "b")
    assert turns.next() is None
    turns.hand_over(input_action("due", urgency=-100))
    assert name_of(turns.next()) == "due"
    session.due = None
    assert name_of(turns.next()) == "a"


async def test_an_input_can_be_withdrawn_until_its_turn_begins() -> None:
    turns = turns_of(waiting(), "a")
    second = turns.hand_over(input_action("b"))
    begun(turns)
    assert not turns.withdraw(A)
    assert turns.withdraw(ActionId("b"))
    assert not turns.withdraw(ActionId("b"))
    assert isinstance(second.ended.exception(), RefusedError)
    assert turns.running_id == "a"


async def test_a_turn_without_a_stored_step_was_cut_short() -> None:
    session = waiting()
    turns = turns_of(session, "a")
    turn = begun(turns)
    assert turns.cut_short is turn
    session.turn = A
    assert turns.cut_short is None


async def test_a_turn_ends_with_the_step_that_does_not_name_it() -> None:
    session = waiting()
    turns = turns_of(session, "a")
    turn = begun(turns)
    session.turn = A
    turns.end(None)
    assert not turn.ended.done()
    session.turn = None
    turns.end(None)
    assert turn.ended.result() is None
    assert turns.running_id is None
    turns.end(None)  # no turn, nobody to tell


async def test_a_turn_that_failed_says_so() -> None:
    turns = turns_of(waiting(), "a")
    turn = begun(turns)
    turns.end(SpentError("broken"))
    assert isinstance(turn.ended.exception(), SpentError)


async def test_a_turn_that_is_taken_back_names_who_did_it() -> None:
    turns = turns_of(waiting(), "a")
    turn = begun(turns)
    turns.take_back(ActionId("b"))
    with pytest.raises(RefusedError, match="rolled back by action b"):
        await turn.ended
    assert turns.running is None


async def test_who_waits_is_told_whether_the_session_ended_or_rests() -> None:
    for status, kind in [(SessionStatus.STOPPED, RefusedError), (SessionStatus.PAUSED, ParkedError)]:
        session = waiting(status=status, reason="because")
        turns = turns_of(session, "a", "b")
        first, second = begun(turns), turns.next()
        assert second is not None
        turns.leave()
        assert {type(turn.ended.exception()) for turn in (first, second)} == {kind}
        assert not turns.any_wait
        assert turns.running_id == "a"  # its handler asks for that when it hears of the end


async def test_a_handler_that_has_gone_is_told_nothing() -> None:
    turns = turns_of(waiting(), "a", "b")
    first, second = begun(turns), turns.next()
    assert second is not None
    for turn in (first, second):
        turn.ended.cancel()
    assert not turns.withdraw(ActionId("b"))
    turns.end(SpentError("broken"))
    turns.leave()
    with pytest.raises(asyncio.CancelledError):
        await first.ended


@pytest.mark.parametrize(("at_any_step", "goes_on"), [(False, "a"), (True, None)])
async def test_at_any_step_a_turn_is_one_step(at_any_step: bool, goes_on: str | None) -> None:
    assert turns_of(fresh(), at_any_step=at_any_step).going_on(A) == goes_on
