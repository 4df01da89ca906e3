from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.contract import StepFrame, StepOut, WaitForInput
from runtime.rehydration import Recovered, know_answered, repair_projections
from runtime.session import LiveSession, session_of_row
from store.actions import ActionStatus
from store.agent_state import AgentState, SessionStatus, states_of, upsert_agent_state
from store.database import TenantStore
from store.ids import ConversationId, SessionId
from store.lanes import lanes_of
from store.session_cursors import find_cursor, save_cursor
from store.workers import list_workers
from tests.runtime.kit import Gate, Workshop, moniker, out, workshop
from tests.support import eventually


async def waits(ctx: Any, frame: StepFrame) -> StepOut:
    """Three steps, then waits for input after each."""
    return out(frame, text=frame.step, state={"n": frame.step}, wait=WaitForInput() if int(frame.step) > 2 else None)


WAITS = moniker("waits", waits)


async def folded(shop: Workshop, row: AgentState) -> LiveSession:
    """The session that the journal alone makes of a row as it was before the first step."""
    session = session_of_row(row, owner="", epoch=0)
    session.iteration = -1
    for step in await shop.steps(row.session_id):
        session.apply(step)
    return session


async def repaired_in(db: TenantStore) -> int:
    """How many sessions lacked something of their journal; they have it afterwards."""
    lanes = [*lanes_of("waits"), *lanes_of("counts"), *{state.place for state in await states_of(db).find()}]
    repaired, _ = await repair_projections(db, 0, lanes=lanes, epoch=1_000)
    return repaired


@pytest.mark.parametrize("held", ["agent_state", "conversation_messages"])
async def test_steps_whose_projections_were_never_stored_are_folded_in_at_the_next_start(
    tmp_path: Path, held: str
) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        await shop.thread("t")
        async with shop.writes_held(held):
            await shop.create("waits", conversation="t")
            await shop.until_steps(3)
            await shop.crash(writing=False)
        await shop.open()
        assert await shop.messages("t") == []
        await shop.start()
        row = await shop.until(SessionStatus.WAITING)
        assert (row.iteration, row.context, row.agent_id, row.conversation_id) == (2, {"n": "3"}, "waits", "t")
        assert row.context == (await folded(shop, row)).context
        assert [message.message_id for message in await shop.messages("t")] == ["s:0", "s:1", "s:2"]
        assert await shop.raw_step_ids() == ["s:0", "s:1", "s:2"]
        assert await shop.open_actions() == []


async def test_a_crash_in_the_repair_repairs_again(tmp_path: Path) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        await shop.thread("t")
        async with shop.writes_held("agent_state"):
            await shop.create("waits", conversation="t")
            await shop.until_steps(3)
            await shop.crash(writing=False)
        await shop.open()
        repaired = [(await repaired_in(shop.db)) for _ in range(3)]
        assert repaired == [1, 0, 0]
        assert [message.message_id for message in await shop.messages("t")] == ["s:0", "s:1", "s:2"]
        await shop.start()
        assert (await shop.until(SessionStatus.WAITING)).iteration == 2


async def test_a_start_after_a_heartbeat_and_before_the_create_loses_no_step(tmp_path: Path) -> None:
    gate = Gate()

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        if frame.step == "3":
            await gate.passing()
        return await waits(ctx, frame)

    async with workshop(tmp_path, moniker("m", body)) as shop:
        async with shop.writes_held("agent_state"):
            await shop.create("m")
            await gate.reached.wait()
            await shop.crash(writing=False)
        gate.close()
        for _ in range(2):
            await shop.start()
            await eventually(lambda: _beaten(shop))
            await shop.crash()
        gate.open()
        await shop.start()
        await shop.until(SessionStatus.WAITING)
        assert await shop.raw_step_ids() == ["s:0", "s:1", "s:2"]


async def _beaten(shop: Workshop) -> bool:
    return (await list_workers(shop.db))[0].journal_version > 1


async def test_folding_twice_changes_nothing(tmp_path: Path) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        await shop.thread("t")
        await shop.create("waits", conversation="t")
        await shop.until(SessionStatus.WAITING)
        await shop.done(await shop.say("hello"))
        await shop.stop()
        before, messages = await shop.state(), await shop.messages("t")
        recovered = await repaired_in(shop.db)
        assert recovered == 0
        assert (await shop.state(), await shop.messages("t")) == (before, messages)
        stale = (await folded(shop, before)).snapshot()
        await upsert_agent_state(shop.db, [_before_any_step(before)])
        await repaired_in(shop.db)
        repaired = await shop.state()
        assert (repaired.status, repaired.iteration, repaired.context) == (stale.status, stale.iteration, stale.context)
        assert repaired.usage == before.usage


def _before_any_step(row: AgentState) -> AgentState:
    session = session_of_row(row, owner="", epoch=0)
    session.iteration, session.status, session.context = -1, SessionStatus.CREATED, {}
    return session.snapshot()


async def test_a_running_session_goes_on_behind_its_last_step(tmp_path: Path) -> None:
    gate = Gate()
    frames: list[StepFrame] = []

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        frames.append(frame)
        if frame.step == "3":
            await gate.passing()
        return out(frame, state={"n": frame.step}, done=frame.step == "4")

    async with workshop(tmp_path, moniker("m", body)) as shop:
        await shop.create("m")
        await gate.reached.wait()
        gate.open()
        await shop.restart()
        await shop.until(SessionStatus.DONE)
        assert [step.iteration for step in await shop.steps()] == [0, 1, 2, 3]
        assert [step.epoch for step in await shop.steps()] == [1, 1, 2, 2]
    assert [(frame.step, frame.state) for frame in frames[2:]] == [
        ("3", {"n": "2"}),
        ("3", {"n": "2"}),
        ("4", {"n": "3"}),
    ]


async def test_an_accepted_interrupt_is_read_after_the_crash_and_once(tmp_path: Path) -> None:
    gate = Gate()
    heard: list[Any] = []

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        await gate.passing()
        heard.append(frame.guidance)
        return out(frame, wait=WaitForInput() if frame.step == "3" else None)

    async with workshop(tmp_path, moniker("m", body)) as shop:
        await shop.create("m")
        await gate.reached.wait()
        await shop.done(await shop.guide("one"), await shop.guide("two"))
        gate.open()
        await shop.restart()
        await shop.until(SessionStatus.WAITING)
    assert heard == ["one", "two", None]


async def test_a_turn_that_a_crash_cut_goes_on_and_ends(tmp_path: Path) -> None:
    gate = Gate()
    heard: list[Any] = []

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        heard.append([said.text for said in frame.inputs])
        if frame.step == "3":
            await gate.passing()
        return out(frame, wait=WaitForInput() if frame.step in ("1", "3", "4") else None)

    async with workshop(tmp_path, moniker("m", body)) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        said = await shop.say("hello")
        await gate.reached.wait()
        await shop.crash()
        gate.open()
        await shop.start()
        await shop.done(said)
        assert (await shop.until(SessionStatus.WAITING)).iteration == 2
        assert await shop.open_actions() == []
    assert heard == [[], ["hello"], [], []]


async def test_a_session_that_was_being_stopped_is_stopped(tmp_path: Path) -> None:
    gate = Gate()

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        await gate.passing()
        return out(frame)

    async with workshop(tmp_path, moniker("m", body), stop_grace_s=30) as shop:
        await shop.create("m")
        await gate.reached.wait()
        ended = await shop.destroy()
        await shop.until(SessionStatus.STOPPING)
        await shop.crash()
        await shop.start()
        await shop.done(ended)
        assert (await shop.state()).status is SessionStatus.STOPPED
        assert await shop.steps() == []


async def test_only_what_a_good_step_has_read_counts_as_answered(tmp_path: Path) -> None:
    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        if frame.inputs and frame.inputs[0].text == "bad":
            raise ValueError("bad")
        return out(frame, wait=WaitForInput())

    async with workshop(tmp_path, moniker("m", body)) as shop:
        created = await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        good = await shop.say("good")
        await shop.done(good)
        bad = await shop.say("bad")
        assert (await shop.ended(bad))[0].status is ActionStatus.DEAD
        recovered = Recovered()
        await know_answered(shop.db, recovered, [created, good, bad])
        assert [recovered.answered(action.id) for action in (created, good, bad)] == [True, True, False]
        assert all(recovered.tried(action.id) for action in (created, good, bad))
        await shop.lose_mark(bad)
        await shop.restart()
        assert "resume it" in await shop.error_of(bad)


async def test_a_session_whose_moniker_is_gone_is_left_as_it_is(tmp_path: Path) -> None:
    gate = Gate()

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        await gate.passing()
        return out(frame, done=True)

    async with workshop(tmp_path / "store", moniker("m", body)) as shop:
        await shop.create("m")
        await gate.reached.wait()
        await shop.until(SessionStatus.RUNNING)
        await shop.crash()
    async with workshop(tmp_path / "store", WAITS) as shop:
        guided = await shop.guide("look")
        await shop.done(await shop.create("waits", "other"))
        assert (await shop.state()).status is SessionStatus.RUNNING
        assert [action.id for action in await shop.open_actions()] == [guided.id]
        assert shop.log.of("warning") == []
    gate.open()
    async with workshop(tmp_path / "store", moniker("m", body)) as shop:
        await shop.until(SessionStatus.DONE)


async def test_the_pull_cursor_is_brought_up_to_the_journal(tmp_path: Path) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        thread = ConversationId(await shop.thread("t"))
        await shop.create("waits", conversation="t", delivery="pull")
        await shop.until(SessionStatus.WAITING)
        await shop.stop()
        cursor = await find_cursor(shop.db, SessionId("s"), thread)
        assert cursor == (await shop.steps())[-1].guidance["pulled_to"]
        await save_cursor(shop.db, SessionId("s"), thread, 0)
        await repaired_in(shop.db)
        assert await find_cursor(shop.db, SessionId("s"), thread) == cursor
