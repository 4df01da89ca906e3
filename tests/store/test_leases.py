"""Leases: of any number of claimants one wins, epochs only rise, and who has lost a lane changes nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from store.clock import SystemClock, SystemIds
from store.database import TenantStore, open_store
from store.ids import WorkerId
from store.lanes import LaneId, lanes_of
from store.leases import (
    Lease,
    LeaseStatus,
    activate_leases,
    add_leases,
    claim_leases,
    list_leases,
    release_leases,
)
from store.options import StoreOptions

LANES = lanes_of("echo")
ONE, OTHER = WorkerId("one"), WorkerId("other")


async def claimed(db: TenantStore, owner: WorkerId, epoch: int) -> dict[LaneId, Lease]:
    return await claim_leases(db, list((await list_leases(db)).values()), owner, epoch)


async def test_leases_are_free_at_first_and_are_added_once(db: TenantStore) -> None:
    await add_leases(db, LANES)
    await claimed(db, ONE, 1)
    await add_leases(db, LANES)
    leases = await list_leases(db)
    assert set(leases) == set(LANES)
    assert {(lease.owner, lease.epoch, lease.status) for lease in leases.values()} == {(ONE, 1, LeaseStatus.CLAIMING)}


async def test_what_was_claimed_since_it_was_seen_is_not_won(db: TenantStore) -> None:
    await add_leases(db, LANES)
    seen = list((await list_leases(db)).values())
    assert set(await claim_leases(db, seen[:5], ONE, 1)) == {lease.lane for lease in seen[:5]}
    assert set(await claim_leases(db, seen, OTHER, 2)) == {lease.lane for lease in seen[5:]}
    assert await claim_leases(db, seen, ONE, 3) == {}
    assert await claim_leases(db, [], ONE, 3) == {}


async def test_many_connections_that_race_have_one_winner_a_lane_and_epochs_only_rise(tmp_path: Path) -> None:
    options = StoreOptions(str(tmp_path), patience_s=20.0)
    stores = [await open_store(options, clock=SystemClock(), ids=SystemIds()) for _ in range(4)]
    try:
        first = stores[0].tenant()
        await add_leases(first, LANES)
        for round_number in range(1, 4):
            seen = list((await list_leases(first)).values())
            won = await asyncio.gather(
                *[
                    claim_leases(store.tenant(), seen, WorkerId(f"w{number}"), round_number)
                    for number, store in enumerate(stores)
                ]
            )
            assert Counter(lane for part in won for lane in part) == dict.fromkeys(LANES, 1)
            after = await list_leases(first)
            assert {lease.epoch for lease in after.values()} == {round_number}
            for number, part in enumerate(won):
                assert all(after[lane].owner == f"w{number}" for lane in part)
    finally:
        for store in stores:
            await store.close()


@pytest.mark.parametrize("claimant", [OTHER, ONE])
async def test_a_lane_that_was_claimed_since_is_neither_activated_nor_released(
    db: TenantStore, claimant: WorkerId
) -> None:
    """Also not when its former owner has claimed it again meanwhile: that is another ownership."""
    await add_leases(db, LANES)
    await claimed(db, ONE, 1)
    assert await activate_leases(db, dict.fromkeys(LANES, 1), ONE, watermark=5) == set(LANES)
    await claimed(db, claimant, 2)
    before = await list_leases(db)
    assert await activate_leases(db, dict.fromkeys(LANES, 1), ONE, watermark=99) == set()
    await release_leases(db, dict.fromkeys(LANES, 1), ONE, watermark=99)
    assert await list_leases(db) == before


async def test_lanes_of_several_epochs_are_released_together(db: TenantStore) -> None:
    await add_leases(db, LANES)
    seen = list((await list_leases(db)).values())
    await claim_leases(db, seen[:4], ONE, 3)
    await claim_leases(db, seen[4:8], ONE, 7)
    held = {lane: lease.epoch for lane, lease in (await list_leases(db)).items() if lease.owner == ONE}
    await release_leases(db, held, ONE, watermark=12)
    await release_leases(db, {}, ONE, watermark=13)
    after = await list_leases(db)
    assert {(after[lane].owner, after[lane].status, after[lane].watermark) for lane in held} == {
        (None, LeaseStatus.FREE, 12)
    }
    assert {lane: after[lane].epoch for lane in held} == held  # epochs stay: the next claim is above them
