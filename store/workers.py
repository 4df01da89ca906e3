"""Workers: who runs sessions, when it was last heard of, and how far its projections reach (the watermark)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from store.codec import RowCodec
from store.database import TenantStore
from store.ids import WorkerId
from store.schema import WORKERS
from store.scope import ScopedTable

_MISSED_BEATS = 3


class WorkerStatus(StrEnum):
    """What a worker is doing."""

    RUNNING = "running"
    DRAINING = "draining"  # takes up nothing new; its lanes are released as their sessions come to rest
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Worker:
    """One process that runs or ran `agents.py`."""

    worker_id: WorkerId
    host: str
    pid: int
    epoch: int
    status: WorkerStatus
    #: the model's label; "offline" when nothing is configured
    model: str
    monikers: Any
    started_at: datetime
    heartbeat_at: datetime
    heartbeat_s: float
    #: every projection of the journal up to this version is stored
    journal_version: int
    #: rises with every beat; others judge by it whether the worker lives
    beats: int = 0
    lease_s: float = 8.0

    def alive(self, now: datetime) -> bool:
        """Whether it was heard of lately enough to be running."""
        patience = timedelta(seconds=_MISSED_BEATS * self.heartbeat_s)
        return self.status is WorkerStatus.RUNNING and now - self.heartbeat_at <= patience


CODEC: RowCodec[Worker] = RowCodec(Worker, WORKERS, json=frozenset({"monikers"}), enums={"status": WorkerStatus})


def workers_of(db: TenantStore) -> ScopedTable[Worker]:
    """This tenant's workers."""
    return db.table(CODEC)


async def save_worker(db: TenantStore, worker: Worker) -> None:
    """Store a worker's row: its start, its beat or its end."""
    await workers_of(db).upsert(worker)


async def list_workers(db: TenantStore) -> list[Worker]:
    """Every worker that ever ran here, newest first."""
    found = await workers_of(db).find()
    return sorted(found, key=lambda worker: (worker.epoch, worker.started_at), reverse=True)
