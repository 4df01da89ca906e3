from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from runtime.contract import StepFrame, StepInput, StepOut, WaitForApproval, WaitForInput
from runtime.llm.money import CallCosts
from runtime.llm.port import Usage
from runtime.reading import Reading
from runtime.session import Guidance
from runtime.steprows import Taken, asking_row, ended_row, failed_row
from runtime.turns import Turns
from store.agent_steps import StepStatus
from store.ids import ActionId
from tests.runtime.sessions import NOON, fresh, input_action

TAKEN = Taken(
    frame=StepFrame(step="1"),
    reading=Reading(),
    used=Usage(calls=1, input_tokens=20, output_tokens=300),
    runtime_s=1.23456789,
    latency_ms=5.0,
    ended_at=NOON + timedelta(minutes=1),
    costs=CallCosts(Decimal("0.25")),
)
LOOK = Reading(guidance=Guidance(ActionId("g"), "look", hops=2))


def test_the_row_of_a_step_that_ended_is_its_answer() -> None:
    session = fresh()
    session.usage = {"calls": 1, "input_tokens": 1, "output_tokens": 1}
    out = StepOut(step="1", next_step="7", state={"n": 1}, text="said", data={"d": 2}, notes="so", wait=WaitForInput())
    row = ended_row(session, TAKEN, out, StepStatus.WAITING, ActionId("a"))
    assert (row.id, row.iteration, row.created_at, row.action_id) == ("s:0", 0, TAKEN.ended_at, "create")
    assert (row.step_token, row.next_step_token, row.status) == ("1", "7", StepStatus.WAITING)
    assert (row.state, row.text, row.data, row.notes, row.error) == ({"n": 1}, "said", {"d": 2}, "so", None)
    assert (row.wait, row.guidance) == (WaitForInput().model_dump(mode="json"), {"turn": "a"})
    alone = {"calls": 1, "input_tokens": 20, "output_tokens": 300, "cost": "0.25", "unpriced_calls": 0}
    so_far = {"calls": 2, "input_tokens": 21, "output_tokens": 301, "cost": "0.25", "unpriced_calls": 1}
    assert row.usage == {"steps": 1, "runtime_s": 1.234568, **so_far, "step": alone}
    assert (row.latency_ms, row.epoch, row.lane) == (5.0, session.epoch, session.lane)


def test_a_step_that_failed_stays_where_it_was_and_ends_its_turn() -> None:
    session = fresh()
    session.context, session.turn = {"n": 1}, ActionId("a")
    row = failed_row(session, replace(TAKEN, reading=LOOK), "no luck")
    assert (row.status, row.error, row.next_step_token, row.state) == (StepStatus.ERROR, "no luck", "1", {"n": 1})
    assert (row.action_id, row.guidance, row.usage["hops"]) == ("g", {"guidance": "look"}, 2)


async def test_a_step_that_asks_reads_its_input_again() -> None:
    session = fresh()
    turn = Turns(session, at_any_step=False).hand_over(input_action("a"))
    said = StepInput(text="hi")
    row = asking_row(session, replace(TAKEN, reading=Reading(turn=turn, inputs=(said,))), [{"id": "q"}])
    assert (row.status, row.next_step_token, row.action_id) == (StepStatus.WAITING, "1", "a")
    assert row.wait == WaitForApproval(items=({"id": "q"},)).model_dump(mode="json")
    session.apply(row)
    assert ([StepInput.model_validate(item) for item in session.again], session.turn) == ([said], "a")


def test_a_step_that_asks_keeps_no_interrupt_and_nothing_that_was_pulled() -> None:
    session = fresh()
    guided = asking_row(session, replace(TAKEN, reading=LOOK), [])
    assert (guided.action_id, guided.guidance, guided.usage["hops"]) == ("create", {"again": True}, 2)
    pulled = asking_row(session, replace(TAKEN, reading=Reading(inputs=(StepInput(text="hi"),), pulled_to=5)), [])
    assert pulled.guidance == {"again": True}
