"""The traces of what runs now, or ended a moment ago and has no row yet: made when somebody asks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Final

from store import filters
from store.actions import Action, ActionKind, find_create, queue_of
from store.agent_state import find_agent_state
from store.agent_steps import find_steps
from store.database import TenantStore
from store.errors import NotFoundError
from store.ids import ActionId, MessageId, SessionId, step_id
from store.messages import find_message
from store.spans import Redact
from store.tracereads import (
    STEP_COLUMNS,
    StretchEnd,
    end_of_session,
    end_of_step,
    told_of_creates,
    told_of_stretches,
    told_of_turns,
)
from store.traces import find_traces, known_traces
from store.tracing import Told, Trace, TraceKind, message_of, trace_id_of, trace_of

#: a follower that keeps up has stored what ended longer ago
_FRESH: Final = timedelta(seconds=60)
_MOST: Final = 100
#: a session's row is so many steps behind the journal at most, or is so for a moment
_LAG: Final = 12


async def fresh_traces(db: TenantStore, session_id: SessionId, redact: Redact) -> list[Trace]:
    """The traces of a session that have no row: those that run, those that wait in line, and what ended just now.

    The one that began last comes first. At most a hundred inputs are told of.
    """
    told = [*await _inputs_of(db, session_id), *await _stretch_of(db, session_id)]
    stored = await known_traces(db, [one.trace_id for one in told])
    left = [one for one in told if (one.trace_id, one.session_id) not in stored]
    return sorted(_made(db, left, redact), key=lambda trace: (trace.started_at, trace.trace_id), reverse=True)


async def get_traces(
    db: TenantStore, trace_id: str, redact: Redact, session_id: SessionId | None = None
) -> list[Trace]:
    """The traces of one id, whole: one, or one for each session that a message was pushed to.

    Raises `NotFoundError` for an id that nothing has begun with.
    """
    found = await find_traces(db, trace_id, session_id)
    stored = {trace.session_id for trace in found}
    left = [told for told in await _told_of(db, trace_id, session_id) if told.session_id not in stored]
    found += _made(db, left, redact)
    if not found:
        raise NotFoundError("trace", trace_id)
    return sorted(found, key=lambda trace: (trace.started_at, trace.session_id))


def _made(db: TenantStore, told: Sequence[Told], redact: Redact) -> list[Trace]:
    now = db.clock.now()
    return [trace_of(one, now, redact) for one in told]


async def _inputs_of(db: TenantStore, session_id: SessionId) -> list[Told]:
    since = db.clock.now() - _FRESH
    inputs = await queue_of(db).find(
        filters.equals("session_id", session_id),
        filters.equals("kind", ActionKind.INPUT),
        filters.either(filters.equals("processed", False), filters.at_least("processed_at", since)),
        order=[("created_at", True)],
        limit=_MOST,
    )
    return await told_of_turns(db, inputs)


async def _stretch_of(db: TenantStore, session_id: SessionId) -> list[Told]:
    """What the session does, or did last, by itself."""
    state = await find_agent_state(db, session_id=session_id)
    if state is None:
        create = await find_create(db, session_id)
        if create is None:
            return []
        failed = await told_of_creates(db, [create])
        return failed or [Told(trace_id_of(create), TraceKind.CREATE, session_id, create)]
    near = range(max(0, state.iteration), state.iteration + _LAG)
    steps = await find_steps(db, [step_id(session_id, number) for number in near], STEP_COLUMNS)
    last = max(steps, key=lambda step: step.iteration, default=None)
    iteration = state.iteration if last is None else last.iteration
    end = (None if last is None else end_of_step(last)) or end_of_session(state)
    end = end or StretchEnd(session_id, iteration, None, by_step=False)
    return await told_of_stretches(db, [end])


async def _told_of(db: TenantStore, trace_id: str, session_id: SessionId | None) -> list[Told]:
    """What may have begun a trace of this id and has no row."""
    actions = [one for one in await _actions_of(db, trace_id, session_id) if session_id in (None, one.session_id)]
    inputs = [action for action in actions if action.kind is ActionKind.INPUT]
    named, _, number = trace_id.rpartition(":")
    others = {action.session_id for action in actions if action.kind is not ActionKind.INPUT and action.session_id}
    others |= {SessionId(named)} if named and number.isdecimal() and session_id in (None, named) else set()
    told = await told_of_turns(db, inputs)
    for other in others:
        told += [one for one in await _stretch_of(db, other) if one.trace_id == trace_id]
    return told


async def _actions_of(db: TenantStore, trace_id: str, session_id: SessionId | None) -> Collection[Action]:
    """The action of this id, or those that carry the message of this id to sessions."""
    action = await queue_of(db).first(filters.equals("id", ActionId(trace_id)))
    if action is not None:
        return [action]
    where = None if session_id is None else filters.equals("session_id", session_id)
    if where is None and (message := await find_message(db, MessageId(trace_id))) is not None:
        where = filters.equals("conversation_id", message.conversation_id)
    asked = [] if where is None else await queue_of(db).find(where)
    return [one for one in asked if message_of(one) == trace_id]
