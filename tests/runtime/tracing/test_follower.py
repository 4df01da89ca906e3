"""One trace a turn, on every path that a turn can take, and a crash at any point neither loses nor doubles one."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from runtime.approvals.port import Question, QuestionKind
from runtime.contract import MonikerError, StepFrame, StepOut, WaitForInput, WaitUntil
from store.actions import ActionKind, ActionStatus, WhenBusy
from store.agent_state import SessionStatus
from store.cancelling import cancel_action
from store.followers import read_place
from store.ids import SessionId
from store.livetraces import fresh_traces, get_traces
from store.traces import TraceFilter, find_traces, list_traces
from store.tracing import Trace, TraceKind, TraceStatus
from tests.runtime.kit import Gate, Workshop, moniker, out, workshop
from tests.support import eventually

S = SessionId("s")


async def traced(shop: Workshop, trace_id: str, session: str = "s", status: TraceStatus | None = None) -> Trace:
    """A trace, once it is stored."""

    async def stored() -> bool:
        found = await find_traces(shop.db, trace_id, SessionId(session))
        return bool(found) and status in (None, found[0].status)

    await eventually(stored)
    (trace,) = await find_traces(shop.db, trace_id, SessionId(session))
    return trace


async def has_traces(shop: Workshop, count: int) -> None:
    """Return once so many traces are stored; fail when there are more."""

    async def enough() -> bool:
        return len((await list_traces(shop.db, TraceFilter(), limit=1000)).items) >= count

    await eventually(enough)
    assert len((await list_traces(shop.db, TraceFilter(), limit=1000)).items) == count


def kinds(trace: Trace) -> list[tuple[str, str, str]]:
    """What a trace's spans tell of: kind, name, status."""
    return [(span["kind"], span["name"], span["status"]) for span in trace.spans]


async def talker(ctx: Any, frame: StepFrame) -> StepOut:
    """Does what it is told; at first, and after each turn, it waits."""
    said = frame.inputs[0].text if frame.inputs else frame.step
    if said == "fail":
        raise MonikerError("the well is dry")
    if said == "bug":
        raise ZeroDivisionError("a bug")
    if said == "two":
        await ctx.record("look", _found)
        return StepOut(step=frame.step, next_step="two-b")
    if said == "two-b":
        return StepOut(step=frame.step, next_step="0", text="both", wait=WaitForInput())
    if said == "ask":
        answer = await ctx.ask("may-i", Question(kind=QuestionKind.PLAN, question="May I?"))
        return StepOut(step=frame.step, next_step="0", text=answer.decision, wait=WaitForInput())
    return StepOut(step=frame.step, next_step="0", text=said, wait=WaitForInput())


async def _found() -> str:
    return "a secret answer"


TALKER = moniker("talker", talker)


async def test_a_create_and_a_turn_make_one_trace_each(tmp_path: Path) -> None:
    async with workshop(tmp_path, TALKER) as shop:
        create = await shop.create("talker")
        await shop.until(SessionStatus.WAITING)
        asked = await shop.say("two")
        await shop.done(asked)

        began, turn = await traced(shop, create.id), await traced(shop, asked.id)
        assert (began.kind, began.status, began.steps) == (TraceKind.CREATE, TraceStatus.DONE, 1)
        assert (turn.kind, turn.status, turn.steps) == (TraceKind.TURN, TraceStatus.DONE, 2)
        assert kinds(turn) == [
            ("turn", "turn", "ok"),
            ("step", "0", "ok"),
            ("tool", "look", "ok"),
            ("step", "two-b", "ok"),
        ]
        assert turn.started_at == asked.created_at
        assert turn.duration_ms is not None
        assert turn.wait_ms is not None
        assert 0 <= turn.wait_ms <= turn.duration_ms
        assert "secret" not in str(turn.spans)
        await has_traces(shop, 2)


async def test_its_id_is_that_of_the_message_that_began_it(tmp_path: Path) -> None:
    async with workshop(tmp_path, TALKER) as shop:
        await shop.create("talker")
        await shop.until(SessionStatus.WAITING)
        asked = await shop.say("hello", metadata={"message_id": "m-1"})
        trace = await traced(shop, "m-1")
        assert (trace.action_id, trace.status) == (asked.id, TraceStatus.DONE)


async def test_a_turn_that_fails(tmp_path: Path) -> None:
    async with workshop(tmp_path, TALKER) as shop:
        await shop.create("talker")
        await shop.until(SessionStatus.WAITING)
        asked = await shop.say("fail")
        trace = await traced(shop, asked.id)
        assert (trace.status, trace.steps) == (TraceStatus.FAILED, 1)
        assert "the well is dry" in (trace.error or "")
        assert kinds(trace)[1] == ("step", "0", "error")


async def test_a_call_that_fails_is_told_and_what_it_said_is_cut(tmp_path: Path) -> None:
    async def breaks() -> str:
        raise OSError("no\nroute " + "x" * 5000)

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        try:
            await ctx.record("route", breaks)
        except OSError:
            return out(frame, wait=WaitForInput())
        raise AssertionError

    async with workshop(tmp_path, moniker("router", body)) as shop:
        create = await shop.create("router")
        trace = await traced(shop, create.id)
        (call,) = [span for span in trace.spans if span["kind"] == "tool"]
        assert call["status"] == "error"
        assert call["error"].startswith("OSError: no route xxx")
        assert len(call["error"]) <= 300


async def test_an_input_that_is_withdrawn_or_rejected(tmp_path: Path) -> None:
    gate = Gate()

    async def body(_: Any, frame: StepFrame) -> StepOut:
        if frame.inputs:
            await gate.passing()
        return out(frame, wait=WaitForInput())

    async with workshop(tmp_path, moniker("slow", body)) as shop:
        await shop.create("slow")
        await shop.until(SessionStatus.WAITING)
        first = await shop.say("first")
        await gate.reached.wait()
        waits = await shop.say("waits")
        rejected = await shop.ask(ActionKind.INPUT, payload={"text": "now", "when_busy": WhenBusy.REJECT}, metadata={})
        await shop.error_of(rejected)
        await cancel_action(shop.db, waits.id)
        await shop.error_of(waits)
        gate.open()
        await shop.done(first)

        for action in (waits, rejected):
            trace = await traced(shop, action.id)
            assert (trace.status, trace.steps, len(trace.spans)) == (TraceStatus.CANCELLED, 0, 1)
        assert (await traced(shop, first.id)).status is TraceStatus.DONE


async def test_a_turn_that_is_rolled_back(tmp_path: Path) -> None:
    gate = Gate()

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        if frame.inputs and frame.inputs[0].text == "old":
            await ctx.record("begun", _found)
            await gate.passing()
        return out(frame, wait=WaitForInput())

    async with workshop(tmp_path, moniker("slow", body)) as shop:
        await shop.create("slow")
        await shop.until(SessionStatus.WAITING)
        old = await shop.say("old")
        await gate.reached.wait()
        new = await shop.ask(ActionKind.INPUT, payload={"text": "new", "when_busy": WhenBusy.ROLLBACK})
        await shop.done(new)
        trace = await traced(shop, old.id)
        assert trace.status is TraceStatus.CANCELLED
        assert [kind for kind, _, _ in kinds(trace)] == ["turn", "step", "tool"]
        assert (await traced(shop, new.id)).status is TraceStatus.DONE


async def test_a_turn_whose_session_is_destroyed_in_its_first_step_keeps_its_calls(tmp_path: Path) -> None:
    gate = Gate()

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        if frame.inputs:
            await ctx.record("begun", _found)
            await gate.passing()
        return out(frame, wait=WaitForInput())

    async with workshop(tmp_path, moniker("slow", body)) as shop:
        await shop.create("slow")
        await shop.until(SessionStatus.WAITING)
        cut, waits = await shop.say("cut"), await shop.say("waits")
        await gate.reached.wait()
        running = (await get_traces(shop.db, cut.id, str))[0]
        assert kinds(running)[1:] == [("step", "step", "open"), ("tool", "begun", "ok")]
        await shop.destroy()
        await shop.until(SessionStatus.STOPPED)
        trace, other = await traced(shop, cut.id), await traced(shop, waits.id)
        assert (trace.status, other.status) == (TraceStatus.CANCELLED, TraceStatus.CANCELLED)
        assert kinds(trace)[1:] == [("step", "step", "cut"), ("tool", "begun", "ok")]
        assert len(other.spans) == 1


async def test_a_create_that_is_destroyed_while_it_runs(tmp_path: Path) -> None:
    gate = Gate()

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        if frame.step == "2":
            await ctx.record("begun", _found)
            await gate.passing()
        return out(frame)

    async with workshop(tmp_path, moniker("slow", body)) as shop:
        create = await shop.create("slow")
        await gate.reached.wait()
        (running,) = await fresh_traces(shop.db, S, str)
        assert (running.trace_id, running.status) == (create.id, TraceStatus.RUNNING)
        await shop.destroy()
        trace = await traced(shop, create.id)
        assert (trace.status, trace.steps) == (TraceStatus.CANCELLED, 1)
        assert kinds(trace)[1:] == [("step", "1", "ok"), ("step", "step", "cut"), ("tool", "begun", "ok")]


async def test_what_cannot_be_carried_out_and_what_breaks(tmp_path: Path) -> None:
    async with workshop(tmp_path, TALKER, quiet=False) as shop:
        nobody = await shop.create("echo", "n", config={"steps": "many"})
        assert (await traced(shop, nobody.id, "n")).status is TraceStatus.FAILED
        await shop.create("talker")
        await shop.until(SessionStatus.WAITING)
        breaks = await shop.say("bug")
        (ended,) = await shop.ended(breaks)
        trace = await traced(shop, breaks.id)
        assert (ended.status, trace.status, trace.steps) == (ActionStatus.DEAD, TraceStatus.FAILED, 1)
        late = await shop.say("too late")
        await shop.error_of(late)
        trace = await traced(shop, late.id)
        assert (trace.status, trace.steps, len(trace.spans)) == (TraceStatus.CANCELLED, 0, 1)


async def test_a_moment_that_wakes_a_session_begins_a_trace_of_its_own(tmp_path: Path) -> None:
    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        if frame.step == "2":
            return out(frame, wait=WaitUntil(time=ctx.clock.now() + timedelta(hours=1)))
        return out(frame, wait=WaitForInput() if frame.step == "4" else None)

    async with workshop(tmp_path, moniker("sleeper", body)) as shop:
        create = await shop.create("sleeper")
        await shop.until(SessionStatus.WAITING)
        began = await traced(shop, create.id)
        shop.clock.leap(4000)
        woken = await traced(shop, "s:2")
        assert (began.steps, began.kind) == (2, TraceKind.CREATE)
        assert (woken.steps, woken.kind, woken.action_id) == (2, TraceKind.OWN, None)
        await has_traces(shop, 2)


async def test_an_interrupt_belongs_to_the_turn_that_it_guides(tmp_path: Path) -> None:
    gate = Gate()

    async def body(_: Any, frame: StepFrame) -> StepOut:
        if frame.inputs:
            await gate.passing()
            return out(frame)
        return out(frame, wait=WaitForInput())

    async with workshop(tmp_path, moniker("slow", body)) as shop:
        await shop.create("slow")
        await shop.until(SessionStatus.WAITING)
        asked = await shop.say("begin")
        await gate.reached.wait()
        guided = await shop.guide("left")
        await shop.done(guided)
        gate.open()
        await shop.done(asked)
        trace = await traced(shop, asked.id)
        assert trace.steps == 2
        await has_traces(shop, 2)


async def test_a_session_that_never_waits_makes_one_trace(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        create = await shop.create("echo", task="hi", config={"steps": 70})
        await shop.until(SessionStatus.DONE)
        trace = await traced(shop, create.id)
        assert (trace.steps, trace.left_out, len(trace.spans)) == (70, 0, 71)
        await has_traces(shop, 1)


@pytest.mark.parametrize(
    "point", ["traces.before_rows", "traces.after_rows", "traces.before_place", "traces.after_place"]
)
async def test_a_crash_neither_loses_nor_doubles_a_trace(tmp_path: Path, point: str) -> None:
    async with workshop(tmp_path, TALKER) as shop:
        reached = asyncio.Event()

        def stop_there(name: str) -> None:
            if name == point and not reached.is_set():
                reached.set()
                raise asyncio.CancelledError

        shop.crash_point = stop_there
        create = await shop.create("talker")
        await shop.until(SessionStatus.WAITING)
        said = [await shop.say(f"number {number}") for number in range(5)]
        await shop.ended(*said)
        await asyncio.wait_for(reached.wait(), 10)
        await shop.crash()
        await shop.start()
        for action in (create, *said):
            assert (await traced(shop, action.id)).status is TraceStatus.DONE
        rows = await shop.db.values(shop.store.tables["traces"].spec, "trace_id")
        assert sorted(rows) == sorted([create.id, *[action.id for action in said]])

        async def moved_on() -> bool:
            return (await read_place(shop.db, "traces"))["queue"] > 1

        await eventually(moved_on)
