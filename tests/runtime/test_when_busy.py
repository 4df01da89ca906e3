"""Double texting: what the four policies do to a session whose turn is running."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from runtime.contract import StepFrame, StepOut, WaitForInput
from runtime.inputs import Inputs
from store.actions import Action, ActionKind, ActionStatus, WhenBusy, get_action
from store.agent_state import SessionStatus
from store.agent_steps import StepStatus
from store.database import TenantStore
from store.enqueueing import NewAction, enqueue_all
from store.errors import StoreUnavailableError
from store.ids import ActionId, SessionId
from store.marks import mark_action_processed_async
from store.messages import EventType, SenderType
from tests.runtime.kit import Gate, Workshop, moniker, out, workshop
from tests.support import eventually

LEFT = "cancelled"


class Talker:
    """Waits for an input, answers it in three steps, each of which stands at the gate first, and waits again."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.heard: list[Any] = []

    async def __call__(self, ctx: Any, frame: StepFrame) -> StepOut:
        said = frame.inputs[0].text if frame.inputs else frame.guidance
        self.heard.append(said)
        place = frame.state.get("place", 0)
        if place == 0 and said is None:
            return out(frame, wait=WaitForInput())
        try:
            await self.gate.passing()
        except asyncio.CancelledError:
            self.heard.append(LEFT)
            raise
        state = {"place": (place + 1) % 3, "words": [*frame.state.get("words", []), said or frame.state.get("turn")]}
        state["turn"] = said if place == 0 else frame.state.get("turn")
        return out(frame, text=f"{state['turn']}/{place}", state=state, wait=WaitForInput() if place == 2 else None)


async def say(shop: Workshop, text: str, when_busy: WhenBusy, session: str = "s") -> Action:
    payload = {"text": text, "when_busy": when_busy}
    return await shop.ask(ActionKind.INPUT, session, payload=payload)


async def begun(shop: Workshop, talker: Talker, steps: int = 1) -> Action:
    """A turn that has stored so many steps and stands in the next one."""
    await shop.until(SessionStatus.WAITING)
    first = await shop.say("first")
    for _ in range(steps):
        await talker.gate.let_one_through()
    await talker.gate.reached.wait()
    return first


async def test_enqueue_waits_until_the_running_turn_has_ended(tmp_path: Path) -> None:
    talker = Talker()
    async with workshop(tmp_path, moniker("m", talker)) as shop:
        await shop.create("m")
        first = await begun(shop, talker)
        second = await say(shop, "second", WhenBusy.ENQUEUE)
        talker.gate.open()
        await shop.done(first, second)
        assert (await shop.texts())[1:] == ["first/0", "first/1", "first/2", "second/0", "second/1", "second/2"]


async def test_interrupt_is_read_by_the_next_step_of_the_turn(tmp_path: Path) -> None:
    talker = Talker()
    async with workshop(tmp_path, moniker("m", talker)) as shop:
        await shop.create("m")
        first = await begun(shop, talker)
        await shop.done(await say(shop, "second", WhenBusy.INTERRUPT))
        talker.gate.open()
        await shop.done(first)
        assert talker.heard == [None, "first", None, "second"]
        assert [step.guidance.get("guidance") for step in (await shop.steps())[1:]] == [None, None, "second"]


async def test_interrupt_of_an_idle_session_begins_a_turn(tmp_path: Path) -> None:
    talker = Talker()
    talker.gate.open()
    async with workshop(tmp_path, moniker("m", talker)) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        await shop.done(await say(shop, "hello", WhenBusy.INTERRUPT))
        assert (await shop.steps())[1].guidance["inputs"][0]["text"] == "hello"


async def test_an_interrupt_that_was_accepted_before_a_crash_is_read_once(tmp_path: Path) -> None:
    talker = Talker()
    async with workshop(tmp_path, moniker("m", talker)) as shop:
        await shop.create("m")
        first = await begun(shop, talker)
        second = await say(shop, "second", WhenBusy.INTERRUPT)
        await shop.done(second)
        await shop.lose_mark(second)
        await shop.restart()
        talker.gate.open()
        await shop.done(first, second)
        read = [step.guidance["guidance"] for step in await shop.steps() if "guidance" in (step.guidance or {})]
        assert read == ["second"]


async def test_an_interrupt_that_comes_again_behind_the_step_that_read_it_is_not_read_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash a session goes on with the guidance in its row, while the action that brought it is still open."""
    talker = Talker()
    async with workshop(tmp_path, moniker("m", talker)) as shop:
        await shop.create("m")
        first = await begun(shop, talker)
        second = await say(shop, "second", WhenBusy.INTERRUPT)
        await shop.done(second)
        await shop.lose_mark(second)
        handle = Inputs.input

        async def late(self: Inputs, action: Action) -> None:
            if action.id == second.id:
                await eventually(lambda: _has_read(shop, "second"))
            await handle(self, action)

        monkeypatch.setattr(Inputs, "input", late)
        talker.gate.open()
        await shop.restart()
        await shop.done(first, second)
        await shop.done(await say(shop, "third", WhenBusy.ENQUEUE))
        assert (await _read(shop)).count("second") == 1


async def _read(shop: Workshop) -> list[Any]:
    """All that was said to the session, as its steps have read it: guidance and inputs."""
    read = [step.guidance or {} for step in await shop.steps()]
    return [said for one in read for said in (one.get("guidance"), *(item["text"] for item in one.get("inputs", [])))]


async def _has_read(shop: Workshop, guidance: str) -> bool:
    return guidance in await _read(shop)


async def test_an_input_whose_end_could_not_be_stored_has_one_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talker = Talker()
    talker.gate.open()
    async with workshop(tmp_path, moniker("m", talker), retry_base_s=0.01) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        failures = iter([StoreUnavailableError("away")])

        async def failing(db: TenantStore, action_id: ActionId, **ends: Any) -> None:
            if (await get_action(db, action_id)).kind is ActionKind.INPUT and (error := next(failures, None)):
                raise error
            await mark_action_processed_async(db, action_id, **ends)

        monkeypatch.setattr("runtime.dispatcher.mark_action_processed_async", failing)
        await shop.done(await shop.say("first"))
        assert next(failures, None) is None, "it did not fail"
        await shop.done(await shop.say("second"))
        assert [text for text in await shop.texts() if text and text.endswith("/0")] == ["first/0", "second/0"]
        assert [event for event, _ in shop.log.of("error")] == ["an action's end was not stored; it is handled again"]
        shop.log.lines.clear()


async def test_reject_fails_while_a_turn_runs_and_is_taken_when_idle(tmp_path: Path) -> None:
    talker = Talker()
    async with workshop(tmp_path, moniker("m", talker)) as shop:
        await shop.create("m")
        first = await begun(shop, talker)
        assert "is busy" in await shop.error_of(await say(shop, "second", WhenBusy.REJECT))
        talker.gate.open()
        await shop.done(first)
        await shop.done(await say(shop, "third", WhenBusy.REJECT))
        assert [text for text in await shop.texts() if text and text.endswith("/0")] == ["first/0", "third/0"]


async def test_reject_fails_while_inputs_wait_for_a_paused_session(tmp_path: Path) -> None:
    talker = Talker()
    talker.gate.open()
    async with workshop(tmp_path, moniker("m", talker)) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        await shop.done(await shop.pause())
        waits = await shop.say("waits")
        await shop.queue_read()
        assert "is busy" in await shop.error_of(await say(shop, "second", WhenBusy.REJECT))
        await shop.done(await shop.resume(), waits)


async def test_of_two_that_come_at_once_one_is_rejected(tmp_path: Path) -> None:
    """Two messages at once: one turn, and the other one is told so."""
    talker = Talker()
    talker.gate.open()
    async with workshop(tmp_path, moniker("m", talker)) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        new = [
            NewAction(ActionKind.INPUT, session_id=SessionId("s"), payload={"text": text, "when_busy": WhenBusy.REJECT})
            for text in ("one", "two")
        ]
        ended = await shop.ended(*await enqueue_all(shop.db, new))
        assert sorted(action.status for action in ended) == [ActionStatus.DONE, ActionStatus.FAILED]
        assert len(await shop.steps()) == 4


@pytest.mark.parametrize("steps", [0, 1, 2])
async def test_rollback_goes_back_to_where_the_turn_began(tmp_path: Path, steps: int) -> None:
    talker = Talker()
    async with workshop(tmp_path, moniker("m", talker)) as shop:
        await shop.thread("t")
        await shop.create("m", conversation="t")
        first = await begun(shop, talker, steps)
        waits = await shop.say("waits")
        await shop.queue_read()
        second = await say(shop, "second", WhenBusy.ROLLBACK)
        assert await shop.error_of(first) == f"rolled back by action {second.id}"
        talker.gate.open()
        await shop.done(second, waits)
        rows = await shop.steps()
        before, row = rows[0], rows[1 + steps]
        taken_back = [1, steps] if steps else []
        assert (row.state, row.step_token, row.next_step_token) == (
            before.state,
            before.step_token,
            before.next_step_token,
        )
        assert (row.status, row.wait, row.data["rolled_back"]) == (StepStatus.WAITING, before.wait, taken_back)
        assert row.notes == "rolled back to iteration 0"
        assert [step.text for step in rows[2 + steps :]] == [
            *["second/0", "second/1", "second/2"],
            *["waits/0", "waits/1", "waits/2"],
        ]
        assert rows[-1].state["words"] == ["second"] * 3 + ["waits"] * 3
        said = [message for message in await shop.messages("t") if message.event_type is EventType.ROLLBACK]
        assert [(message.sender_type, message.iteration) for message in said] == [(SenderType.SYSTEM, 1 + steps)]
        assert said[0].data["rolled_back"] == taken_back


async def test_a_second_turn_is_taken_back_to_the_end_of_the_first(tmp_path: Path) -> None:
    talker = Talker()
    talker.gate.open()
    async with workshop(tmp_path, moniker("m", talker)) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        await shop.done(await shop.say("zeroth"))
        talker.gate.close()
        await begun(shop, talker, 2)
        second = await say(shop, "second", WhenBusy.ROLLBACK)
        await eventually(lambda: "second" in talker.heard)
        assert (await shop.steps())[6].state["words"] == ["zeroth"] * 3
        await eventually(lambda: shop_result(shop, "zeroth/2"))
        talker.gate.open()
        await shop.done(second)


async def shop_result(shop: Workshop, result: str) -> bool:
    return bool((await shop.state()).result == result)


async def test_a_rollback_with_no_turn_running_is_an_enqueue(tmp_path: Path) -> None:
    talker = Talker()
    talker.gate.open()
    async with workshop(tmp_path, moniker("m", talker)) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        await shop.done(await say(shop, "hello", WhenBusy.ROLLBACK))
        assert (await shop.texts())[1:] == ["hello/0", "hello/1", "hello/2"]


async def test_a_turn_that_an_earlier_worker_began_is_taken_back(tmp_path: Path) -> None:
    talker = Talker()
    async with workshop(tmp_path, moniker("m", talker)) as shop:
        await shop.create("m")
        first = await begun(shop, talker, 2)
        await shop.restart()
        await talker.gate.reached.wait()
        second = await say(shop, "second", WhenBusy.ROLLBACK)
        assert "rolled back" in await shop.error_of(first)
        talker.gate.open()
        await shop.done(second)
        assert (await shop.steps())[3].data["rolled_back"] == [1, 2]


@pytest.mark.parametrize("point", ["before", "after"])
async def test_a_crash_around_the_rollbacks_row(tmp_path: Path, point: str) -> None:
    """Before it: it is done again. After it: the new input comes first, and the old one is known to be taken back."""
    talker = Talker()
    async with workshop(tmp_path, moniker("m", talker)) as shop:
        await shop.create("m")
        first = await begun(shop, talker, 2)
        waits = await shop.say("waits")
        await shop.queue_read()
        if point == "before":
            async with shop.writes_held("agent_steps"):
                second = await say(shop, "second", WhenBusy.ROLLBACK)
                await shop.queue_read()
                await shop.crash(writing=False)
        else:
            second = await say(shop, "second", WhenBusy.ROLLBACK)
            await shop.until_steps(4)
            await shop.crash()
            await shop.open()
            await shop.lose_mark(first)
        await shop.start()
        assert await shop.error_of(first) == f"rolled back by action {second.id}"
        talker.gate.open()
        await shop.done(second, waits)
        rows = await shop.steps()
        assert [row.text for row in rows if row.notes is None][3:] == [
            *["second/0", "second/1", "second/2"],
            *["waits/0", "waits/1", "waits/2"],
        ]
        assert sum(row.notes == "rolled back to iteration 0" for row in rows) == 1


async def test_a_paused_session_is_rolled_back_and_the_new_input_comes_first(tmp_path: Path) -> None:
    talker = Talker()
    async with workshop(tmp_path, moniker("m", talker)) as shop:
        await shop.create("m")
        first = await begun(shop, talker, 1)
        waits = await shop.say("waits")
        paused = await shop.pause()
        await shop.queue_read()
        await talker.gate.let_one_through()
        await shop.done(paused)
        second = await say(shop, "second", WhenBusy.ROLLBACK)
        assert "rolled back" in await shop.error_of(first)
        talker.gate.open()
        await shop.done(await shop.resume(), second, waits)
        assert [text for text in await shop.texts() if text and text.endswith("/0")] == [
            "first/0",
            "second/0",
            "waits/0",
        ]


async def test_an_unknown_policy_is_refused(tmp_path: Path) -> None:
    async with workshop(tmp_path, moniker("m", Talker())) as shop:
        await shop.create("m")
        bad = await shop.ask(ActionKind.INPUT, "s", payload={"text": "hi", "when_busy": "shout"})
        assert "give one of: enqueue, interrupt, reject, rollback" in await shop.error_of(bad)


# --- order -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("together", [True, False])
async def test_an_input_behind_a_resume_does_not_overtake_what_the_pause_parked(tmp_path: Path, together: bool) -> None:
    talker = Talker()
    talker.gate.open()
    async with workshop(tmp_path, moniker("m", talker)) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        await shop.done(await shop.pause())
        older = [await shop.say(text) for text in ("one", "two", "three")]
        await shop.queue_read()
        if together:
            new = [
                NewAction(ActionKind.RESUME, session_id=SessionId("s")),
                NewAction(ActionKind.INPUT, session_id=SessionId("s"), payload={"text": "four"}),
            ]
            newer = await enqueue_all(shop.db, new)
        else:
            newer = [await shop.resume(), await shop.say("four")]
        await shop.done(*older, *newer)
        firsts = [text for text in await shop.texts() if text and text.endswith("/0")]
        assert firsts == ["one/0", "two/0", "three/0", "four/0"]


async def test_interrupts_do_not_hold_up_what_comes_behind_them(tmp_path: Path) -> None:
    talker = Talker()
    async with workshop(tmp_path, moniker("m", talker)) as shop:
        await shop.create("m")
        await begun(shop, talker)
        async with shop.writes_held("agent_state"):
            guided = [await shop.guide(n) for n in range(20)]
            await shop.destroy()
            await eventually(lambda: LEFT in talker.heard)
        await shop.done(*guided)
        await shop.until(SessionStatus.STOPPED)


async def test_all_at_once_is_still_one_turn_after_the_other(tmp_path: Path) -> None:
    talker = Talker()
    talker.gate.open()
    async with workshop(tmp_path, moniker("m", talker)) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        said = await asyncio.gather(*[say(shop, f"n{n}", WhenBusy.ENQUEUE) for n in range(8)])
        await shop.done(*said)
        turns = [str(text).split("/")[0] for text in (await shop.texts())[1:]]
        assert [turns[at : at + 3] for at in range(0, 24, 3)] == [[turns[at]] * 3 for at in range(0, 24, 3)]
        assert sorted(set(turns)) == [f"n{n}" for n in range(8)]
