"""Leases: which worker owns a lane now, and the rising number (epoch) of that ownership.

A claim is one conditional update (`owner = me, epoch = new` where the epoch is still the one that was read), so of any
number of claimants one wins. Whether an owner still lives is told by its beats (store/workers.py), not by a lease.

    free ──claim──▶ claiming ──the fence stands, the journal is folded──▶ active ──release──▶ free
                       └──────────────── a later claim, of a higher epoch ◀──────┘
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import reduce
from operator import or_

from lancedb.expr import Expr

from store import filters
from store.codec import RowCodec
from store.database import TenantStore
from store.ids import WorkerId
from store.lanes import LaneId
from store.schema import LEASES
from store.scope import ScopedTable


class LeaseStatus(StrEnum):
    """How far an ownership is."""

    FREE = "free"  # nobody owns the lane
    CLAIMING = "claiming"  # its owner raises the fence and folds the journal
    ACTIVE = "active"  # its owner runs the lane's sessions


@dataclass(frozen=True, slots=True)
class Lease:
    """Who owns a lane."""

    lane: LaneId
    owner: WorkerId | None
    epoch: int
    status: LeaseStatus
    #: every projection of the lane's journal rows up to this version was stored when the lease last changed hands
    watermark: int
    updated_at: datetime

    def held_by(self, owner: WorkerId, epoch: int) -> bool:
        """Whether it is still that ownership."""
        return self.owner == owner and self.epoch == epoch


CODEC: RowCodec[Lease] = RowCodec(Lease, LEASES, enums={"status": LeaseStatus})


def leases_of(db: TenantStore) -> ScopedTable[Lease]:
    """This tenant's leases."""
    return db.table(CODEC)


async def list_leases(db: TenantStore) -> dict[LaneId, Lease]:
    """Every lease, by lane."""
    return {lease.lane: lease for lease in await leases_of(db).find()}


async def add_leases(db: TenantStore, lanes: Iterable[LaneId]) -> None:
    """Have a lease, free at first, for each of `lanes`; those that are there stay as they are."""
    now = db.clock.now()
    await leases_of(db).insert_missing([Lease(lane, None, 0, LeaseStatus.FREE, 0, now) for lane in lanes])


async def claim_leases(db: TenantStore, seen: Collection[Lease], owner: WorkerId, epoch: int) -> dict[LaneId, Lease]:
    """Claim the leases in `seen`, as far as they are still as they were seen; returns those that were won.

    `epoch` must be higher than that of any of them. Crash before: nothing. After: they are claimed by a dead worker,
    and the next claimant takes them with a higher epoch.
    """
    if not seen:
        return {}
    await leases_of(db).change_if(
        _at_epochs({lease.lane: lease.epoch for lease in seen}),
        owner=owner,
        epoch=epoch,
        status=LeaseStatus.CLAIMING,
        updated_at=db.clock.now(),
    )
    found = await list_leases(db)
    wanted = {lease.lane for lease in seen}
    return {lane: lease for lane, lease in found.items() if lane in wanted and lease.held_by(owner, epoch)}


async def activate_leases(
    db: TenantStore, held: Mapping[LaneId, int], owner: WorkerId, *, watermark: int
) -> set[LaneId]:
    """Say that the fences of `held` (lane and epoch) stand and their journal is folded up to `watermark`.

    Returns the lanes that are still held. One that was claimed since, also by the same owner, stays as it is.
    """
    if not held:
        return set()
    await leases_of(db).change_if(
        filters.equals("owner", owner) & _at_epochs(held),
        status=LeaseStatus.ACTIVE,
        watermark=watermark,
        updated_at=db.clock.now(),
    )
    found = await list_leases(db)
    return {lane for lane, epoch in held.items() if lane in found and found[lane].held_by(owner, epoch)}


async def release_leases(db: TenantStore, held: Mapping[LaneId, int], owner: WorkerId, *, watermark: int) -> None:
    """Let go of the lanes in `held` (lane and epoch): whoever sees it first may claim them at once.

    A lane that was claimed since, also by the same owner, stays as it is.
    """
    if held:
        await leases_of(db).change_if(
            filters.equals("owner", owner) & _at_epochs(held),
            owner=None,
            status=LeaseStatus.FREE,
            watermark=watermark,
            updated_at=db.clock.now(),
        )


def _at_epochs(epochs: Mapping[LaneId, int]) -> Expr:
    by_epoch: defaultdict[int, list[LaneId]] = defaultdict(list)
    for lane, epoch in epochs.items():
        by_epoch[epoch].append(lane)
    return reduce(or_, _of_each_epoch(by_epoch))


def _of_each_epoch(by_epoch: Mapping[int, list[LaneId]]) -> list[Expr]:
    return [filters.equals("epoch", epoch) & filters.one_of("lane", lanes) for epoch, lanes in by_epoch.items()]
