"""The worker's heartbeat: its row in `workers`, with the watermark of its projections."""

from __future__ import annotations

import dataclasses
import os
import socket
from typing import Any

from runtime.projector import Projector
from store.clock import Clock
from store.database import TenantStore
from store.errors import StoreError
from store.ids import WorkerId
from store.workers import Worker, WorkerStatus, save_worker


class Heartbeat:
    """Stores the worker's row when it starts, at every beat, and when it ends."""

    def __init__(self, db: TenantStore, projector: Projector, worker: Worker, log: Any) -> None:
        self._db = db
        self._clock: Clock = db.clock
        self._projector = projector
        self._worker = worker
        self._log = log

    async def run(self) -> None:
        """Beat until cancelled; a beat that cannot be stored is logged and the next one tries again."""
        while True:
            try:
                await self.beat(WorkerStatus.RUNNING)
            except StoreError as error:
                self._log.warning("the heartbeat was not stored; the next one tries again", error=str(error))
            await self._clock.sleep(self._worker.heartbeat_s)

    async def beat(self, status: WorkerStatus) -> None:
        """Store the row as it is now."""
        row = dataclasses.replace(
            self._worker,
            status=status,
            heartbeat_at=self._clock.now(),
            journal_version=self._projector.watermark,
        )
        await save_worker(self._db, row)


def worker_row(
    db: TenantStore, *, epoch: int, model: str, monikers: list[str], heartbeat_s: float, watermark: int
) -> Worker:
    """The first row of a worker that starts now."""
    now = db.clock.now()
    return Worker(
        worker_id=WorkerId(db.ids.new()),
        host=socket.gethostname(),
        pid=os.getpid(),
        epoch=epoch,
        status=WorkerStatus.RUNNING,
        model=model,
        monikers=monikers,
        started_at=now,
        heartbeat_at=now,
        heartbeat_s=heartbeat_s,
        journal_version=watermark,
    )
