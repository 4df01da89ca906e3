from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.contract import StepInput, WaitForInput
from runtime.reading import Reading, input_of, next_reading
from runtime.session import Guidance, LiveSession
from runtime.turns import Turns
from store.ids import ActionId, ConversationId, UserId
from store.messages import post_message
from tests.runtime.kit import opened
from tests.runtime.sessions import fresh, input_action

LOOK = Guidance(ActionId("g"), "look", hops=2)


def session_that_waits(**spec: Any) -> LiveSession:
    session = fresh(**spec)
    session.wait = WaitForInput()
    return session


def texts(reading: Reading) -> list[str]:
    return [item.text for item in reading.inputs]


async def test_what_a_step_reads_first(tmp_path: Path) -> None:
    session = session_that_waits()
    turns = Turns(session, at_any_step=False)
    turns.hand_over(input_action("one"))
    async with opened(tmp_path) as store:
        db = store.tenant()
        assert await next_reading(db, session, turns, LOOK) == Reading(guidance=LOOK)
        assert turns.any_wait  # the interrupt was read alone
        begun = await next_reading(db, session, turns, None)
        assert (texts(begun), begun.turn) == (["one"], turns.running)
        assert await next_reading(db, session, turns, LOOK) == begun  # it was cut short
        session.again = [{"text": "before the question"}]
        assert texts(await next_reading(db, session, turns, LOOK)) == ["before the question"]
        session.again, session.turn = [], ActionId("one")
        assert await next_reading(db, session, turns, None) == Reading()


async def test_only_a_session_that_pulls_reads_posts_and_each_once(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        db = store.tenant()
        for delivery, found in [("push", []), ("pull", ["hello"])]:
            session = session_that_waits(delivery=delivery)
            turns = Turns(session, at_any_step=False)
            session.pulled_to = (await next_reading(db, session, turns, None)).pulled_to
            await post_message(db, ConversationId("t"), text="hello", user_id=UserId("u"))
            reading = await next_reading(db, session, turns, None)
            assert texts(reading) == found
            session.pulled_to = reading.pulled_to
            assert texts(await next_reading(db, session, turns, None)) == []


@pytest.mark.parametrize(
    ("payload", "metadata", "read"),
    [
        ({"text": "hi", "data": {"n": 1}}, {"sender": "u", "message_id": "m"}, ("hi", {"n": 1}, "u", "m")),
        ({"text": None, "data": [1]}, None, ("", {"value": [1]}, None, None)),
        ("no object", ["none"], ("", None, None, None)),
        ({}, {"sender": 5}, ("", None, "5", None)),
    ],
)
def test_an_input_of_an_odd_shape_is_read_as_near_as_can_be(payload: Any, metadata: Any, read: Any) -> None:
    said = input_of(input_action("a", payload=payload, metadata=metadata))
    assert (said.text, said.data, said.sender, said.message_id) == read


async def test_a_step_answers_what_it_read_then_its_turn_then_the_create() -> None:
    session = fresh()
    session.usage = {"hops": 7}
    turn = Turns(session, at_any_step=True).hand_over(input_action("a", metadata={"hops": 3}))
    found = []
    for running in (None, ActionId("running")):
        session.turn = running
        for reading in (Reading(guidance=LOOK, turn=turn), Reading(turn=turn), Reading()):
            found.append((reading.action_in(session), reading.turn_in(session), reading.hops_in(session)))
    assert found == [
        ("g", "a", 2),
        ("a", "a", 3),
        ("create", None, 7),
        ("g", "a", 2),
        ("a", "a", 3),
        ("running", "running", 7),
    ]


def test_a_row_keeps_only_what_there_was() -> None:
    assert Reading().row(None) is None
    assert Reading(guidance=LOOK).row(ActionId("a")) == {"guidance": "look", "turn": "a"}
    whole = Reading(inputs=(StepInput(text="hi"),), pulled_to=0).row(None)
    assert whole is not None
    assert (whole["inputs"][0]["text"], whole["pulled_to"], "sender" in whole["inputs"][0]) == ("hi", 0, False)
