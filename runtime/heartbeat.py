"""The worker's heartbeat: its row in `workers`, with the watermark of its projections."""

from __future__ import annotations

import dataclasses
import os
import socket
from typing import Any

from runtime.projector import Projector
from store.clock import Clock
from store.database import TenantStore
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
        self._beats = 0
        self._status = WorkerStatus.RUNNING

    async def beat(self, status: WorkerStatus) -> None:
        """Store the row as it is now. Once it said that the worker drains, it never again says that it runs."""
        self._beats += 1
        if status is not WorkerStatus.RUNNING:
            self._status = status
        row = dataclasses.replace(
            self._worker,
            status=self._status,
            beats=self._beats,
            heartbeat_at=self._clock.now(),
            journal_version=self._projector.watermark,
        )
        await save_worker(self._db, row)


def worker_row(
    db: TenantStore,
    *,
    epoch: int,
    model: str,
    monikers: list[str],
    heartbeat_s: float,
    watermark: int,
    lease_s: float = 8.0,
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
        lease_s=lease_s,
    )
