from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from runtime.contract import StepOut, Wait, WaitForApproval, WaitForInput, WaitUntil
from runtime.decisions import Decision, Horizon, Move, Situation, decide, limit_reached, status_after
from runtime.session import LiveSession
from store.agent_state import SessionStatus
from store.agent_steps import StepStatus
from store.answers import UNSAFE_CALL
from tests.runtime.sessions import NOON, fresh

HORIZON = Horizon(NOON, hold_s=30)
NOTHING = Situation(HORIZON)
QUESTION = {"id": "q", "kind": UNSAFE_CALL, "question": "Was it made?"}
STEP = Decision(Move.STEP, SessionStatus.RUNNING)


def in_s(seconds: float) -> WaitUntil:
    return WaitUntil(time=NOON + timedelta(seconds=seconds))


def session_with(wait: Wait | None = None, **fields: Any) -> LiveSession:
    session = fresh()
    session.wait = wait
    for name, value in fields.items():
        setattr(session, name, value)
    return session


#: what is honoured first comes first
ORDER: list[tuple[dict[str, Any], Decision]] = [
    ({"stop": True}, Decision(Move.REST, SessionStatus.STOPPED, "destroyed")),
    ({"drain": True}, Decision(Move.REST, SessionStatus.CREATED, None)),
    ({"roll_back": True}, Decision(Move.ROLL_BACK, SessionStatus.RUNNING)),
    ({"pause": True}, Decision(Move.REST, SessionStatus.PAUSED, "paused")),
    ({"limit": "enough"}, Decision(Move.REST, SessionStatus.STOPPED, "enough")),
    ({"retry_in_s": 0.1}, Decision(Move.HOLD, SessionStatus.RUNNING, None)),
]


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_what_is_honoured_first(first: int) -> None:
    known = {name: value for fields, _ in ORDER[first:] for name, value in fields.items()}
    asking = session_with(WaitForApproval(items=(QUESTION,)))
    assert decide(asking, replace(NOTHING, is_asked=True, **known)) == ORDER[first][1]


def test_nothing_is_asked_of_a_session_that_ended() -> None:
    session = session_with(status=SessionStatus.DONE, reason="the moniker is done")
    everything = {name: value for fields, _ in ORDER for name, value in fields.items()}
    found = decide(session, replace(NOTHING, is_asked=True, **everything))
    assert found == Decision(Move.REST, SessionStatus.DONE, "the moniker is done")


def test_a_question_about_a_call_comes_before_what_is_to_be_read() -> None:
    session = session_with(WaitForApproval(items=(QUESTION,)))
    asked = replace(NOTHING, is_asked=True)
    assert decide(session, asked) == Decision(Move.REST, SessionStatus.WAITING, "Was it made?")
    session.answered.append("q")
    assert decide(session, NOTHING) == STEP


def test_another_question_gives_way_to_what_is_to_be_read() -> None:
    session = session_with(WaitForApproval(items=({"id": "q", "kind": "other"},)))
    assert decide(session, NOTHING).move is Move.REST
    assert decide(session, replace(NOTHING, is_asked=True)) == STEP


@pytest.mark.parametrize(
    ("wait", "expected"),
    [
        (None, STEP),
        (in_s(-1), STEP),
        (in_s(0), STEP),
        (in_s(0.001), Decision(Move.HOLD, SessionStatus.RUNNING, "why")),
        (in_s(30), Decision(Move.HOLD, SessionStatus.RUNNING, "why")),
        (in_s(30.001), Decision(Move.REST, SessionStatus.WAITING, "sleeping until 2026-01-01T12:00:30+00:00")),
        (WaitForInput(prompt="Who?"), Decision(Move.REST, SessionStatus.WAITING, "waiting for input: Who?")),
        (WaitForApproval(items=({},)), Decision(Move.REST, SessionStatus.WAITING, "waiting for 1 approval(s)")),
    ],
)
def test_a_wait_is_held_while_it_is_short(wait: Wait | None, expected: Decision) -> None:
    assert decide(session_with(wait, reason="why"), NOTHING) == expected


@pytest.mark.parametrize("retry_in_s", [0.0, -5.0])
def test_a_try_whose_moment_has_come_is_made(retry_in_s: float) -> None:
    assert decide(fresh(), replace(NOTHING, retry_in_s=retry_in_s)) == STEP


@pytest.mark.parametrize(
    ("spec", "iteration", "left", "words"),
    [
        ({}, 10**6, None, None),
        ({"max_steps": 2}, 0, None, None),
        ({"max_steps": 2}, 1, None, "max_steps 2 reached"),
        ({"max_runtime_s": 1.5}, 0, 0.001, None),
        ({"max_runtime_s": 1.5}, 0, 0.0, "max_runtime_s 1.5 reached"),
        ({"max_runtime_s": 60, "max_steps": 1}, 0, 0.0, "max_steps 1 reached"),
    ],
)
def test_a_limit_is_named(spec: dict[str, Any], iteration: int, left: float | None, words: str | None) -> None:
    session = fresh(**spec)
    session.iteration = iteration
    assert limit_reached(session, left) == words


@pytest.mark.parametrize(
    ("fields", "stops_when_done", "status"),
    [
        ({}, True, StepStatus.RUNNING),
        ({"done": True}, True, StepStatus.DONE),
        ({"done": True}, False, StepStatus.RUNNING),
        ({"done": True, "wait": WaitForInput()}, True, StepStatus.DONE),
        ({"done": True, "wait": WaitForInput()}, False, StepStatus.WAITING),
        ({"wait": WaitForApproval(items=({},))}, True, StepStatus.WAITING),
        ({"wait": in_s(30)}, True, StepStatus.RUNNING),
        ({"wait": in_s(31)}, True, StepStatus.WAITING),
    ],
)
def test_what_a_session_does_after_a_step(fields: dict[str, Any], stops_when_done: bool, status: StepStatus) -> None:
    out = StepOut(step="1", next_step="2", **fields)
    assert status_after(out, HORIZON, stops_when_done=stops_when_done) is status
