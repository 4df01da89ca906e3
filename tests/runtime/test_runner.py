from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runtime.contract import (
    MonikerError,
    MonikerInputError,
    StepFrame,
    StepOut,
    WaitForApproval,
    WaitForInput,
    WaitUntil,
)
from runtime.llm.port import LlmError, LlmErrorKind
from store.actions import CREATING_KINDS, ActionKind, ActionStatus
from store.agent_state import SessionStatus, find_agent_state
from store.agent_steps import StepStatus
from store.ids import SessionId
from tests.runtime.kit import Gate, Workshop, moniker, name_of, out, workshop
from tests.support import eventually


class Listener:
    """A moniker that keeps what each step was given, waits at a gate when it has one, then does what it is told."""

    def __init__(self, *answers: dict[str, Any], last: dict[str, Any] | None = None, gate: Gate | None = None) -> None:
        self.frames: list[StepFrame] = []
        self._answers = list(answers)
        self._last = last or {}
        self._gate = gate

    async def __call__(self, ctx: Any, frame: StepFrame) -> StepOut:
        self.frames.append(frame)
        if self._gate is not None:
            await self._gate.passing()
        return out(frame, **(self._answers.pop(0) if self._answers else self._last))

    @property
    def heard(self) -> list[Any]:
        """What each step heard: its guidance, its inputs' texts, or None."""
        return [frame.guidance if frame.guidance is not None else _texts(frame) for frame in self.frames]


def _texts(frame: StepFrame) -> Any:
    return [said.text for said in frame.inputs] or None


WAIT = {"wait": WaitForInput()}
ABOUT_SESSIONS = [ActionKind.INPUT, ActionKind.INTERRUPT, ActionKind.PAUSE, ActionKind.RESUME, ActionKind.DESTROY]


# --- steps -----------------------------------------------------------------------------------------------------------


async def test_a_session_runs_from_its_first_step_to_its_last(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        await shop.done(await shop.create("echo", task="hi", config={"steps": 3}))
        row = await shop.until(SessionStatus.DONE)
        assert (row.iteration, row.reason, row.result) == (2, "the moniker is done", "hi")
        found = [(step.iteration, step.step_token, step.next_step_token) for step in await shop.steps()]
        assert found == [(0, "1", "2"), (1, "2", "3"), (2, "3", "4")]
        assert [step.status for step in await shop.steps()] == [StepStatus.RUNNING, StepStatus.RUNNING, StepStatus.DONE]


async def test_a_step_is_given_the_token_and_the_state_of_the_last_one(tmp_path: Path) -> None:
    listener = Listener({"next_step": "7", "state": {"n": 1}}, {"next_step": "9", "state": {"n": 2}}, last=WAIT)
    async with workshop(tmp_path, moniker("m", listener, first_step="5")) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
    assert [(frame.step, frame.state) for frame in listener.frames] == [("5", {}), ("7", {"n": 1}), ("9", {"n": 2})]


async def test_a_step_cannot_change_the_state_but_by_its_answer(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        seen.append(list(frame.state.get("list", [])))
        if len(seen) == 1:
            return out(frame, state={"list": [1]})
        frame.state["list"].append(2)
        if len(seen) == 2:
            raise MonikerError("after it touched its state")
        return out(frame, state={}, **WAIT)

    async with workshop(tmp_path, moniker("m", body)) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.ERROR)
        assert (await shop.state()).context == {"list": [1]}
        await shop.done(await shop.resume())
        await shop.until(SessionStatus.WAITING)
    assert seen == [[], [1], [1]]


async def test_a_step_sees_its_state_as_it_is_stored(tmp_path: Path) -> None:
    moment = datetime(2026, 1, 1)
    listener = Listener({"state": {"at": moment, "pair": (1, 2), 3: "three"}}, last=WAIT)
    async with workshop(tmp_path, moniker("m", lambda ctx, frame: _loosely(listener, frame))) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        stored = (await shop.steps())[0].state
    assert listener.frames[1].state == stored
    assert stored["pair"] == [1, 2]


async def _loosely(listener: Listener, frame: StepFrame) -> StepOut:
    """An answer whose state no JSON text could hold as it is."""
    listener.frames.append(frame)
    fields = listener._answers.pop(0) if listener._answers else WAIT
    return StepOut.model_construct(
        **{
            "step": frame.step,
            "next_step": "2",
            "state": {},
            "text": None,
            "data": None,
            "done": False,
            "notes": None,
            "wait": None,
            **fields,
        }
    )


@pytest.mark.parametrize(("chosen", "ends"), [(None, True), (True, True), (False, False)])
async def test_an_agent_may_go_on_when_its_moniker_is_done(tmp_path: Path, chosen: bool | None, ends: bool) -> None:
    listener = Listener({"done": True}, last=WAIT)
    async with workshop(tmp_path, moniker("m", listener)) as shop:
        await shop.create("m", stop_on_done=chosen)
        await shop.until(SessionStatus.DONE if ends else SessionStatus.WAITING)
        assert len(await shop.steps()) == (1 if ends else 2)


async def test_a_continuous_moniker_ends_when_its_agent_says_so(tmp_path: Path) -> None:
    listener = Listener({"done": True}, last=WAIT)
    async with workshop(tmp_path, moniker("m", listener, stop_on_done=False)) as shop:
        await shop.create("m", "goes-on")
        await shop.until(SessionStatus.WAITING, "goes-on")
        listener._answers.append({"done": True})
        await shop.create("m", "ends", stop_on_done=True)
        await shop.until(SessionStatus.DONE, "ends")


# --- between two steps -----------------------------------------------------------------------------------------------


async def test_a_stop_comes_before_everything_else(tmp_path: Path) -> None:
    gate = Gate()
    listener = Listener(gate=gate)
    async with workshop(tmp_path, moniker("m", listener, takes_input="any_step"), stop_grace_s=5) as shop:
        await shop.create("m", max_steps=1)
        await gate.reached.wait()
        said, guided = await shop.say("hello"), await shop.guide("look")
        await shop.done(guided)
        paused, ended = await shop.pause(), await shop.destroy()
        await eventually(lambda: _stopping(shop))
        gate.open()
        await shop.done(paused, ended)
        row = await shop.state()
        assert (row.status, row.reason, row.iteration) == (SessionStatus.STOPPED, "destroyed", 0)
        assert "ended before the turn did (destroyed)" in await shop.error_of(said)
    assert len(listener.frames) == 1


async def _stopping(shop: Workshop) -> bool:
    row = await find_agent_state(shop.db, session_id=SessionId("s"))
    return row is not None and row.status is SessionStatus.STOPPING


async def test_a_pause_comes_before_interrupts_limits_and_inputs(tmp_path: Path) -> None:
    gate = Gate()
    listener = Listener(gate=gate)
    async with workshop(tmp_path, moniker("m", listener, takes_input="any_step")) as shop:
        await shop.create("m", max_steps=1)
        await gate.reached.wait()
        guided = await shop.guide("look")
        await shop.done(guided)
        said, paused = await shop.say("hello"), await shop.pause()
        await shop.queue_read()
        gate.open()
        await shop.done(paused)
        row = await shop.state()
        assert (row.status, row.iteration) == (SessionStatus.PAUSED, 0)
        assert [item["guidance"] for item in row.inbox["guidance"]] == ["look"]
        await shop.done(await shop.resume())
        row = await shop.until(SessionStatus.STOPPED)
        assert (row.reason, row.iteration) == ("max_steps 1 reached", 0)
        assert "stopped" in await shop.error_of(said)


async def test_interrupts_come_one_a_step_and_before_inputs(tmp_path: Path) -> None:
    gate = Gate()
    listener = Listener({}, {}, {}, {}, last=WAIT, gate=gate)
    async with workshop(tmp_path, moniker("m", listener, takes_input="any_step")) as shop:
        await shop.create("m")
        await gate.reached.wait()
        said = await shop.say("later")
        for guidance in ("one", "two"):
            await shop.done(await shop.guide(guidance))
        gate.open()
        await shop.done(said)
        await shop.until(SessionStatus.WAITING)
    assert listener.heard[:4] == [None, "one", "two", ["later"]]


async def test_a_limit_holds_whatever_was_said(tmp_path: Path) -> None:
    gate = Gate()
    listener = Listener(gate=gate)
    async with workshop(tmp_path, moniker("m", listener, takes_input="any_step")) as shop:
        await shop.create("m", max_steps=2)
        await gate.reached.wait()
        said = await shop.say("hello")
        for guidance in ("one", "two"):
            await shop.done(await shop.guide(guidance))
        gate.open()
        assert "max_steps 2 reached" in await shop.error_of(said)
        assert (await shop.until(SessionStatus.STOPPED)).iteration == 1
    assert listener.heard == [None, "one"]


# --- the end ---------------------------------------------------------------------------------------------------------


async def test_a_stop_cuts_a_running_step_after_the_grace_and_the_step_never_was(tmp_path: Path) -> None:
    gate = Gate()
    async with workshop(tmp_path, moniker("m", Listener({}, gate=gate))) as shop:
        await shop.create("m")
        await gate.reached.wait()
        await shop.done(await shop.destroy())
        row = await shop.state()
        assert (row.status, row.reason, row.iteration) == (SessionStatus.STOPPED, "destroyed", -1)
        assert await shop.steps() == []


async def test_a_step_that_ends_within_the_grace_is_kept(tmp_path: Path) -> None:
    gate = Gate()
    async with workshop(tmp_path, moniker("m", Listener(gate=gate)), stop_grace_s=30) as shop:
        await shop.create("m")
        await gate.reached.wait()
        ended = await shop.destroy()
        await eventually(lambda: _stopping(shop))
        gate.open()
        await shop.done(ended)
        row = await shop.state()
        assert (row.status, row.iteration, len(await shop.steps())) == (SessionStatus.STOPPED, 0, 1)


async def test_a_stop_during_a_commit_neither_loses_nor_halves_the_step(tmp_path: Path) -> None:
    async with workshop(tmp_path, moniker("m", Listener()), stop_grace_s=0.01) as shop:
        async with shop.writes_held("agent_steps"):
            await shop.create("m", max_steps=5)
            await shop.until(SessionStatus.RUNNING)
            ended = await shop.destroy()
            await eventually(lambda: _stopping(shop))
            assert not (await shop.action(ended)).processed
        await shop.done(ended)
        row = await shop.state()
        assert (row.status, row.iteration) == (SessionStatus.STOPPED, 0)
        assert await shop.raw_step_ids() == ["s:0"]


async def test_a_moniker_that_is_done_before_the_stop_is_done(tmp_path: Path) -> None:
    gate = Gate()
    async with workshop(tmp_path, moniker("m", Listener({"done": True}, gate=gate)), stop_grace_s=30) as shop:
        await shop.create("m")
        await gate.reached.wait()
        ended = await shop.destroy()
        await eventually(lambda: _stopping(shop))
        gate.open()
        await shop.done(ended)
        assert (await shop.state()).status is SessionStatus.DONE


@pytest.mark.parametrize("at", [SessionStatus.PAUSED, SessionStatus.WAITING, SessionStatus.ERROR])
async def test_a_resting_session_can_be_destroyed(tmp_path: Path, at: SessionStatus) -> None:
    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        if at is SessionStatus.ERROR:
            raise MonikerError("no")
        return out(frame, **WAIT)

    async with workshop(tmp_path, moniker("m", body)) as shop:
        await shop.create("m")
        if at is SessionStatus.PAUSED:
            await shop.until(SessionStatus.WAITING)
            await shop.done(await shop.pause())
        await shop.until(at)
        await shop.done(await shop.destroy())
        row = await shop.state()
        assert (row.status, row.reason, row.iteration) == (SessionStatus.STOPPED, "destroyed", 0)


async def test_a_session_can_be_destroyed_in_the_batch_that_creates_it(tmp_path: Path) -> None:
    async with workshop(tmp_path, moniker("m", Listener()), start=False) as shop:
        created, ended = await shop.create("m"), await shop.destroy()
        await shop.start()
        await shop.done(created, ended)
        assert (await shop.state()).status is SessionStatus.STOPPED


async def test_a_pause_and_a_destroy_at_once_end_the_session(tmp_path: Path) -> None:
    gate = Gate()
    async with workshop(tmp_path, moniker("m", Listener(gate=gate))) as shop:
        await shop.create("m")
        await gate.reached.wait()
        asked = await asyncio.gather(shop.pause(), shop.destroy(), shop.pause(), shop.destroy())
        ended = await shop.ended(*asked)
        # A pause may also be stored, and so asked, when the session has ended already.
        assert {action.status for action in ended if action.kind is ActionKind.DESTROY} == {ActionStatus.DONE}
        assert (await shop.state()).status is SessionStatus.STOPPED


async def test_what_waits_when_a_session_ends_fails_with_the_reason(tmp_path: Path) -> None:
    gate = Gate()
    async with workshop(tmp_path, moniker("m", Listener({"done": True}, gate=gate))) as shop:
        await shop.create("m")
        await gate.reached.wait()
        said = [await shop.say("one"), await shop.say("two")]
        await shop.queue_read()
        gate.open()
        for action in said:
            assert "ended before the turn did (the moniker is done)" in await shop.error_of(action)


async def test_inputs_kept_for_a_paused_session_fail_when_it_is_destroyed(tmp_path: Path) -> None:
    async with workshop(tmp_path, moniker("m", Listener(last=WAIT))) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        await shop.done(await shop.pause())
        said = await shop.say("hello")
        await shop.queue_read()
        assert not (await shop.action(said)).processed
        await shop.done(await shop.destroy())
        assert "stopped" in await shop.error_of(said)


@pytest.mark.parametrize("kind", ABOUT_SESSIONS)
async def test_an_ended_session_refuses_everything(tmp_path: Path, kind: ActionKind) -> None:
    async with workshop(tmp_path) as shop:
        await shop.create("echo", task="hi")
        await shop.until(SessionStatus.DONE)
        asked = await shop.ask(kind, payload={"text": "hello", "guidance": "go"})
        assert await shop.error_of(asked) == "session 's' is done and cannot be changed; create a new one"


@pytest.mark.parametrize(
    "kind", [kind for kind in ActionKind if kind not in {*CREATING_KINDS, ActionKind.UNKNOWN, ActionKind.CANCEL}]
)
async def test_an_unknown_session_is_named(tmp_path: Path, kind: ActionKind) -> None:
    async with workshop(tmp_path) as shop:
        error = await shop.error_of(await shop.ask(kind, "nobody", payload={"text": "hello", "guidance": "go"}))
        assert "'nobody'" in error or "no handler" in error


# --- limits ----------------------------------------------------------------------------------------------------------


async def test_max_steps_ends_a_session(tmp_path: Path) -> None:
    async with workshop(tmp_path, moniker("m", Listener())) as shop:
        await shop.create("m", max_steps=3)
        row = await shop.until(SessionStatus.STOPPED)
        assert (row.reason, row.iteration) == ("max_steps 3 reached", 2)


async def test_max_steps_counts_the_steps_before_a_crash(tmp_path: Path) -> None:
    gate = Gate()

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        if frame.step == "3":
            await gate.passing()
        return out(frame)

    async with workshop(tmp_path, moniker("m", body)) as shop:
        await shop.create("m", max_steps=5)
        await gate.reached.wait()
        gate.open()
        await shop.restart()
        assert (await shop.until(SessionStatus.STOPPED)).iteration == 4
        assert await shop.raw_step_ids() == [f"s:{iteration}" for iteration in range(5)]


async def test_max_runtime_ends_a_session_between_two_steps(tmp_path: Path) -> None:
    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        shop.clock.leap(40)
        return out(frame)

    async with workshop(tmp_path, moniker("m", body)) as shop:
        await shop.create("m", max_runtime_s=100)
        row = await shop.until(SessionStatus.STOPPED)
        assert (row.reason, row.iteration) == ("max_runtime_s 100 reached", 2)
        assert 120 <= row.usage["runtime_s"] < 130


async def test_max_runtime_cuts_a_step_that_hangs(tmp_path: Path) -> None:
    gate = Gate()
    async with workshop(tmp_path, moniker("m", Listener({}, gate=gate), takes_input="any_step")) as shop:
        await shop.create("m", max_runtime_s=0.2)
        await gate.reached.wait()
        said = await shop.say("hello")
        row = await shop.until(SessionStatus.STOPPED)
        assert (row.reason, row.iteration) == ("max_runtime_s 0.2 reached", -1)
        assert "max_runtime_s 0.2 reached" in await shop.error_of(said)
        assert await shop.steps() == []


async def test_an_input_whose_step_was_cut_short_fails_and_no_step_is_taken_for_it(tmp_path: Path) -> None:
    heard: list[Any] = []

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        heard.append(_texts(frame))
        if frame.inputs:
            # The loop's timer may ring a little before the runner's own clock has reached the limit.
            shop.clock.leap(-0.1)
            await Gate().passing()
        return out(frame, **WAIT)

    async with workshop(tmp_path, moniker("m", body)) as shop:
        await shop.create("m", max_runtime_s=0.2)
        await shop.until(SessionStatus.WAITING)
        said = await shop.say("hello")
        assert "max_runtime_s 0.2 reached" in await shop.error_of(said)
        await shop.until(SessionStatus.STOPPED)
    assert heard == [None, ["hello"]]


async def test_the_time_that_a_session_rests_is_not_runtime(tmp_path: Path) -> None:
    async with workshop(tmp_path, moniker("m", Listener(last=WAIT))) as shop:
        await shop.create("m", max_runtime_s=50)
        await shop.until(SessionStatus.WAITING)
        shop.clock.leap(1000)
        await shop.done(await shop.say("hello"))
        assert (await shop.until(SessionStatus.WAITING)).usage["runtime_s"] < 50


# --- pause -----------------------------------------------------------------------------------------------------------


async def test_a_pause_during_a_step_takes_effect_behind_it(tmp_path: Path) -> None:
    gate = Gate()
    listener = Listener(last=WAIT, gate=gate)
    listener._answers = [{}, {}]
    async with workshop(tmp_path, moniker("m", listener)) as shop:
        await shop.create("m")
        await gate.reached.wait()
        paused = await shop.pause()
        await shop.queue_read()
        assert not (await shop.action(paused)).processed
        gate.open()
        await shop.done(paused)
        row = await shop.state()
        assert (row.status, row.reason, row.iteration) == (SessionStatus.PAUSED, "paused", 0)
        await shop.done(await shop.resume())
        assert (await shop.until(SessionStatus.WAITING)).iteration == 2


async def test_a_paused_session_stays_paused_over_a_restart(tmp_path: Path) -> None:
    listener = Listener({"wait": WaitForInput()}, last=WAIT)
    async with workshop(tmp_path, moniker("m", listener)) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        await shop.done(await shop.pause())
        said = await shop.say("hello")
        await shop.restart()
        await shop.queue_read()
        assert (await shop.state()).status is SessionStatus.PAUSED
        assert not (await shop.action(said)).processed
        await shop.done(await shop.resume(), said)
    assert listener.heard == [None, ["hello"]]


async def test_pausing_twice_and_resuming_twice_is_no_harm(tmp_path: Path) -> None:
    async with workshop(tmp_path, moniker("m", Listener(last=WAIT))) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        await shop.done(await shop.pause())
        await shop.done(await shop.pause())
        await shop.done(await shop.resume())
        await shop.done(await shop.resume())
        assert (await shop.state()).status is SessionStatus.WAITING


async def test_a_pause_and_a_resume_in_one_batch_leave_it_running(tmp_path: Path) -> None:
    async with workshop(tmp_path, moniker("m", Listener(last=WAIT)), start=False) as shop:
        asked = [await shop.create("m"), await shop.pause(), await shop.resume()]
        await shop.start()
        await shop.done(*asked)
        await shop.until(SessionStatus.WAITING)


async def test_inputs_to_a_paused_session_stay_open_and_come_in_order_when_it_goes_on(tmp_path: Path) -> None:
    listener = Listener(last=WAIT)
    async with workshop(tmp_path, moniker("m", listener)) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        await shop.done(await shop.pause())
        said = [await shop.say(text) for text in ("one", "two", "three")]
        await shop.queue_read()
        assert [action.id for action in await shop.open_actions()] == [action.id for action in said]
        await shop.done(await shop.resume(), *said)
    assert listener.heard == [None, ["one"], ["two"], ["three"]]


async def test_an_input_for_the_agent_of_a_paused_session_comes_when_it_goes_on(tmp_path: Path) -> None:
    listener = Listener(last=WAIT)
    async with workshop(tmp_path, moniker("m", listener)) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        await shop.done(await shop.pause())
        said = await shop.say("hello", None, agent_id="m")
        await shop.queue_read()
        await shop.done(await shop.resume(None, agent_id="m"), said)
    assert listener.heard == [None, ["hello"]]


async def test_an_input_that_a_pause_came_upon_is_read_once(tmp_path: Path) -> None:
    gate = Gate()
    listener = Listener(WAIT, {}, last=WAIT, gate=gate)
    async with workshop(tmp_path, moniker("m", listener)) as shop:
        gate.open()
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        gate.close()
        said = await shop.say("hello")
        await gate.reached.wait()
        paused = await shop.pause()
        await shop.queue_read()
        gate.open()
        await shop.done(paused)
        assert (await shop.state()).inbox["turn"] == said.id
        await shop.done(await shop.resume(), said)
        await shop.queue_read()
        await shop.until(SessionStatus.WAITING)
        assert await shop.open_actions() == []
    assert listener.heard == [None, ["hello"], None]


# --- waiting ---------------------------------------------------------------------------------------------------------


async def test_a_short_wait_is_held_and_ends_by_itself(tmp_path: Path) -> None:
    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        return out(frame, wait=WaitUntil(time=ctx.clock.now() + timedelta(seconds=20)), done=frame.step == "2")

    async with workshop(tmp_path, moniker("m", body)) as shop:
        await shop.create("m")
        await shop.until_steps(1)
        await shop.queue_read()
        row = await shop.until(SessionStatus.RUNNING)
        assert row.iteration == 0
        shop.clock.leap(21)
        await shop.until(SessionStatus.DONE)


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_long_wait_rests_and_is_woken_in_time(tmp_path: Path, restarted: bool) -> None:
    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        return out(frame, wait=WaitUntil(time=ctx.clock.now() + timedelta(days=2)), done=frame.step == "2")

    async with workshop(tmp_path, moniker("m", body)) as shop:
        await shop.create("m")
        row = await shop.until(SessionStatus.WAITING)
        assert row.wake_at is not None
        assert row.reason is not None
        assert row.reason.startswith("sleeping until ")
        if restarted:
            await shop.restart()
        shop.clock.leap(86_400)
        await shop.queue_read()
        assert (await shop.state()).status is SessionStatus.WAITING
        shop.clock.leap(86_401)
        assert (await shop.until(SessionStatus.DONE)).iteration == 1


async def test_a_moment_that_passed_while_no_worker_ran_wakes_at_the_next_start(tmp_path: Path) -> None:
    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        return out(frame, wait=WaitUntil(time=ctx.clock.now() + timedelta(days=2)), done=frame.step == "2")

    async with workshop(tmp_path, moniker("m", body)) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        await shop.stop()
        shop.clock.leap(3 * 86_400)
        await shop.start()
        await shop.until(SessionStatus.DONE)


@pytest.mark.parametrize("takes_input", ["any_step", "at_wait"])
@pytest.mark.parametrize("seconds", [20, 86_400])
@pytest.mark.parametrize("what", ["input", "interrupt"])
async def test_what_is_said_ends_a_wait_for_a_moment(
    tmp_path: Path, takes_input: str, seconds: float, what: str
) -> None:
    heard: list[Any] = []

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        heard.append(frame.guidance or _texts(frame))
        return out(
            frame, wait=WaitUntil(time=ctx.clock.now() + timedelta(seconds=seconds)) if not heard[1:] else WAIT["wait"]
        )

    async with workshop(tmp_path, moniker("m", body, takes_input=takes_input)) as shop:
        await shop.create("m")
        await shop.until_steps(1)
        await shop.until(SessionStatus.WAITING if seconds > 30 else SessionStatus.RUNNING)
        await shop.done(await (shop.say("hello") if what == "input" else shop.guide("hello")))
        await shop.until_steps(2)
    assert heard[1] in ("hello", ["hello"])


async def test_an_input_begins_a_turn_that_ends_when_the_session_waits_again(tmp_path: Path) -> None:
    gate = Gate()
    listener = Listener(WAIT, {}, {}, last=WAIT, gate=gate)
    async with workshop(tmp_path, moniker("m", listener)) as shop:
        gate.open()
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        gate.close()
        first, second = await shop.say("one"), await shop.say("two")
        await gate.reached.wait()
        await shop.queue_read()
        assert not (await shop.action(first)).processed
        gate.open()
        await shop.done(first, second)
        steps = await shop.steps()
        assert [step.action_id for step in steps[1:]] == [first.id] * 3 + [second.id]
    assert listener.heard == [None, ["one"], None, None, ["two"]]


async def test_a_short_wait_within_a_turn_takes_no_other_input(tmp_path: Path) -> None:
    heard: list[Any] = []

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        heard.append(_texts(frame))
        short = {"wait": WaitUntil(time=ctx.clock.now() + timedelta(seconds=20))}
        return out(frame, **(short if frame.inputs and frame.inputs[0].text == "one" else WAIT))

    async with workshop(tmp_path, moniker("m", body)) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        first = await shop.say("one")
        await shop.until_steps(2)
        second = await shop.say("two")
        await shop.queue_read()
        assert not (await shop.action(first)).processed
        shop.clock.leap(21)
        await shop.done(first, second)
    assert heard == [None, ["one"], None, ["two"]]


async def test_an_input_at_any_step_is_answered_by_the_next_one(tmp_path: Path) -> None:
    gate = Gate()
    listener = Listener({}, {}, last=WAIT, gate=gate)
    async with workshop(tmp_path, moniker("m", listener, takes_input="any_step")) as shop:
        await shop.create("m")
        await gate.reached.wait()
        said = await shop.say("hello")
        await shop.queue_read()
        gate.open()
        await shop.done(said)
        await shop.until(SessionStatus.WAITING)
    assert listener.heard == [None, ["hello"], None]


async def test_a_session_that_waits_for_people_says_so(tmp_path: Path) -> None:
    listener = Listener(
        {"wait": WaitForApproval(items=({"kind": "plan", "question": "a?"}, {"kind": "plan", "question": "b?"}))},
        last={"wait": WaitForInput(prompt="Who?")},
    )
    async with workshop(tmp_path, moniker("m", listener)) as shop:
        await shop.create("m")
        assert (await shop.until(SessionStatus.WAITING)).reason == "waiting for 2 approval(s)"
        await shop.done(await shop.guide("go on"))
        await shop.until_steps(2)
        await eventually(lambda: _reason(shop, "waiting for input: Who?"))


async def _reason(shop: Workshop, reason: str) -> bool:
    return (await shop.state()).reason == reason


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raised", "stored"),
    [
        (MonikerError("no luck"), "no luck"),
        (MonikerInputError("no such file"), "no such file"),
        (LlmError(LlmErrorKind.AUTH, "no key"), "auth: no key"),
        (LlmError(LlmErrorKind.TIMEOUT, "too slow"), "timeout: too slow"),
        (KeyError("x"), "KeyError: 'x'"),
        (TimeoutError("mine"), "TimeoutError: mine"),
    ],
)
@pytest.mark.parametrize("limit", [None, 100])
async def test_an_error_ends_the_turn_and_rests_the_session(
    tmp_path: Path, raised: Exception, stored: str, limit: float | None
) -> None:
    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        if frame.inputs:
            raise raised
        return out(frame, state={"n": 1}, **WAIT)

    async with workshop(tmp_path, moniker("m", body)) as shop:
        await shop.create("m", max_runtime_s=limit)
        await shop.until(SessionStatus.WAITING)
        foreseen = isinstance(raised, MonikerError) or "auth" in stored
        error = await shop.error_of(await shop.say("hello"), ActionStatus.FAILED if foreseen else ActionStatus.DEAD)
        assert error == f"the turn failed: {stored}"
        row = await shop.until(SessionStatus.ERROR)
        assert (row.last_error, row.reason, row.iteration, row.context) == (stored, "a step failed", 1, {"n": 1})
        step = (await shop.steps())[1]
        assert (step.status, step.error, step.step_token, step.next_step_token) == (StepStatus.ERROR, stored, "2", "2")


async def test_a_failed_session_tries_its_step_again_when_it_is_resumed(tmp_path: Path) -> None:
    tries: list[str] = []

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        tries.append(frame.step)
        if len(tries) < 3:
            raise MonikerError("not yet")
        return out(frame, **WAIT)

    async with workshop(tmp_path, moniker("m", body)) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.ERROR)
        assert "resume it" in await shop.error_of(await shop.say("hello"))
        assert "resume it" in await shop.error_of(await shop.pause())
        await shop.done(await shop.resume())
        await shop.until_steps(2)
        await shop.until(SessionStatus.ERROR)
        await shop.restart()
        await shop.done(await shop.resume())
        row = await shop.until(SessionStatus.WAITING)
        assert (row.iteration, row.last_error) == (2, None)
        assert [step.iteration for step in await shop.steps()] == [0, 1, 2]
    assert tries == ["1", "1", "1"]


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        {"step": "1", "next_step": "2"},
        "text",
        StepOut.model_construct(step="1", next_step="2", wait=WaitUntil.model_construct(time=datetime(2026, 1, 1))),
    ],
    ids=["nothing", "a dict", "text", "a time without a zone"],
)
async def test_a_wrong_answer_is_the_sessions_error(tmp_path: Path, wrong: Any) -> None:
    async def body(ctx: Any, frame: StepFrame) -> Any:
        return wrong

    async with workshop(tmp_path, moniker("m", body)) as shop:
        await shop.create("m")
        row = await shop.until(SessionStatus.ERROR)
        assert row.last_error
        await shop.done(await shop.destroy())


async def test_a_step_that_is_cancelled_from_within_is_the_sessions_error(tmp_path: Path) -> None:
    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        raise asyncio.CancelledError

    async with workshop(tmp_path, moniker("m", body)) as shop:
        await shop.create("m")
        row = await shop.until(SessionStatus.ERROR)
        assert row.last_error is not None
        assert "cancel" in row.last_error


async def test_a_step_that_swallows_its_cancellation_is_kept(tmp_path: Path) -> None:
    gate = Gate()

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        try:
            await gate.passing()
        except asyncio.CancelledError:
            return out(frame, text="tidied up")
        return out(frame)

    async with workshop(tmp_path, moniker("m", body)) as shop:
        await shop.create("m")
        await gate.reached.wait()
        await shop.done(await shop.destroy())
        assert (await shop.state()).status is SessionStatus.STOPPED
        assert await shop.texts() == ["tidied up"]


@pytest.mark.parametrize("value", [float("nan"), {1: "one"}, "\ud800", object(), [1, (2, 3)]])
async def test_an_answer_that_json_cannot_hold_is_stored_as_near_as_can_be(tmp_path: Path, value: Any) -> None:
    listener = Listener({"data": {"value": value}, "state": {"value": value}}, last=WAIT)
    async with workshop(tmp_path, moniker("m", listener)) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        assert [step.status for step in await shop.steps()] == [StepStatus.RUNNING, StepStatus.WAITING]


async def test_an_input_with_odd_metadata_is_read_all_the_same(tmp_path: Path) -> None:
    listener = Listener(last=WAIT)
    async with workshop(tmp_path, moniker("m", listener)) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        await shop.done(await shop.say("hello", metadata={"sender": 5, "message_id": ["x"]}))
        data = await shop.ask(ActionKind.INPUT, payload={"text": None, "data": [1]})
        await shop.done(data)
    assert listener.heard == [None, ["hello"], [""]]
    assert listener.frames[2].inputs[0].data == {"value": [1]}


# --- leaks -----------------------------------------------------------------------------------------------------------


async def test_resting_sessions_cost_no_task(tmp_path: Path) -> None:
    async with workshop(tmp_path, moniker("m", Listener(last=WAIT))) as shop:
        sessions = [f"s{number}" for number in range(10)]
        await shop.done(*[await shop.create("m", session) for session in sessions])
        for session in sessions:
            await shop.until(SessionStatus.WAITING, session)
        await shop.done(*[await shop.say("hello", session) for session in sessions])
        await eventually(lambda: not any(name_of(task) == "Runner.run" for task in asyncio.all_tasks()))
