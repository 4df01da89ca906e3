"""Traces: what happened in a turn and when; of those that have ended, and of those that run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from store.ids import AgentId, SessionId
from store.livetraces import fresh_traces, get_traces
from store.traces import TraceFilter, list_traces
from store.tracing import Trace
from web.lookup import get_known
from web.queries import SessionTracesQuery, TraceQuery, TracesQuery
from web.routes import Answer, Api, Many, One, Operation
from web.shapes import many, shape


def as_it_is(text: str) -> str:
    """What is stored has no secrets in it: they are taken out where texts of errors are made."""
    return text


async def list_session_traces(api: Api, *, session_id: str, query: SessionTracesQuery) -> Answer:
    """A session's traces, the one that began last first, those that run among them; with `trace_id` that one whole."""
    session = SessionId(session_id)
    await get_known(api.db, session)
    if query.trace_id is not None:
        found = await get_traces(api.db, query.trace_id, as_it_is, session)
        return Answer(many(map(shape, found)))
    page = await list_traces(api.db, TraceFilter(session_id=session), limit=query.limit, cursor=query.cursor)
    fresh = [] if query.cursor else await fresh_traces(api.db, session, as_it_is)
    listed = sorted([*fresh, *page.items], key=_newest_first, reverse=True)
    return Answer(many([shape(_light(trace)) for trace in listed], page.next_cursor))


async def list_all_traces(api: Api, *, query: TracesQuery) -> Answer:
    """The traces of turns that have ended, the one that began last first, without their spans."""
    wanted = TraceFilter(
        agent_id=None if query.agent_id is None else AgentId(query.agent_id),
        status=query.status,
        min_cost=query.min_cost,
        since=query.since,
    )
    page = await list_traces(api.db, wanted, limit=query.limit, cursor=query.cursor)
    return Answer(many(map(shape, page.items), page.next_cursor))


async def get_trace(api: Api, *, trace_id: str, query: TraceQuery) -> Answer:
    """One trace whole, also while its turn runs. A message that was pushed to several sessions began a turn in each:
    then it is that of the session which began first, or of the one that is asked for."""
    session = None if query.session_id is None else SessionId(query.session_id)
    found = await get_traces(api.db, trace_id, as_it_is, session)
    return Answer(shape(found[0]))


def _light(trace: Trace) -> Trace:
    return replace(trace, spans=None)


def _newest_first(trace: Trace) -> tuple[Any, str]:
    return trace.started_at, trace.trace_id


OPERATIONS = (
    Operation(
        "GET",
        "/api/sessions/{session_id}/trace",
        list_session_traces,
        "traces",
        "List a session's traces, or read one of them",
        Many(Trace),
        query=SessionTracesQuery,
        problems=(404,),
    ),
    Operation(
        "GET",
        "/api/traces",
        list_all_traces,
        "traces",
        "List the traces of turns that have ended",
        Many(Trace),
        query=TracesQuery,
    ),
    Operation(
        "GET",
        "/api/traces/{trace_id}",
        get_trace,
        "traces",
        "One trace with its spans",
        One(Trace),
        query=TraceQuery,
        problems=(404,),
    ),
)
