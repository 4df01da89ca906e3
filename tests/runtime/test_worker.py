from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from runtime.contract import StepFrame, StepOut, WaitForInput
from runtime.leasing import Leasing
from store.agent_state import SessionStatus
from store.errors import StoreUnavailableError
from store.traces import TraceFilter, list_traces
from store.workers import WorkerStatus, list_workers
from tests.runtime.kit import Gate, Workshop, moniker, out, workshop
from tests.support import eventually

#: what a worker writes that does nothing: its own row
BEATS = "workers"


async def waits(ctx: Any, frame: StepFrame) -> StepOut:
    return out(frame, wait=WaitForInput())


WAITS = moniker("waits", waits)


async def versions(shop: Workshop) -> dict[str, int]:
    return {name: await table.version() for name, table in shop.store.tables.items()}


async def test_an_idle_worker_writes_nothing_but_its_heartbeat(tmp_path: Path) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        for session in ("a", "b"):
            await shop.create("waits", session)
            await shop.until(SessionStatus.WAITING, session)
        await shop.done(await shop.pause("b"))
        await eventually(lambda: _traced(shop, 2))
        await eventually(lambda: _at_rest(shop))
        before = await versions(shop)
        for _ in range(5):
            beats = await shop.store.tables[BEATS].version()
            shop.clock.leap(3600)
            await eventually(partial(_beyond, shop, beats))
        after = await versions(shop)
        assert after.pop(BEATS) >= before.pop(BEATS) + 5
        assert after == before


async def _beyond(shop: Workshop, version: int) -> bool:
    return await shop.store.tables[BEATS].version() > version


async def _traced(shop: Workshop, turns: int) -> bool:
    """The follower of ended turns has written them down."""
    shop.clock.leap(60)
    return len((await list_traces(shop.db, TraceFilter(), limit=10)).items) == turns


async def _at_rest(shop: Workshop) -> bool:
    """Nothing is written between two beats."""
    before = await versions(shop)
    shop.clock.leap(3600)  # whoever follows a table from time to time has looked at it then
    await eventually(lambda: _beyond(shop, before[BEATS]))
    after = await versions(shop)
    return {**after, BEATS: 0} == {**before, BEATS: 0}


async def test_it_starts_anew_with_a_higher_epoch_and_stops_in_order(tmp_path: Path) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        await shop.create("waits")
        await shop.until(SessionStatus.WAITING)
        await shop.stop()
        (first,) = await list_workers(shop.db)
        assert (first.status, first.epoch) == (WorkerStatus.STOPPED, 1)
        assert first.journal_version == await shop.store.tables["agent_steps"].version()
        await shop.start()
        await eventually(lambda: _two(shop))
        second, _ = await list_workers(shop.db)
        assert (second.status, second.epoch) == (WorkerStatus.RUNNING, 2)
        assert second.journal_version >= first.journal_version  # its fences are in the journal


async def _two(shop: Workshop) -> bool:
    return len(await list_workers(shop.db)) == 2


async def test_stopping_leaves_no_task_behind(tmp_path: Path) -> None:
    async with workshop(tmp_path, WAITS, start=False) as shop:
        before = asyncio.all_tasks()
        await shop.start()
        await shop.create("waits")
        await shop.until(SessionStatus.WAITING)
        await shop.stop()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before


async def test_stopping_waits_for_running_steps_and_parks_the_rest(tmp_path: Path) -> None:
    gate = Gate()

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        await gate.passing()
        return out(frame, wait=WaitForInput() if int(frame.step) >= 3 else None)

    async with workshop(tmp_path, moniker("m", body)) as shop:
        created = await shop.create("m")
        await gate.reached.wait()
        said, paused = await shop.say("hello"), await shop.pause("nobody")
        await shop.ended(paused)
        stopping = asyncio.create_task(shop.stop())
        await eventually(lambda: any("worker stopping" in event for event, _ in shop.log.of("info")))
        gate.open()
        await stopping
        assert [step.iteration for step in await shop.steps()] == [0]
        assert (await shop.state()).status is SessionStatus.RUNNING
        assert [action.id for action in await shop.open_actions()] == [said.id]
        await shop.start()
        await shop.done(created, said)
        assert len(await shop.steps()) == 4


async def _start_to_end(shop: Workshop) -> None:
    await shop.start()
    await shop.worked()


async def test_a_worker_whose_helper_dies_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def die(self: Any) -> None:
        raise StoreUnavailableError("the queue is gone")

    async with workshop(tmp_path, WAITS, start=False) as shop:
        monkeypatch.setattr(Leasing, "keep_beating", die)
        with pytest.raises(StoreUnavailableError, match="the queue is gone"):
            await _start_to_end(shop)
        assert shop.role_is_free()


async def test_a_worker_whose_helper_just_ends_ends_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def leave(self: Any) -> None:
        return None

    async with workshop(tmp_path, WAITS, start=False) as shop:
        monkeypatch.setattr(Leasing, "keep_beating", leave)
        with pytest.raises(RuntimeError, match="the worker's beats ended by itself"):
            await _start_to_end(shop)
