from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from runtime.heartbeat import Heartbeat, worker_row
from runtime.testing import LeapClock
from store.database import Store
from store.errors import StoreUnavailableError
from store.workers import Worker, WorkerStatus, list_workers, save_worker
from tests.runtime.kit import KeptLog, opened
from tests.support import eventually


class Marked:
    """Stands for the projector: only its watermark is asked for."""

    watermark = 0


def beating(store: Store, log: KeptLog, marked: Marked) -> tuple[Worker, Heartbeat]:
    db = store.tenant()
    worker = worker_row(db, epoch=3, model="offline", monikers=["echo"], heartbeat_s=100, watermark=0)
    projector: Any = marked
    return worker, Heartbeat(db, projector, worker, log)


async def beats(store: Store) -> int:
    return await store.tables["workers"].version()


async def test_a_worker_tells_who_and_how_far_it_is(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        marked = Marked()
        worker, heart = beating(store, KeptLog(), marked)
        marked.watermark = 42
        await heart.beat(WorkerStatus.STOPPED)
        (stored,) = await list_workers(store.tenant())
        assert (stored.worker_id, stored.pid, stored.epoch) == (worker.worker_id, os.getpid(), 3)
        assert (stored.model, stored.monikers, stored.journal_version) == ("offline", ["echo"], 42)
        assert stored.status is WorkerStatus.STOPPED
        assert not stored.alive(store.clock.now())


async def test_it_beats_in_time_and_is_missed_when_it_does_not(tmp_path: Path) -> None:
    clock = LeapClock()
    async with opened(tmp_path, clock) as store:
        _, heart = beating(store, KeptLog(), Marked())
        running = asyncio.create_task(heart.run())
        await eventually(lambda: _one(store))
        first = await beats(store)
        clock.leap(101)
        await eventually(lambda: _beyond(store, first))
        running.cancel()
        await asyncio.wait([running])
        (stored,) = await list_workers(store.tenant())
        assert stored.alive(clock.now())
        clock.leap(301)
        assert not stored.alive(clock.now())


async def _one(store: Store) -> bool:
    return len(await list_workers(store.tenant())) == 1


async def _beyond(store: Store, version: int) -> bool:
    return await beats(store) > version


async def test_a_beat_that_cannot_be_stored_is_made_up_by_the_next(tmp_path: Path, monkeypatch: Any) -> None:
    clock, log = LeapClock(), KeptLog()
    tries: list[int] = []

    async def flaky(db: Any, worker: Worker) -> None:
        tries.append(1)
        if len(tries) == 1:
            raise StoreUnavailableError("no space left")
        await save_worker(db, worker)

    monkeypatch.setattr("runtime.heartbeat.save_worker", flaky)
    async with opened(tmp_path, clock) as store:
        _, heart = beating(store, log, Marked())
        running = asyncio.create_task(heart.run())
        await eventually(lambda: bool(log.of("warning")))
        clock.leap(101)
        await eventually(lambda: _one(store))
        running.cancel()
        await asyncio.wait([running])
    assert [fields for _, fields in log.of("warning")] == [{"error": "no space left"}]
