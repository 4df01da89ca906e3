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
    event_seq: int
    key: str
    kind: str
    digest: str
    result: Any
    usage: Any
    latency_ms: float


CODEC: RowCodec[Record] = RowCodec(Record, RECORDS, json=frozenset({"result", "usage"}))


def _records(db: TenantStore) -> ScopedTable[Record]:
    return db.table(CODEC)


async def append_record(db: TenantStore, record: Record) -> None:
    """Store a result; it may be used when this returns."""
    await _records(db).append(record)


async def list_records(db: TenantStore, session_id: SessionId, iteration: int) -> list[Record]:
    """The records of one step, in the order of the calls."""
    same_session = filters.equals("session_id", session_id)
    found = await _records(db).find(same_session, filters.equals("iteration", iteration))
    return sorted(found, key=lambda record: record.event_seq)
