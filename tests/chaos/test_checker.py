"""The checker sees nothing in a sound store, and every way of breaking one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import replace

import pytest

from chaos.checker import Promised, broken, expected_events, in_flight, recoveries
from chaos.evidence import ActionRow, Evidence, RecordRow, ShownStep, StateRow, StepRow
from chaos.ledger import Ask, Asked, Blow, CallId, Effect, Harm, Ledger, ModelFault, Promise

WORKER, NEXT = "worker-0.1", "worker-0.2"
CREATE, INPUT, POST = "01CREATE", "01INPUT", "01POST"


def sound() -> Evidence:
    """A session of two steps in a thread: created, spoken to, followed live, finished."""
    ledger = Ledger(
        asks=[asked(1, 0), asked(2, 1)],
        effects=[Effect(11, "s:0:effect", WORKER, 1.5), Effect(12, "s:1:effect", WORKER, 2.5)],
        promises=[
            Promise(Asked.CREATE, "s", (CREATE,), conversation_id="t"),
            Promise(Asked.INPUT, "s", (INPUT,), "go on"),
            Promise(Asked.POST, "s", (POST,), "in the thread", "t", "post:1"),
        ],
        live={"session:s": {"s:0", "s:1"}, "conversation:t": {"s:0", "s:1", "post:1"}},
    )
    return Evidence(
        ledger=ledger,
        actions={one: ActionRow(one, "x", "s", "done", None) for one in (CREATE, INPUT, POST)},
        states=(StateRow("s", "done", 1, None),),
        shown=(shown(0, ("go on",)), shown(1, ("in the thread",))),
        steps=(StepRow("s", 0, 1, 5), StepRow("s", 1, 1, 6)),
        records=(
            RecordRow("s", 0, "llm:1", 1, 2),
            RecordRow("s", 0, "effect", 11, 3),
            RecordRow("s", 1, "llm:1", 2, 4),
            RecordRow("s", 1, "effect", 12, 5),
        ),
        threads={"t": ("s:0", "post:1", "s:1")},
        thread_of={"s": "t"},
    )


def asked(serial: int, iteration: int, worker: str = WORKER, at: float | None = None) -> Ask:
    began = float(serial) if at is None else at
    return Ask(serial, CallId("s", iteration, 1), worker, began, answered_at=began + 0.4)


def shown(iteration: int, read: tuple[str, ...]) -> ShownStep:
    return ShownStep("s", iteration, 1, "running", None, read, (iteration + 1,), iteration + 11)


def with_ledger(change: Callable[[Ledger], object]) -> Evidence:
    evidence = sound()
    change(evidence.ledger)
    return evidence


def marked(action_id: str, status: str) -> Evidence:
    evidence = sound()
    return replace(evidence, actions={**evidence.actions, action_id: ActionRow(action_id, "x", "s", status, "why")})


def without(action_id: str) -> Evidence:
    evidence = sound()
    return replace(evidence, actions={one: row for one, row in evidence.actions.items() if one != action_id})


def read_by(first: tuple[str, ...], second: tuple[str, ...]) -> Evidence:
    return replace(sound(), shown=(shown(0, first), shown(1, second)))


def stale() -> Evidence:
    """Step 1 is taken by the owner of epoch 2; then the one of epoch 1 wakes up, and its step 2 is shown."""
    evidence = sound()
    steps = (StepRow("s", 0, 1, 5), StepRow("s", 1, 2, 6), StepRow("s", 2, 1, 7))
    return replace(evidence, steps=steps, shown=(*evidence.shown, shown(2, ())))


def paid_again(*blows: Blow, stored: int = 1) -> Evidence:
    """The first call is answered again at 10; of the two answers the one with the number `stored` was stored."""
    evidence = sound()
    evidence.ledger.asks.append(asked(3, 0, NEXT, 10.0))
    evidence.ledger.blows.extend(blows)
    said = replace(evidence.shown[0], model=(stored,))
    records = (RecordRow("s", 0, "llm:1", stored, 2), *evidence.records[1:])
    return replace(evidence, records=records, shown=(said, evidence.shown[1]))


def acted_again(*blows: Blow, stored: int = 11) -> Evidence:
    evidence = sound()
    evidence.ledger.effects.append(Effect(13, "s:0:effect", NEXT, 10.0))
    evidence.ledger.blows.extend(blows)
    said = replace(evidence.shown[0], tool=stored)
    records = (evidence.records[0], RecordRow("s", 0, "effect", stored, 3), *evidence.records[2:])
    return replace(evidence, records=records, shown=(said, evidence.shown[1]))


def killed(at: float, victim: str = WORKER, harm: Harm = Harm.KILL) -> Blow:
    return Blow(harm, victim, at)


BREACHES: dict[str, tuple[Promised, Evidence]] = {
    "an action that is not in the queue": (Promised.KEPT, without(INPUT)),
    "an action that failed": (Promised.KEPT, marked(INPUT, "failed")),
    "an action that is dead": (Promised.KEPT, marked(CREATE, "dead")),
    "an action that is still open": (Promised.KEPT, marked(POST, "pending")),
    "an input that no step has read": (Promised.KEPT, read_by((), ("in the thread",))),
    "an input that only a failed step has read": (
        Promised.KEPT,
        replace(sound(), shown=(replace(shown(0, ("go on",)), status="error"), shown(1, ("in the thread",)))),
    ),
    "a session that was never created": (Promised.KEPT, replace(sound(), states=())),
    "an input that two steps have read": (Promised.READ_ONCE, read_by(("go on",), ("go on", "in the thread"))),
    "a session that still runs": (Promised.FINISHED, replace(sound(), states=(StateRow("s", "running", 1, None),))),
    "a session that failed": (Promised.FINISHED, replace(sound(), states=(StateRow("s", "error", 1, "no"),))),
    "a step that is gone": (Promised.NUMBERED, replace(sound(), shown=(shown(1, ()),))),
    "a step that is shown twice": (Promised.SHOWN_ONCE, replace(sound(), shown=(*sound().shown, shown(1, ())))),
    "a step that was taken twice": (
        Promised.TAKEN_ONCE,
        replace(sound(), steps=(*sound().steps, StepRow("s", 1, 2, 7))),
    ),
    "a step of a stale owner": (Promised.OWNED, stale()),
    "a step behind a fence": (Promised.OWNED, replace(sound(), fences=(StepRow("fence:", -1, 2, 5),))),
    "a row behind its journal": (Promised.FOLDED, replace(sound(), states=(StateRow("s", "done", 0, None),))),
    "a message that is there twice": (Promised.TOLD_ONCE, replace(sound(), threads={"t": ("s:0", "s:0", "s:1")})),
    "a message of a step that is gone": (Promised.TOLD, replace(sound(), threads={"t": ("s:0", "post:1")})),
    "a post that is gone": (Promised.TOLD, replace(sound(), threads={"t": ("s:0", "s:1")})),
    "a call paid twice for no reason": (Promised.CALLED_ONCE, paid_again()),
    "a call paid twice after another worker died": (
        Promised.CALLED_ONCE,
        paid_again(killed(5, "worker-1.1"), stored=3),
    ),
    "a call paid twice whose worker had been stopped before": (
        Promised.CALLED_ONCE,
        paid_again(killed(0.2, harm=Harm.STALL), stored=3),
    ),
    "a call paid twice whose worker died afterwards": (Promised.CALLED_ONCE, paid_again(killed(11), stored=3)),
    "a call paid twice though its answer was stored": (Promised.CALLED_ONCE, paid_again(killed(5))),
    "an effect had twice for no reason": (Promised.ACTED_ONCE, acted_again()),
    "an effect had twice though it was stored": (Promised.ACTED_ONCE, acted_again(killed(5))),
    "a step that says what no record says": (
        Promised.RECORDED,
        replace(sound(), shown=(replace(shown(0, ("go on",)), model=(9,)), shown(1, ("in the thread",)))),
    ),
    "a step without records": (Promised.RECORDED, replace(sound(), records=())),
    "an event that a client was not sent": (
        Promised.FOLLOWED,
        with_ledger(lambda ledger: ledger.live["session:s"].remove("s:1")),
    ),
    "a post that a client was not sent": (
        Promised.FOLLOWED,
        with_ledger(lambda ledger: ledger.live["conversation:t"].remove("post:1")),
    ),
    "a request without an answer": (Promised.ANSWERED, with_ledger(lambda ledger: ledger.refusals.append("409"))),
    "a process that ended": (Promised.ALIVE, with_ledger(lambda ledger: ledger.broken.append("worker-0.1"))),
}


def test_a_sound_store_keeps_every_promise() -> None:
    assert broken(sound()) == []


@pytest.mark.parametrize("name", BREACHES)
def test_the_checker_sees(name: str) -> None:
    promise, evidence = BREACHES[name]
    assert promise in {one.promise for one in broken(evidence)}


def test_every_promise_can_be_broken() -> None:
    assert {promise for promise, _ in BREACHES.values()} == set(Promised)


@pytest.mark.parametrize(
    "evidence",
    [
        paid_again(killed(1.2), stored=3),
        paid_again(killed(0.9), stored=3),
        paid_again(killed(5), stored=3),
        paid_again(killed(5, harm=Harm.POINT), stored=3),
        paid_again(killed(5, harm=Harm.STALL), stored=3),
        acted_again(killed(5), stored=13),
    ],
)
def test_a_call_in_flight_at_a_fault_may_be_made_again(evidence: Evidence) -> None:
    assert broken(evidence) == []
    repeats = in_flight(evidence)
    assert repeats.model_calls + repeats.effects == 1


def test_a_row_behind_a_fence_was_never_taken() -> None:
    """A stalled owner stored step 1 after the fence of the next one, which took the step itself."""
    late, taken = StepRow("s", 1, 1, 7, "lane"), StepRow("s", 1, 2, 8, "lane")
    evidence = replace(sound(), fences=(StepRow("fence:lane", -1, 2, 6, "lane"),))
    evidence = replace(evidence, steps=(StepRow("s", 0, 1, 5, "lane"), late, taken))
    evidence = replace(evidence, shown=(evidence.shown[0], replace(evidence.shown[1], epoch=2)))
    assert broken(evidence) == []
    assert in_flight(evidence).late_rows == 1


@pytest.mark.parametrize(("woken_at", "sound"), [(9.5, True), (8.0, False), (None, False)])
def test_only_an_owner_that_just_woke_up_may_go_on_with_its_step(woken_at: float | None, sound: bool) -> None:
    evidence = paid_again(Blow(Harm.STALL, NEXT, 0.5, until=woken_at))
    assert (broken(evidence) == []) is sound
    assert in_flight(evidence).woken == int(sound)


def test_a_request_that_failed_was_not_paid() -> None:
    evidence = sound()
    evidence.ledger.asks.append(dataclasses.replace(asked(3, 0, at=0.5), fault=ModelFault.SERVER))
    assert broken(evidence) == []


def test_a_room_that_nobody_followed_is_not_expected() -> None:
    evidence = sound()
    del evidence.ledger.live["session:s"]
    assert set(expected_events(evidence)) == {"conversation:t"}


def test_the_time_to_progress_is_that_of_the_calls_in_flight() -> None:
    ledger = Ledger(asks=[asked(1, 0, at=1.0), asked(2, 1, at=3.0), asked(3, 0, NEXT, 2.0)], blows=[killed(1.2)])
    assert recoveries(ledger) == [pytest.approx(0.8)]
