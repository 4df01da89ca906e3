"""Leasing: beats, judges which workers live, claims what nobody owns, and gives up what others should have.

A worker is judged by its beats, on the judge's own monotonic clock: it is lost when its counter did not change for the
lease time. A worker on this machine is judged at once by its lock file, which the kernel lets go when a process dies.

Every worker aims at a fair share: of each moniker's lanes an equal part for each live worker that knows the moniker.
All of them reckon from the same tables to the same shares, so nothing is claimed by one and taken back by another.
"""

from __future__ import annotations

import dataclasses
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from runtime.firstof import first_of
from runtime.heartbeat import Heartbeat
from runtime.ownership import LeasedOwnership
from store.clock import Clock
from store.database import TenantStore
from store.errors import StoreError, StoreTooNewError
from store.ids import WorkerId
from store.lanes import GENERAL, LaneId, lanes_of, moniker_of
from store.leases import Lease, add_leases, list_leases
from store.lock import ProcessRole, is_held
from store.schema import LEASES
from store.workers import Worker, WorkerStatus, list_workers

#: how often the lock files of this machine's workers are looked at
_LOOK_S = 0.25
_AFTER_FAILURE_S = 0.25


class Takeover(Protocol):
    """What a change of ownership does to the parts of a worker."""

    async def take(self, seen: Collection[Lease], epoch: int, judged: Mapping[WorkerId, Worker]) -> None:
        """Claim leases and run their sessions."""
        ...

    async def give(self, lanes: Collection[LaneId]) -> None:
        """Bring the sessions of lanes to rest and release the leases."""
        ...

    async def lose(self, lanes: Collection[LaneId]) -> None:
        """Forget the sessions of lanes that another worker has claimed."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """What a worker should claim and release now."""

    claim: tuple[Lease, ...] = ()
    release: tuple[LaneId, ...] = ()


def plan(
    leases: Mapping[LaneId, Lease],
    me: WorkerId,
    taking: Mapping[WorkerId, Collection[str]],
    living: Collection[WorkerId],
) -> Plan:
    """The way to a fair share.

    `taking` has the monikers of every worker that takes up work, this one's too; `living` also those that are about
    to stop and will release their lanes themselves.
    """
    claim: list[Lease] = []
    release: list[LaneId] = []
    for moniker in sorted(taking.get(me, ())):
        able = sorted(worker for worker, known in taking.items() if moniker in known)
        owned = sorted((one for one in leases.values() if moniker_of(one.lane) == moniker), key=lambda one: one.lane)
        counts = Counter({worker: sum(lease.owner == worker for lease in owned) for worker in able})
        for lease in owned:
            if lease.owner is None or lease.owner not in living:
                taker = _poorest(counts)
                counts[taker] += 1
                claim += [lease] if taker == me else []
        mine = [lease.lane for lease in owned if lease.owner == me]
        release += mine[len(mine) - min(len(mine), _given_by(me, counts)) :]
    return Plan(tuple(claim), tuple(release))


def _poorest(counts: Mapping[WorkerId, int]) -> WorkerId:
    return min(counts, key=lambda worker: (counts[worker], worker))


def _given_by(me: WorkerId, counts: Counter[WorkerId]) -> int:
    """How many lanes `me` gives until no worker has two more than another."""
    gifts = 0
    while True:
        richest, poorest = max(counts, key=lambda worker: (counts[worker], worker)), _poorest(counts)
        if counts[richest] - counts[poorest] < 2:
            return gifts
        counts[richest] -= 1
        counts[poorest] += 1
        gifts += richest == me


@dataclass(slots=True)
class _Judged:
    """When a worker's counter was last seen to change."""

    beats: int
    at: float


@dataclass(slots=True)
class Judge:
    """Tells which workers live."""

    db: TenantStore
    me: WorkerId
    lease_s: float
    _seen: dict[WorkerId, _Judged] = field(default_factory=dict)

    def living(self, workers: Iterable[Worker], *, asked_at: float) -> list[Worker]:
        """Those of `workers` that may still be running. One that was never seen before has a lease time to beat.

        `asked_at` is the moment (monotonic) at which their rows were asked for: a judge that stood still since then
        must not take its own pause for theirs.
        """
        return [worker for worker in workers if self._lives(worker, asked_at)]

    def _lives(self, worker: Worker, asked_at: float) -> bool:
        if worker.worker_id == self.me:
            return True
        if worker.status is WorkerStatus.STOPPED or self.has_died(worker):
            return False
        seen = self._seen.get(worker.worker_id)
        if seen is None or seen.beats != worker.beats:
            self._seen[worker.worker_id] = _Judged(worker.beats, self.db.clock.monotonic())
            return True
        return asked_at - seen.at <= max(self.lease_s, worker.lease_s)

    def has_died(self, worker: Worker) -> bool:
        """Whether it certainly has: its process ran on this machine and its lock file is free."""
        folder = self.db.store.options.folder
        if folder is None or worker.host != socket.gethostname():
            return False
        return not is_held(ProcessRole.of_worker(folder, worker.worker_id))


class Leasing:
    """The worker's part in sharing the lanes."""

    def __init__(
        self,
        db: TenantStore,
        ownership: LeasedOwnership,
        heartbeat: Heartbeat,
        takeover: Takeover,
        *,
        me: Worker,
        log: Any,
    ) -> None:
        self._db = db
        self._clock: Clock = db.clock
        self._ownership = ownership
        self._heartbeat = heartbeat
        self._takeover = takeover
        self._me = me
        self._judge = Judge(db, me.worker_id, me.lease_s)
        self._peers: list[Worker] = []
        self._log = log

    async def begin(self) -> None:
        """Have leases for everything that this worker can run, and take the first share."""
        known = await list_leases(self._db)
        missing = [lane for name in _names(self._me) for lane in lanes_of(name) if lane not in known]
        if missing:
            await add_leases(self._db, missing)
        await self.beat()
        await self.share()

    async def keep_beating(self) -> None:
        """Renew what is owned until cancelled. Away from the sharing, which may take long."""
        while True:
            began = self._clock.monotonic()
            await self._patiently(self.beat)
            await self._clock.sleep(max(0.0, began + self._me.heartbeat_s - self._clock.monotonic()))

    async def keep_sharing(self) -> None:
        """Keep to the fair share until cancelled: whenever leases change, a worker of this machine dies, or in time."""
        async with self._db.store.watch(LEASES.name) as watch:
            while True:
                await first_of(self._clock.sleep(self._me.heartbeat_s), watch.wait(), self._a_peer_died())
                await self._patiently(self.share)

    async def beat(self) -> None:
        """Store a beat, see what is still owned, and be certain of that from the moment on at which this began."""
        began = self._clock.monotonic()
        await self._heartbeat.beat(WorkerStatus.RUNNING)
        await self._notice_lost(await list_leases(self._db))
        self._ownership.renew(began)

    async def share(self) -> None:
        """Claim what nobody owns and give up what others should have, once."""
        leases = self._without_half_taken(await list_leases(self._db))
        asked_at = self._clock.monotonic()
        workers = await list_workers(self._db)
        living = self._judge.living(workers, asked_at=asked_at)
        self._peers = [worker for worker in living if worker.worker_id != self._me.worker_id]
        ids = {worker.worker_id for worker in living} | {self._me.worker_id}
        todo = plan(leases, self._me.worker_id, _taking(living, self._me), ids)
        if todo.release:
            await self._takeover.give(todo.release)
        if todo.claim:
            # Above every epoch there is: a row that moved here from another lane is below the next owner's too.
            epoch = max(lease.epoch for lease in leases.values()) + 1
            await self._takeover.take(todo.claim, epoch, {worker.worker_id: worker for worker in workers})

    def _without_half_taken(self, leases: dict[LaneId, Lease]) -> dict[LaneId, Lease]:
        """The leases, those free that this worker claimed and does not run: the store failed it in the middle."""
        return {
            lane: dataclasses.replace(lease, owner=None)
            if lease.owner == self._me.worker_id and lane not in self._ownership.epochs
            else lease
            for lane, lease in leases.items()
        }

    async def _patiently(self, act: Callable[[], Awaitable[None]]) -> None:
        try:
            await act()
        except StoreTooNewError:  # this version's time here is over: the worker ends
            raise
        except StoreError as error:
            self._log.warning("the leases could not be looked after; trying again", error=str(error))
            await self._clock.sleep(_AFTER_FAILURE_S)

    async def _notice_lost(self, leases: Mapping[LaneId, Lease]) -> None:
        lost = [
            lane
            for lane, epoch in self._ownership.epochs.items()
            if lane not in leases or not leases[lane].held_by(self._me.worker_id, epoch)
        ]
        if lost:
            self._log.warning("lanes were lost to another worker; their sessions go on there", lanes=len(lost))
            await self._takeover.lose(lost)

    async def _a_peer_died(self) -> None:
        """Return when a worker of this machine has died: the kernel tells sooner than its beats do."""
        while not any(self._judge.has_died(peer) for peer in self._peers):
            await self._clock.sleep(_LOOK_S)


def _names(worker: Worker) -> tuple[str, ...]:
    return (GENERAL, *worker.monikers)


def _taking(living: Iterable[Worker], me: Worker) -> dict[WorkerId, Collection[str]]:
    """The monikers of every worker that takes up work. This one's own row may not be stored yet."""
    taking = {worker.worker_id: _names(worker) for worker in living if worker.status is WorkerStatus.RUNNING}
    return {**taking, me.worker_id: _names(me)}
