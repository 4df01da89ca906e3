"""Ownership: certain for less than the lease time after a renewal began; then it waits or asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runtime.errors import OwnershipLostError
from runtime.ownership import LeasedOwnership
from runtime.testing import FakeClock
from store.database import TenantStore
from store.ids import WorkerId
from store.lanes import LaneId, lanes_of
from store.leases import add_leases, claim_leases, list_leases
from tests.runtime.kit import opened

ME = WorkerId("me")
LANE = LaneId("echo/00")


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[TenantStore]:
    async with opened(tmp_path, FakeClock()) as store:
        yield store.tenant()


@pytest.fixture
def owned(db: TenantStore) -> LeasedOwnership:
    return LeasedOwnership(db, ME, lease_s=8.0)


def move(db: TenantStore, seconds: float) -> None:
    assert isinstance(db.clock, FakeClock)
    db.clock.advance(seconds)


async def test_it_is_certain_until_two_seconds_before_others_may_take_over(
    db: TenantStore, owned: LeasedOwnership
) -> None:
    move(db, 5.9)
    assert owned.fresh()
    move(db, 0.2)
    assert not owned.fresh()


async def test_a_short_lease_keeps_half_of_it_as_margin(db: TenantStore) -> None:
    short = LeasedOwnership(db, ME, lease_s=1.0)
    move(db, 0.4)
    assert short.fresh()
    move(db, 0.2)
    assert not short.fresh()


async def test_a_renewal_counts_from_its_beginning(db: TenantStore, owned: LeasedOwnership) -> None:
    began = db.clock.monotonic()
    move(db, 7)  # the store took so long
    owned.renew(began)
    assert not owned.fresh()


async def test_everybody_who_waits_goes_on_with_a_renewal_that_makes_it_certain(
    db: TenantStore, owned: LeasedOwnership
) -> None:
    move(db, 10)
    waiting = [asyncio.create_task(owned.until_fresh()) for _ in range(3)]
    await asyncio.sleep(0)
    owned.renew(db.clock.monotonic() - 9)  # one that is too old already
    for _ in range(5):
        await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    owned.renew(db.clock.monotonic())
    await asyncio.wait_for(asyncio.gather(*waiting), 30)


async def test_a_lane_that_closes_is_owned_and_takes_up_nothing(owned: LeasedOwnership) -> None:
    owned.take([LANE], 3)
    assert owned.holds(LANE)
    owned.close([LANE])
    assert (owned.holds(LANE), owned.epoch_of(LANE)) == (False, 3)
    owned.take([LANE], 5)
    assert (owned.holds(LANE), owned.epoch_of(LANE)) == (True, 5)
    owned.drop([LANE])
    assert (owned.holds(LANE), owned.epoch_of(LANE)) == (False, 0)


async def test_asked_the_table_tells_who_has_the_lane(db: TenantStore, owned: LeasedOwnership) -> None:
    with pytest.raises(OwnershipLostError):
        await owned.confirm(LANE, 1)
    await add_leases(db, lanes_of("echo"))
    await claim_leases(db, list((await list_leases(db)).values()), ME, 1)
    await owned.confirm(LANE, 1)
    with pytest.raises(OwnershipLostError, match="'me'"):
        await owned.confirm(LANE, 2)
    await claim_leases(db, list((await list_leases(db)).values()), WorkerId("other"), 2)
    with pytest.raises(OwnershipLostError, match="'other'"):
        await owned.confirm(LANE, 1)
