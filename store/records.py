"""Records: the stored results of model and tool calls inside a step, so that none is paid twice."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from store import filters
from store.codec import RowCodec
from store.database import TenantStore
from store.ids import SessionId
from store.schema import RECORDS
from store.scope import ScopedTable


@dataclass(frozen=True, slots=True)
class Record:
    """The result of one call. `digest` is of the request, so that a changed request is not answered from it."""

    id: str
    created_at: datetime
    session_id: SessionId
    iteration: int
    #: the number of the call among the step's events, over all its tries
    event_seq: int
    key: str
    kind: str
    digest: str
    result: Any
    usage: Any
    latency_ms: float
    epoch: int = 0


CODEC: RowCodec[Record] = RowCodec(Record, RECORDS, json=frozenset({"result", "usage"}))


def records_of(db: TenantStore) -> ScopedTable[Record]:
    """This tenant's records."""
    return db.table(CODEC)


async def append_record(db: TenantStore, record: Record) -> None:
    """Store a result; it may be used when this returns."""
    await records_of(db).append(record)


async def list_records(
    db: TenantStore, session_id: SessionId, iteration: int, *, since_iteration: int | None = None
) -> list[Record]:
    """The records of one step and of its failed tries since an iteration, in the order of the tries.

    Within an iteration the rows of an earlier owner come before those of a later one, whenever they were written: of
    two rows for one key the last one counts.
    """
    found = await records_of(db).created_since(
        0,
        filters.equals("session_id", session_id),
        filters.at_least("iteration", iteration if since_iteration is None else since_iteration),
        filters.at_most("iteration", iteration),
    )
    in_order = sorted(found, key=lambda row: (row.item.iteration, row.item.epoch, row.version, row.item.event_seq))
    return [row.item for row in in_order]


async def find_record(db: TenantStore, session_id: SessionId, record_id: str) -> Record | None:
    """One record, if it is stored."""
    return await records_of(db).first(filters.equals("session_id", session_id), filters.equals("id", record_id))
