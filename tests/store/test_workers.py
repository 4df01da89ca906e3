"""Workers: one row each; alive while it is heard of."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest

from store.database import TenantStore
from store.testing import START
from store.workers import WorkerStatus, list_workers, save_worker
from tests.store.rows import a_worker


async def test_a_worker_has_one_row_the_newest_saved(db: TenantStore) -> None:
    worker = a_worker()
    await save_worker(db, worker)
    beat = dataclasses.replace(worker, heartbeat_at=START + timedelta(seconds=2), journal_version=9)

    await save_worker(db, beat)

    assert await list_workers(db) == [beat]


async def test_workers_are_listed_newest_first(db: TenantStore) -> None:
    later = START + timedelta(seconds=1)
    workers = [a_worker("a", epoch=2), a_worker("b", epoch=1, started_at=later), a_worker("c", epoch=1)]
    for worker in (workers[1], workers[2], workers[0]):
        await save_worker(db, worker)

    assert await list_workers(db) == workers


@pytest.mark.parametrize(
    ("status", "silent_s", "alive"),
    [
        (WorkerStatus.RUNNING, 0, True),
        (WorkerStatus.RUNNING, 6, True),
        (WorkerStatus.RUNNING, 6.001, False),
        (WorkerStatus.STOPPED, 0, False),
    ],
)
def test_a_worker_is_alive_until_it_missed_three_beats(status: WorkerStatus, silent_s: float, alive: bool) -> None:
    worker = a_worker(status=status, heartbeat_s=2.0)

    assert worker.alive(START + timedelta(seconds=silent_s)) is alive
