"""Sessions: one live row each, a projection of the journal.

A session's row can always be rebuilt from its steps; it is written in batches, at most 250 ms after the step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import pyarrow.compute as pc
from lancedb.expr import Expr

from store import filters, paging
from store.actions import ActionKind
from store.codec import RowCodec
from store.database import TenantStore
from store.errors import NotFoundError
from store.ids import AgentId, ConversationId, SessionId
from store.lanes import LaneId, lane_of
from store.paging import Page
from store.schema import AGENT_STATE
from store.scope import ScopedTable

_MAX_NAMED = 500


class SessionStatus(StrEnum):
    """Where a session is."""

    CREATED = "created"  # accepted, no step yet
    RUNNING = "running"  # a runner carries it on
    WAITING = "waiting"  # for an input, a moment or a person; costs no memory
    PAUSED = "paused"  # by a person, or for a spent budget; costs no memory
    STOPPING = "stopping"  # asked to end, its running step has a grace
    STOPPED = "stopped"  # ended by a person or a limit
    DONE = "done"  # the moniker said so
    ERROR = "error"  # a step failed; last_error says how


FINAL_STATUSES = frozenset({SessionStatus.STOPPED, SessionStatus.DONE, SessionStatus.ERROR})
#: nothing can be asked of them any more
ENDED_FOR_GOOD = (SessionStatus.STOPPED, SessionStatus.DONE)
_AFTER_ERROR = frozenset({ActionKind.RESUME, ActionKind.DESTROY})


def refusal(session_id: str, status: SessionStatus, kind: ActionKind) -> str | None:
    """Why an action cannot be asked of a session in `status`; None when it can. The one rule for web and worker."""
    if status not in FINAL_STATUSES:
        return None
    if status is SessionStatus.ERROR:
        if kind in _AFTER_ERROR:
            return None
        return f"session {session_id!r} failed; resume it to try its step again, or destroy it"
    return f"session {session_id!r} is {status.value} and cannot be changed; create a new one"


@dataclass(frozen=True, slots=True)
class AgentState:
    """A session's row."""

    agent_id: AgentId
    session_id: SessionId
    conversation_id: ConversationId | None
    moniker: str
    status: SessionStatus
    reason: str | None
    #: the last stored step; -1 before the first
    iteration: int
    step_token: str | None
    next_step_token: str
    result: Any
    #: the moniker's state after the last step
    context: Any
    #: {"guidance": [{"action_id", "guidance"}] accepted and not yet read by a step, "turn": the input being handled,
    #: "wait": what the last step asked to wait for, "state": where the chain of its states stands}
    inbox: Any
    #: what it was created with: action_id, task, config, stop_on_done, max_steps, max_runtime_s, delivery
    spec: Any
    last_error: str | None
    usage: Any
    wake_at: datetime | None
    owner: str | None
    epoch: int
    created_at: datetime
    updated_at: datetime
    #: which lane of work it belongs to (store/lanes.py)
    lane: str = ""

    @property
    def place(self) -> LaneId:
        """The lane that it belongs to, also when nobody wrote it down."""
        return LaneId(self.lane) if self.lane else lane_of(self.moniker, self.session_id)

    @property
    def ended(self) -> bool:
        """Whether it does nothing more by itself (after an error it can be resumed)."""
        return self.status in FINAL_STATUSES


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Which sessions to list; None means any."""

    status: SessionStatus | None = None
    agent_id: AgentId | None = None
    conversation_id: ConversationId | None = None
    moniker: str | None = None


CODEC: RowCodec[AgentState] = RowCodec(
    AgentState,
    AGENT_STATE,
    json=frozenset({"result", "context", "inbox", "spec", "usage"}),
    enums={"status": SessionStatus},
)

#: a list leaves out what can be large
LIST_COLUMNS = tuple(name for name in AGENT_STATE.schema.names if name not in {"context", "inbox", "tenant"})


def states_of(db: TenantStore) -> ScopedTable[AgentState]:
    """This tenant's sessions."""
    return db.table(CODEC)


async def upsert_agent_state(db: TenantStore, states: Iterable[AgentState]) -> None:
    """Store the rows of some sessions, each in place of its older row; one commit for all."""
    await states_of(db).upsert_all(states)


async def get_agent_state(
    db: TenantStore, *, session_id: SessionId | None = None, agent_id: AgentId | None = None
) -> AgentState:
    """A session's row, or the latest session's of an agent; raises `NotFoundError`."""
    found = await find_agent_state(db, session_id=session_id, agent_id=agent_id)
    if found is None:
        raise NotFoundError("session" if session_id else "agent", session_id or agent_id or "")
    return found


async def find_agent_state(
    db: TenantStore, *, session_id: SessionId | None = None, agent_id: AgentId | None = None
) -> AgentState | None:
    """Like `get_agent_state`, with None for a session that is not there."""
    conditions = [
        filters.equals("session_id", session_id) if session_id is not None else None,
        filters.equals("agent_id", agent_id) if agent_id is not None else None,
    ]
    return await states_of(db).first(*conditions, order=[("created_at", True), ("session_id", True)])


async def get_agent_states(db: TenantStore, session_ids: Iterable[SessionId]) -> dict[SessionId, AgentState]:
    """The rows of several sessions in few reads; ids that are not there are left out."""
    wanted = list(dict.fromkeys(session_ids))
    found: dict[SessionId, AgentState] = {}
    for start in range(0, len(wanted), _MAX_NAMED):
        condition = filters.one_of("session_id", wanted[start : start + _MAX_NAMED])
        found.update({state.session_id: state for state in await states_of(db).find(condition)})
    return found


async def list_sessions(
    db: TenantStore, wanted: SessionFilter, *, limit: int = 100, cursor: str | None = None
) -> Page[AgentState]:
    """Sessions, newest first, without their context and inbox."""
    size = paging.checked_limit(limit)
    found = await states_of(db).find(
        *_conditions(wanted),
        _after(cursor),
        order=[("created_at", True), ("session_id", True)],
        limit=size + 1,
        columns=LIST_COLUMNS,
    )
    last = found[size - 1] if len(found) > size else None
    following = None if last is None else paging.encode_cursor((last.created_at, last.session_id))
    return Page(tuple(found[:size]), following)


async def list_sessions_for_agent(
    db: TenantStore, agent_id: AgentId, *, limit: int = 100, cursor: str | None = None
) -> Page[AgentState]:
    """The sessions of one agent, newest first."""
    return await list_sessions(db, SessionFilter(agent_id=agent_id), limit=limit, cursor=cursor)


async def list_states_in(db: TenantStore, statuses: Sequence[SessionStatus]) -> list[AgentState]:
    """Every session in one of `statuses`, whole: what a starting worker carries on."""
    return await states_of(db).find(filters.one_of("status", statuses))


async def own_sessions(db: TenantStore, lanes: Collection[LaneId], owner: str, epoch: int) -> None:
    """Answer for the live sessions of `lanes` from now on: rows of an earlier owner are no longer taken."""
    of_lanes = filters.one_of("lane", lanes) & filters.below("epoch", epoch)
    await states_of(db).change_if(of_lanes & ~filters.one_of("status", ENDED_FOR_GOOD), owner=owner, epoch=epoch)


async def list_sleeping(db: TenantStore) -> list[AgentState]:
    """The waiting sessions that a moment will wake: their ids, lanes and moments."""
    waiting = filters.equals("status", SessionStatus.WAITING)
    found = await states_of(db).find(waiting, columns=["session_id", "lane", "wake_at"])
    return [state for state in found if state.wake_at is not None]


async def count_sessions(db: TenantStore) -> dict[SessionStatus, int]:
    """How many sessions there are in each status."""
    counted = pc.value_counts(await states_of(db).values("status")).to_pylist()
    found = {SessionStatus(entry["values"]): int(entry["counts"]) for entry in counted}
    return {status: found.get(status, 0) for status in SessionStatus}


def _conditions(wanted: SessionFilter) -> list[Expr]:
    values = {
        "status": wanted.status,
        "agent_id": wanted.agent_id,
        "conversation_id": wanted.conversation_id,
        "moniker": wanted.moniker,
    }
    return [filters.equals(name, value) for name, value in values.items() if value is not None]


def _after(cursor: str | None) -> Expr | None:
    if cursor is None:
        return None
    created_at, session_id = paging.decode_cursor(cursor, (datetime, str))
    return filters.beyond(("created_at", "session_id"), (created_at, session_id), descending=True)
