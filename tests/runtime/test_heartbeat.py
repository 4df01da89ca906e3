from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from runtime.heartbeat import Heartbeat, worker_row
from store.database import Store
from store.workers import Worker, WorkerStatus, list_workers
from tests.runtime.kit import KeptLog, opened


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
