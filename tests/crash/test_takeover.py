"""Several real workers on one store: one dies, stalls or leaves, and the others carry its sessions on."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from pathlib import Path

import pytest

from store.actions import list_open_actions
from store.agent_requests import agent_create
from store.agent_state import FINAL_STATUSES, states_of
from store.agent_steps import fences_of, journal_of, shown_steps
from store.database import TenantStore
from store.ids import SessionId
from store.leases import LeaseStatus, list_leases
from store.workers import list_workers
from tests.process.kit import Child, forked_worker
from tests.processes import stored
from tests.support import eventually

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(120)]

LEASE_S = 2.0
TWO = {"STEPWELL_LEASE_S": f"{LEASE_S:g}", "STEPWELL_HEARTBEAT_S": "0.3"}
SESSIONS = 24
STEPS = 30


async def begin(db: TenantStore) -> None:
    """Sessions that step for some seconds."""
    config = {"text": "tick", "steps": STEPS, "delay_s": 0.15}
    for number in range(SESSIONS):
        await agent_create(db, moniker="echo", session_id=SessionId(f"s{number}"), spec={"task": "t", "config": config})


async def shared_by(db: TenantStore, count: int) -> None:
    """Return once so many workers own lanes of the moniker."""

    async def shared() -> bool:
        leases = [lease for lease in (await list_leases(db)).values() if lease.lane.startswith("echo/")]
        owners = {lease.owner for lease in leases if lease.status is LeaseStatus.ACTIVE}
        return bool(leases) and None not in owners and len(owners) == count

    await eventually(shared, 30)


async def under_way(db: TenantStore) -> None:
    await eventually(lambda: _steps(db, SESSIONS * 3), 30)


async def _steps(db: TenantStore, count: int) -> bool:
    return len(await journal_of(db).values("id")) >= count


async def all_well(db: TenantStore) -> None:
    """Every session has taken each of its steps once, and nothing is open."""

    async def ended() -> bool:
        rows = await states_of(db).find()
        return len(rows) == SESSIONS and all(row.status in FINAL_STATUSES for row in rows)

    await eventually(ended, 60)
    await eventually(lambda: _nothing_open(db), 10)
    rows = await shown_steps(db, await journal_of(db).created_since(0))
    taken = Counter((row.item.session_id, row.item.iteration) for row in rows)
    assert set(taken.values()) == {1}
    assert set(taken) == {(f"s{number}", step) for number in range(SESSIONS) for step in range(STEPS)}


async def _nothing_open(db: TenantStore) -> bool:
    return await list_open_actions(db) == []


async def owned_by(db: TenantStore, child: Child) -> None:
    """Return once one worker owns every lane."""
    worker = await worker_of(db, child)

    async def owned() -> bool:
        return {lease.owner for lease in (await list_leases(db)).values()} == {worker}

    await eventually(owned, 10)


async def worker_of(db: TenantStore, child: Child) -> str:
    return next(worker.worker_id for worker in await list_workers(db) if worker.worker_id in child.said)


async def test_a_worker_that_is_killed_is_replaced(tmp_path: Path) -> None:
    async with stored(tmp_path) as db, forked_worker(tmp_path, env=TWO) as one, forked_worker(tmp_path, env=TWO) as two:
        await shared_by(db, 2)
        await begin(db)
        await under_way(db)
        one.running.signal(signal.SIGKILL)
        await shared_by(db, 1)
        await owned_by(db, two)
        await all_well(db)


async def test_a_worker_that_stood_still_shows_nothing_when_it_wakes(tmp_path: Path) -> None:
    async with stored(tmp_path) as db, forked_worker(tmp_path, env=TWO) as one, forked_worker(tmp_path, env=TWO) as two:
        await shared_by(db, 2)
        await begin(db)
        await under_way(db)
        one.running.signal(signal.SIGSTOP)
        try:
            await shared_by(db, 1)
            await owned_by(db, two)
            before = await _epochs(db)
        finally:
            one.running.signal(signal.SIGCONT)
        await all_well(db)
        await shared_by(db, 2)  # it takes a share again, under higher epochs
        after = await _epochs(db)
        assert all(after[lane] >= epoch for lane, epoch in before.items())


async def _epochs(db: TenantStore) -> dict[str, int]:
    return {lane: lease.epoch for lane, lease in (await list_leases(db)).items()}


async def test_workers_are_exchanged_one_by_one_and_every_session_goes_on(tmp_path: Path) -> None:
    async with stored(tmp_path) as db, forked_worker(tmp_path, env=TWO) as one:
        await shared_by(db, 1)
        await begin(db)
        await under_way(db)
        async with forked_worker(tmp_path, env=TWO) as two:
            await shared_by(db, 2)
            one.running.signal(signal.SIGTERM)
            assert await one.code() == 0
            await shared_by(db, 1)
            await owned_by(db, two)
            await all_well(db)
    await fences_of(db).refresh()


async def test_three_workers_have_fair_shares(tmp_path: Path) -> None:
    async with stored(tmp_path) as db, forked_worker(tmp_path, env=TWO), forked_worker(tmp_path, env=TWO):
        await shared_by(db, 2)
        async with forked_worker(tmp_path, env=TWO):
            await shared_by(db, 3)
            await asyncio.gather(begin(db), eventually(lambda: _fair(db), 20))
            await all_well(db)


async def _fair(db: TenantStore) -> bool:
    owners = [lease.owner for lease in (await list_leases(db)).values() if lease.lane.startswith("echo/")]
    return None not in owners and sorted(Counter(owners).values()) in ([4, 6, 6], [5, 5, 6])
