"""The journal: what every session did, step by step, append only.

A step is true when its row is committed. Its id is made of session and iteration, so a step that is written twice (an
answer was lost, a stale owner woke up) is still one step: readers show the first row of an id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from lancedb.expr import Expr

from store import filters, paging
from store.agent_state import states_of
from store.codec import RowCodec
from store.database import TenantStore
from store.errors import BadFilterError
from store.ids import ActionId, AgentId, SessionId, StepId, step_id
from store.paging import Order, Page
from store.schema import AGENT_STEPS
from store.scope import ScopedTable

_MAX_NAMED = 500
#: a session's row is at most this many steps behind; beyond that the journal is searched
_MAX_LAG = 200


class StepStatus(StrEnum):
    """What the session does after the step."""

    RUNNING = "running"  # goes on with the next step
    WAITING = "waiting"  # waits for an input, a moment or a person
    DONE = "done"  # the moniker is done
    ERROR = "error"  # the step failed


@dataclass(frozen=True, slots=True)
class AgentStep:
    """A row of the journal."""

    id: StepId
    created_at: datetime
    agent_id: AgentId
    session_id: SessionId
    #: the action that this step answers, or the last one that it read
    action_id: ActionId | None
    iteration: int
    step_token: str
    next_step_token: str
    status: StepStatus
    text: str | None
    data: Any
    state: Any
    #: what the step read: {"guidance", "inputs", "turn", "pulled_to"}, as far as there was any
    guidance: Any
    notes: str | None
    #: what the moniker asked to wait for
    wait: Any
    latency_ms: float
    error: str | None
    #: the session's totals up to and with this step
    usage: Any
    epoch: int


@dataclass(frozen=True, slots=True)
class StepFilter:
    """Which steps to list; None means any."""

    session_id: SessionId | None = None
    agent_id: AgentId | None = None
    min_iteration: int | None = None
    max_iteration: int | None = None
    after_iteration: int | None = None
    since_created_at: datetime | None = None
    status: StepStatus | None = None


CODEC: RowCodec[AgentStep] = RowCodec(
    AgentStep, AGENT_STEPS, json=frozenset({"data", "state", "guidance", "wait", "usage"}), enums={"status": StepStatus}
)


def journal_of(db: TenantStore, session_id: SessionId | None = None) -> ScopedTable[AgentStep]:
    """The journal table that holds a session's steps; the one place to split it by shard later."""
    return db.table(CODEC)


async def append_agent_step(db: TenantStore, step: AgentStep) -> int:
    """Commit a step, together with those of other sessions; returns the journal version that holds it."""
    return await journal_of(db, step.session_id).append(step)


async def list_agent_steps(
    db: TenantStore,
    wanted: StepFilter,
    *,
    order: Order = "asc",
    limit: int = 100,
    offset: int = 0,
    cursor: str | None = None,
) -> Page[AgentStep]:
    """Steps by iteration within a session, else by time. Give `cursor` or `offset`, not both."""
    size = paging.checked_limit(limit)
    if offset < 0 or (offset and cursor):
        raise BadFilterError(f"offset {offset} cannot be used; give 0 or more, and no cursor with it")
    if order == "desc" and not offset and (page := await _addressed(db, wanted, size, cursor)) is not None:
        return page
    descending = order == "desc"
    sort = _sort_of(wanted)
    found = await journal_of(db, wanted.session_id).find(
        *_conditions(wanted),
        _after(cursor, sort, descending=descending),
        order=[(column, descending) for column in sort],
        limit=size + 1,
        offset=offset,
    )
    last = found[size - 1] if len(found) > size else None
    following = None if last is None else paging.encode_cursor([getattr(last, column) for column in sort])
    return Page(tuple(_once(found[:size])), following)


async def _addressed(db: TenantStore, wanted: StepFilter, size: int, cursor: str | None) -> Page[AgentStep] | None:
    """A session's newest steps by their ids; None when they have to be searched for.

    The steps of a session are numbered without a gap, so the ids of a page are known and found in milliseconds
    however many steps there are. The session's row may lag behind the journal, so some ids beyond it are asked for.
    """
    if wanted.session_id is None or wanted != StepFilter(wanted.session_id, max_iteration=wanted.max_iteration):
        return None
    ahead = 0
    if cursor is not None:
        top = paging.decode_cursor(cursor, (int, str))[0] - 1
    elif (known := await _last_iteration(db, wanted.session_id)) is not None:
        top, ahead = known, _MAX_LAG
    else:
        return None
    if wanted.max_iteration is not None:
        top, ahead = min(top, wanted.max_iteration), max(0, min(ahead, wanted.max_iteration - top))
    return await _newest_by_id(db, wanted.session_id, top, ahead, size)


async def _newest_by_id(
    db: TenantStore, session_id: SessionId, top: int, ahead: int, size: int
) -> Page[AgentStep] | None:
    ids = [step_id(session_id, iteration) for iteration in range(max(0, top - size), top + ahead + 1)]
    found = await journal_of(db, session_id).find(filters.one_of("id", ids)) if ids else []
    steps = sorted(_once(found), key=lambda step: step.iteration, reverse=True)
    if ahead and steps and steps[0].iteration == top + ahead:
        return None
    following = paging.encode_cursor((steps[size - 1].iteration, steps[size - 1].id)) if len(steps) > size else None
    return Page(tuple(steps[:size]), following)


async def _last_iteration(db: TenantStore, session_id: SessionId) -> int | None:
    found = await states_of(db).find(filters.equals("session_id", session_id), columns=["iteration"])
    return found[0].iteration if found else None


async def list_agent_steps_since_iteration(
    db: TenantStore, session_id: SessionId, after_iteration: int, *, limit: int = 100
) -> list[AgentStep]:
    """The session's steps after an iteration, in order."""
    wanted = StepFilter(session_id=session_id, after_iteration=after_iteration)
    return list((await list_agent_steps(db, wanted, limit=limit)).items)


async def list_agent_steps_latest(
    db: TenantStore, *, session_id: SessionId | None = None, agent_id: AgentId | None = None, limit: int = 20
) -> list[AgentStep]:
    """The newest steps of a session or an agent, newest first."""
    if session_id is None and agent_id is None:
        raise BadFilterError("the latest steps need a session_id or an agent_id")
    wanted = StepFilter(session_id=session_id, agent_id=agent_id)
    return list((await list_agent_steps(db, wanted, order="desc", limit=limit)).items)


async def find_step(db: TenantStore, session_id: SessionId, iteration: int) -> AgentStep | None:
    """One step, if it is stored."""
    return await journal_of(db, session_id).first(filters.equals("id", step_id(session_id, iteration)))


async def list_steps_since_version(db: TenantStore, version: int) -> list[AgentStep]:
    """Steps committed after a journal version, by session and iteration: what projections may still lack."""
    rows = await journal_of(db).created_since(version)
    return sorted(_once(row.item for row in rows), key=lambda step: (step.session_id, step.iteration))


async def answered_actions(db: TenantStore, action_ids: Sequence[ActionId]) -> set[ActionId]:
    """Those of the actions that a stored step answers: they were read, whatever the queue says.

    A failed step answers nothing: an action that is tried again after it is handled again.
    """
    found: set[ActionId] = set()
    succeeded = filters.differs("status", StepStatus.ERROR)
    for start in range(0, len(action_ids), _MAX_NAMED):
        named = filters.one_of("action_id", action_ids[start : start + _MAX_NAMED])
        found.update((await journal_of(db).values("action_id", named, succeeded)).to_pylist())
    return found


def _once(steps: Iterable[AgentStep]) -> list[AgentStep]:
    seen: dict[StepId, AgentStep] = {}
    for step in steps:
        seen.setdefault(step.id, step)
    return list(seen.values())


def _sort_of(wanted: StepFilter) -> tuple[str, str]:
    return ("iteration", "id") if wanted.session_id is not None else ("created_at", "id")


def _conditions(wanted: StepFilter) -> list[Expr]:
    checks: list[tuple[Any, Callable[[Any], Expr]]] = [
        (wanted.session_id, lambda value: filters.equals("session_id", value)),
        (wanted.agent_id, lambda value: filters.equals("agent_id", value)),
        (wanted.min_iteration, lambda value: filters.at_least("iteration", value)),
        (wanted.max_iteration, lambda value: filters.at_most("iteration", value)),
        (wanted.after_iteration, lambda value: filters.above("iteration", value)),
        (wanted.since_created_at, lambda value: filters.at_least("created_at", value)),
        (wanted.status, lambda value: filters.equals("status", value)),
    ]
    return [build(value) for value, build in checks if value is not None]


def _after(cursor: str | None, sort: tuple[str, str], *, descending: bool) -> Expr | None:
    if cursor is None:
        return None
    kinds = (int, str) if sort[0] == "iteration" else (datetime, str)
    values = paging.decode_cursor(cursor, kinds)
    return filters.beyond(sort, (values[0], values[1]), descending=descending)
