"""Traces: one row for each turn that has ended, whole and never half; made by store/tracing.py, never by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from lancedb.expr import Expr

from store import filters, paging
from store.codec import RowCodec
from store.database import TenantStore
from store.ids import AgentId, SessionId
from store.paging import Page
from store.schema import TRACES
from store.scope import ScopedTable, Versioned
from store.tracing import Trace, TraceKind, TraceStatus

CODEC: RowCodec[Trace] = RowCodec(
    Trace, TRACES, json=frozenset({"spans", "usage"}), enums={"status": TraceStatus, "kind": TraceKind}
)
#: a list tells of turns, not of what is in them
LIST_COLUMNS = tuple(name for name in TRACES.schema.names if name not in {"spans", "tenant"})
#: what figures are made from
FIGURE_COLUMNS = (
    *("agent_id", "status", "kind", "calls", "input_tokens", "output_tokens"),
    *("cost", "wait_ms", "duration_ms", "steps"),
)


@dataclass(frozen=True, slots=True)
class TraceFilter:
    """Which traces to list; None means any."""

    session_id: SessionId | None = None
    agent_id: AgentId | None = None
    status: TraceStatus | None = None
    #: at least so dear; what is not known to have cost anything is not
    min_cost: float | None = None
    #: begun then or later
    since: datetime | None = None


def traces_of(db: TenantStore) -> ScopedTable[Trace]:
    """This tenant's traces."""
    return db.table(CODEC)


async def save_traces(db: TenantStore, traces: Iterable[Trace], *, epoch: int) -> None:
    """Store some traces in one commit, each in place of an earlier one of the same turn.

    Crash before: none. After: all. A row of a lower epoch than the stored one comes from a follower that was replaced:
    it is not taken.
    """
    await traces_of(db).upsert_all([replace(trace, epoch=epoch) for trace in traces])


async def find_traces(db: TenantStore, trace_id: str, session_id: SessionId | None = None) -> list[Trace]:
    """The traces of one id, by their begin: one, or one for each session that a message was pushed to."""
    found = await traces_of(db).find(
        filters.equals("trace_id", trace_id),
        None if session_id is None else filters.equals("session_id", session_id),
    )
    return sorted(found, key=lambda trace: (trace.started_at, trace.session_id))


async def known_traces(db: TenantStore, trace_ids: Sequence[str]) -> set[tuple[str, SessionId]]:
    """Those of the traces that are stored, by id and session."""
    if not trace_ids:
        return set()
    found = await traces_of(db).find(filters.one_of("trace_id", trace_ids), columns=["trace_id", "session_id"])
    return {(trace.trace_id, trace.session_id) for trace in found}


async def list_traces(
    db: TenantStore, wanted: TraceFilter, *, limit: int = 100, cursor: str | None = None
) -> Page[Trace]:
    """Stored traces, the one that began last first, without their spans."""
    size = paging.checked_limit(limit)
    found = await traces_of(db).find(
        *_conditions(wanted),
        _after(cursor),
        order=[("started_at", True), ("trace_id", True)],
        limit=size + 1,
        columns=LIST_COLUMNS,
    )
    last = found[size - 1] if len(found) > size else None
    following = None if last is None else paging.encode_cursor((last.started_at, last.trace_id))
    return Page(tuple(found[:size]), following)


async def traces_since(db: TenantStore, version: int, *, limit_versions: int) -> list[Versioned[Trace]]:
    """The traces stored or replaced in the next `limit_versions` commits after `version`, oldest first."""
    upto = filters.at_most(filters.UPDATED_VERSION, version + limit_versions)
    return await traces_of(db).changed_since(version, upto)


def _conditions(wanted: TraceFilter) -> list[Expr]:
    checks = [
        None if wanted.session_id is None else filters.equals("session_id", wanted.session_id),
        None if wanted.agent_id is None else filters.equals("agent_id", wanted.agent_id),
        None if wanted.status is None else filters.equals("status", wanted.status),
        None if wanted.min_cost is None else filters.at_least("cost", float(wanted.min_cost)),
        None if wanted.since is None else filters.at_least("started_at", wanted.since),
    ]
    return [check for check in checks if check is not None]


def _after(cursor: str | None) -> Expr | None:
    if cursor is None:
        return None
    started_at, trace_id = paging.decode_cursor(cursor, (datetime, str))
    return filters.beyond(("started_at", "trace_id"), (started_at, trace_id), descending=True)
