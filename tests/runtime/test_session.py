from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contract import Wait, WaitForApproval, WaitForInput, WaitUntil
from runtime.errors import RefusedError
from runtime.session import Guidance, LiveSession, session_of_row, why_waiting
from store.actions import ActionKind
from store.agent_state import CODEC as STATE_CODEC
from store.agent_state import SessionStatus
from store.agent_steps import CODEC as STEP_CODEC
from store.agent_steps import AgentStep, StepStatus
from store.ids import MAIN_TENANT, ActionId, AgentId, step_id
from store.lanes import lane_of
from tests.runtime.sessions import NOON, S, fresh

WAITS: list[Wait] = [WaitForInput(), WaitForInput(prompt="Who?"), WaitUntil(time=NOON), WaitForApproval(items=({},))]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=5,
)


def step_of(iteration: int, **fields: Any) -> AgentStep:
    given: dict[str, Any] = {
        "id": step_id(S, iteration),
        "created_at": NOON,
        "agent_id": AgentId("a"),
        "session_id": S,
        "action_id": None,
        "iteration": iteration,
        "step_token": str(iteration),
        "next_step_token": str(iteration + 1),
        "status": StepStatus.RUNNING,
        "text": None,
        "data": None,
        "state": {},
        "guidance": None,
        "notes": None,
        "wait": None,
        "latency_ms": 0.0,
        "error": None,
        "usage": {"steps": iteration + 1},
        "epoch": 1,
        **fields,
    }
    return AgentStep(**given)


def stored(step: AgentStep) -> AgentStep:
    """The step as it is read back from the journal."""
    values = STEP_CODEC.encoder().encode(step, MAIN_TENANT)
    return STEP_CODEC.decode(dict(zip(STEP_CODEC.spec.schema.names, values, strict=True)))


def reread(session: LiveSession) -> LiveSession:
    """The session as another worker reads it from its row."""
    values = STATE_CODEC.encoder().encode(session.snapshot(), MAIN_TENANT)
    row = STATE_CODEC.decode(dict(zip(STATE_CODEC.spec.schema.names, values, strict=True)))
    return session_of_row(row, owner=session.owner, epoch=session.epoch)


@st.composite
def steps(draw: st.DrawFn) -> list[AgentStep]:
    found = []
    for iteration in range(draw(st.integers(0, 6))):
        wait = draw(st.sampled_from([None, *WAITS]))
        read = draw(st.sampled_from([None, {"guidance": "x"}, {"turn": "a1"}, {"pulled_to": iteration}]))
        found.append(
            step_of(
                iteration,
                status=draw(st.sampled_from(list(StepStatus))),
                state=draw(st.dictionaries(st.text(), JSON, max_size=2)),
                text=draw(st.none() | st.text()),
                error=draw(st.none() | st.text()),
                action_id=draw(st.sampled_from([None, "a1", "g1", "g2"])),
                guidance=read,
                wait=None if wait is None else wait.model_dump(mode="json"),
            )
        )
    return found


@given(steps(), st.integers(0, 6))
def test_a_session_that_is_stored_and_read_between_two_steps_goes_on_the_same(
    journal: list[AgentStep], cut: int
) -> None:
    live, again = fresh(), fresh()
    live.lane = again.lane = lane_of("m", live.session_id)
    for session in (live, again):
        session.guidance[:] = [Guidance(ActionId("g1"), {"say": "one"}), Guidance(ActionId("g2"), None)]
    for step in journal:
        live.apply(step)
    for step in journal[:cut]:
        again.apply(stored(step))
    pulled_to = again.pulled_to
    again = reread(again)
    again.pulled_to = pulled_to
    for step in journal[cut:]:
        again.apply(stored(step))
    assert again == live


@given(steps())
def test_folding_a_step_in_again_changes_nothing(journal: list[AgentStep]) -> None:
    once, twice = fresh(), fresh()
    for step in journal:
        once.apply(step)
    for step in [step for step in journal for _ in range(2)] + journal:
        twice.apply(step)
    assert twice == once


def test_a_frame_is_a_copy_of_what_is_stored() -> None:
    session = fresh()
    session.context = {"list": [1]}
    frame = session.frame("look", ())
    frame.state["list"].append(2)
    assert (session.context, frame.guidance, frame.step) == ({"list": [1]}, "look", "1")


@pytest.mark.parametrize(
    ("wait", "words"),
    [
        (None, "waiting"),
        (WAITS[0], "waiting for input"),
        (WAITS[1], "waiting for input: Who?"),
        (WAITS[2], "sleeping until 2026-01-01T12:00:00+00:00"),
        (WAITS[3], "waiting for 1 approval(s)"),
    ],
)
def test_a_wait_has_a_reason_in_words(wait: Wait | None, words: str) -> None:
    assert why_waiting(wait) == words


def test_only_a_moment_wakes() -> None:
    session = fresh()
    found = []
    for wait in [None, *WAITS]:
        session.wait = wait
        found.append(session.wake_at)
    assert found == [None, None, None, NOON, None]


@pytest.mark.parametrize("status", list(SessionStatus))
def test_final_sessions_refuse_and_failed_ones_can_be_resumed_or_destroyed(status: SessionStatus) -> None:
    session = fresh()
    session.enter(status, "because", NOON)
    refused = set()
    for kind in ActionKind:
        try:
            session.refuse(kind)
        except RefusedError:
            refused.add(kind)
    live = status not in (SessionStatus.DONE, SessionStatus.STOPPED, SessionStatus.ERROR)
    after_error = {ActionKind.RESUME, ActionKind.DESTROY} if status is SessionStatus.ERROR else set()
    assert refused == (set() if live else set(ActionKind) - after_error)
    assert session.ended is not live


def test_the_stamp_of_a_session_never_goes_back() -> None:
    session = fresh()
    session.enter(SessionStatus.PAUSED, "paused", NOON + timedelta(hours=1))
    session.enter(SessionStatus.RUNNING, None, NOON)
    session.apply(step_of(0))
    assert session.snapshot().updated_at == NOON + timedelta(hours=1)
    session.apply(step_of(1, created_at=NOON + timedelta(hours=2)))
    assert session.snapshot().updated_at == NOON + timedelta(hours=2)
