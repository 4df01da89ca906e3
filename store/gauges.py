"""The state of the whole in figures, for those who watch over it: few reads of few columns, counted by the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import pyarrow.compute as pc

from store import filters
from store.actions import OPEN_STATUSES, queue_of
from store.agent_state import SessionStatus, count_sessions, states_of
from store.approvals import list_approvals
from store.database import TenantStore
from store.leases import LeaseStatus, list_leases
from store.paging import MAX_LIMIT
from store.schema import QUEUE
from store.workers import Worker, list_workers


@dataclass(frozen=True, slots=True)
class Gauges:
    """What changes all the time."""

    #: (kind, status) -> how many actions
    actions: Mapping[tuple[str, str], int]
    oldest_open: datetime | None
    sessions: Mapping[SessionStatus, int]
    #: steps that sessions have taken, those that retention has deleted too
    steps: int
    workers: tuple[Worker, ...]
    leases: Mapping[LeaseStatus, int]


@dataclass(frozen=True, slots=True)
class SlowGauges:
    """What changes slowly, or costs more to count."""

    #: of at most a thousand
    approvals: int
    #: table -> (commits so far, data files)
    tables: Mapping[str, tuple[int, int]]


async def read_gauges(db: TenantStore) -> Gauges:
    """The figures now. At a million steps of 500 sessions it takes a few milliseconds."""
    oldest = pc.min(await queue_of(db).values("created_at", filters.one_of("status", OPEN_STATUSES))).as_py()
    iterations = await states_of(db).values("iteration")
    leases = [lease.status for lease in (await list_leases(db)).values()]
    return Gauges(
        actions=await _count_actions(db),
        oldest_open=oldest,
        sessions=await count_sessions(db),
        steps=(pc.sum(iterations).as_py() or 0) + len(iterations),
        workers=tuple(await list_workers(db)),
        leases={status: leases.count(status) for status in LeaseStatus},
    )


async def read_slow_gauges(db: TenantStore) -> SlowGauges:
    """The figures that may be some seconds old."""
    tables = {}
    for name, table in db.store.tables.items():
        tables[name] = (await table.version(), (await table.data_size()).files)
    return SlowGauges(len((await list_approvals(db, limit=MAX_LIMIT)).items), tables)


async def _count_actions(db: TenantStore) -> dict[tuple[str, str], int]:
    rows = await db.store.tables[QUEUE.name].read(filters.of_tenant(db.tenant), columns=["kind", "status"])
    counted = rows.group_by(["kind", "status"]).aggregate([([], "count_all")]).to_pylist()
    return {(row["kind"], row["status"]): int(row["count_all"]) for row in counted}
