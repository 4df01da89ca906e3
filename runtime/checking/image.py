"""What every part of a check looks at: the small tables whole, and how far the journal must have been projected.

Read in this order nothing that a working worker does looks like a fault: first the watermarks, then the projections
(they have whatever lies below the watermarks), then the journal (it has whatever the projections know).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from store import filters
from store.database import TenantStore
from store.lanes import LaneId
from store.leases import Lease, LeaseStatus, list_leases
from store.schema import AGENT_STEPS
from store.workers import Worker, WorkerStatus, list_workers

#: whatever a worker had this long to do should be done
GRACE = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Image:
    """The workers, their leases, and the fences in the journal."""

    now: datetime
    #: newest first
    workers: tuple[Worker, ...]
    #: by lane
    leases: dict[LaneId, Lease]
    #: by lane: (epoch, journal version)
    fences: dict[str, list[tuple[int, int]]]

    @property
    def alive(self) -> list[Worker]:
        """The workers that were heard of lately enough to be at work."""
        return [worker for worker in self.workers if worker.alive(self.now)]

    def watermark(self, lane: str | None) -> int:
        """Every journal row of the lane up to here has been projected."""
        lease = self.leases.get(LaneId(lane or ""))
        if lease is None:
            return self._common_watermark()
        owner = next((worker for worker in self.workers if worker.worker_id == lease.owner), None)
        if owner is None or lease.status is not LeaseStatus.ACTIVE:
            return lease.watermark
        return min(owner.journal_version, self._common_watermark())

    def _common_watermark(self) -> int:
        running = [worker.journal_version for worker in self.workers if worker.status is WorkerStatus.RUNNING]
        return min(running) if running else max((worker.journal_version for worker in self.workers), default=0)

    def shows(self, lane: str | None, epoch: int | None, version: int) -> bool:
        """Whether a journal row is shown: no fence of a higher epoch stands before it."""
        return not any(fence > (epoch or 0) and at < version for fence, at in self.fences.get(lane or "", ()))

    def had_time(self, since: datetime, moniker: str) -> bool:
        """Whether a worker that knows the moniker has been at work for a while after `since`."""
        for worker in self.workers:
            at_work = worker.status is WorkerStatus.STOPPED or worker.alive(self.now)
            last = worker.heartbeat_at if worker.status is WorkerStatus.STOPPED else self.now
            if at_work and moniker in (worker.monikers or ()) and max(since, worker.started_at) + GRACE < last:
                return True
        return False


async def read_image(db: TenantStore) -> Image:
    """The image as the store is now."""
    leases = await list_leases(db)  # before the workers: whoever owns a lane then has a row
    workers = tuple(await list_workers(db))
    columns = ["lane", "epoch", filters.CREATED_VERSION]
    is_fence = filters.of_tenant(db.tenant) & filters.below("iteration", 0)
    fences: dict[str, list[tuple[int, int]]] = {}
    for row in (await db.store.tables[AGENT_STEPS.name].read(is_fence, columns=columns)).to_pylist():
        fences.setdefault(row["lane"] or "", []).append((row["epoch"] or 0, row[filters.CREATED_VERSION]))
    return Image(db.clock.now(), workers, leases, fences)
