"""Which lanes this worker owns, under which epochs, and whether that is still certain.

Certain means: the last good renewal is younger than the lease time less a margin, on this worker's own monotonic
clock. Until then nobody else can have claimed a lane, whatever the wall clocks say. Afterwards the table of leases
must be asked before anything is taken for true: `confirm`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from runtime.errors import OwnershipLostError
from store.clock import Clock
from store.database import TenantStore
from store.ids import WorkerId
from store.lanes import LaneId
from store.leases import list_leases

#: an owner stops by itself this long before others may take over
_MARGIN_S = 2.0
_LARGEST_MARGIN = 0.5


class Ownership(Protocol):
    """What the parts of a worker ask about lanes."""

    @property
    def owner(self) -> str:
        """This worker's id."""
        ...

    def holds(self, lane: LaneId) -> bool:
        """Whether this worker takes up work of the lane."""
        ...

    def epoch_of(self, lane: LaneId) -> int:
        """The epoch under which it owns the lane; 0 when it does not."""
        ...

    def fresh(self) -> bool:
        """Whether what it owns is certain without asking."""
        ...

    async def until_fresh(self) -> None:
        """Return when it is certain again."""
        ...

    async def confirm(self, lane: LaneId, epoch: int) -> None:
        """Ask the table of leases; raises `OwnershipLostError` when another worker has claimed the lane."""
        ...


@dataclass(frozen=True, slots=True)
class SoleOwner:
    """The ownership of a worker that is alone by construction: it owns every lane. For tests and benches."""

    owner: str
    epoch: int

    def holds(self, lane: LaneId) -> bool:
        return True

    def epoch_of(self, lane: LaneId) -> int:
        return self.epoch

    def fresh(self) -> bool:
        return True

    async def until_fresh(self) -> None:
        return None

    async def confirm(self, lane: LaneId, epoch: int) -> None:
        return None


class LeasedOwnership:
    """The lanes that this worker has leased."""

    def __init__(self, db: TenantStore, owner: WorkerId, *, lease_s: float) -> None:
        self.owner: str = owner
        self._id = owner
        self._db = db
        self._clock: Clock = db.clock
        self._certain_s = lease_s - min(_MARGIN_S, lease_s * _LARGEST_MARGIN)
        self._epochs: dict[LaneId, int] = {}
        self._closing: set[LaneId] = set()
        self._renewed_at = self._clock.monotonic()
        self._renewed = asyncio.Event()

    @property
    def epochs(self) -> Mapping[LaneId, int]:
        """Every lane that it owns, with its epoch."""
        return self._epochs

    def take(self, lanes: Iterable[LaneId], epoch: int) -> None:
        """Own `lanes` from now on."""
        self._epochs.update(dict.fromkeys(lanes, epoch))
        self._closing.difference_update(lanes)

    def close(self, lanes: Iterable[LaneId]) -> None:
        """Take up no more work of `lanes`; what is under way may end."""
        self._closing.update(lanes)

    def drop(self, lanes: Iterable[LaneId]) -> None:
        """Own `lanes` no longer."""
        for lane in lanes:
            self._epochs.pop(lane, None)
            self._closing.discard(lane)

    def renew(self, began: float) -> None:
        """A renewal that began at `began` (monotonic seconds) was stored, and the leases were read after it."""
        self._renewed_at = began
        self._renewed.set()

    def holds(self, lane: LaneId) -> bool:
        return lane in self._epochs and lane not in self._closing

    def epoch_of(self, lane: LaneId) -> int:
        return self._epochs.get(lane, 0)

    def fresh(self) -> bool:
        return self._clock.monotonic() - self._renewed_at < self._certain_s

    async def until_fresh(self) -> None:
        while not self.fresh():
            self._renewed.clear()
            await self._renewed.wait()

    async def confirm(self, lane: LaneId, epoch: int) -> None:
        lease = (await list_leases(self._db)).get(lane)
        if lease is None or not lease.held_by(self._id, epoch):
            by = None if lease is None else lease.owner
            raise OwnershipLostError(
                f"lane {lane!r} was claimed by worker {by!r} while this one stood still; it carries the sessions on"
            )
