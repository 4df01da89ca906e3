"""The journal: what every session did, step by step, append only.

A step is true when its row is committed. Its id is made of session and iteration, so a step that is written twice (an
answer was lost, a stale owner woke up) is still one step: readers show the first row of an id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from itertools import repeat
from typing import Any

from lancedb.expr import Expr

from store import filters, paging
from store.agent_state import states_of
from store.codec import RowCodec
from store.database import TenantStore
from store.errors import BadFilterError, BadRowError, NotFoundError
from store.fences import FENCE_ITERATION, Fences, fence_session
from store.ids import MAIN_TENANT, ActionId, AgentId, SessionId, StepId, step_id
from store.lanes import LaneId
from store.paging import Order, Page
from store.sameversion import SameVersion
from store.schema import AGENT_STEPS
from store.scope import ScopedTable, Versioned
from store.stepstates import Place, is_changes, with_states

_MAX_NAMED = 500
#: a session's row is mostly less than this many steps behind, and hardly ever this many; beyond that it is searched for
_LAGS = (12, 200)
#: pages of newest steps that are remembered, and the characters that one may have
_REMEMBERED = 64
_HEAVIEST = 200_000
#: a chain of changes is at most this many rows: one read for a page of one session
_MAX_PLACES = 2_000
_STATE_COLUMNS = ("id", "session_id", "iteration", "state", "changes", "base", "lane", "epoch")


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
    #: the moniker's state after the step
    state: Any
    #: what the step read: {"guidance", "inputs", "turn", "pulled_to"}, as far as there was any; with "again" the next
    #: step reads it once more; a rollback has {"rolled_back", "turn_taken_back", "by", "result"} instead
    guidance: Any
    notes: str | None
    #: what the moniker asked to wait for
    wait: Any
    latency_ms: float
    error: str | None
    #: the session's totals up to and with this step
    usage: Any
    epoch: int
    lane: str = ""
    #: how `state` differs from the step before, where that is shorter; such a row is stored without its `state`
    changes: Any = None
    #: the iteration whose row holds the whole state that the changes begin at
    base: int | None = None


def is_rollback(step: AgentStep) -> bool:
    """Whether the step takes a turn back instead of taking one on."""
    return isinstance(step.guidance, dict) and "rolled_back" in step.guidance


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
    AgentStep,
    AGENT_STEPS,
    json=frozenset({"data", "state", "guidance", "wait", "usage", "changes"}),
    enums={"status": StepStatus},
)
_ENCODER = CODEC.encoder()


def journal_of(db: TenantStore, session_id: SessionId | None = None) -> ScopedTable[AgentStep]:
    """The journal table that holds a session's steps; the one place to split it by shard later."""
    return db.table(CODEC)


def fences_of(db: TenantStore) -> Fences:
    """The fences of this tenant's journal."""
    return db.view("fences", lambda: Fences(db, journal_of(db)))


async def shown_steps(db: TenantStore, rows: Sequence[Versioned[AgentStep]]) -> list[Versioned[AgentStep]]:
    """The steps among some rows of the journal, without fences and without rows that came too late."""
    return await fences_of(db).shown(rows)


async def raise_fences(db: TenantStore, lanes: Iterable[LaneId], epoch: int) -> int:
    """Append a fence of `epoch` for each lane; returns the journal version from which older epochs are not shown."""
    now = db.clock.now()
    return await journal_of(db).append_all([_fence(lane, epoch, now) for lane in lanes])


def _fence(lane: LaneId, epoch: int, now: datetime) -> AgentStep:
    session_id = fence_session(lane)
    return AgentStep(
        id=StepId(f"{session_id}:{epoch}"),
        created_at=now,
        agent_id=AgentId(""),
        session_id=session_id,
        action_id=None,
        iteration=FENCE_ITERATION,
        step_token="",
        next_step_token="",
        status=StepStatus.RUNNING,
        text=None,
        data=None,
        state=None,
        guidance=None,
        notes=None,
        wait=None,
        latency_ms=0.0,
        error=None,
        usage=None,
        epoch=epoch,
        lane=lane,
    )


async def append_agent_step(db: TenantStore, step: AgentStep) -> int:
    """Commit a step, together with those of other sessions; returns the journal version that holds it."""
    return await journal_of(db, step.session_id).append(as_stored(step))


def as_stored(step: AgentStep) -> AgentStep:
    """The step as its row holds it: its changes, where it has them, stand for its state."""
    return step if step.base is None else replace(step, state=None)


async def whole_steps(db: TenantStore, steps: Sequence[AgentStep]) -> list[AgentStep]:
    """Steps as they were read from the journal, with their states whole: at most one more read for all of them.

    A state is None where a row that it is rebuilt from is gone or damaged.
    """
    return await with_states(steps, partial(_read_places, db))


async def _read_places(db: TenantStore, places: Sequence[Place]) -> list[AgentStep]:
    ids = [step_id(session_id, iteration) for session_id, iteration in places]
    return await find_steps(db, ids, _STATE_COLUMNS)


async def find_steps(db: TenantStore, ids: Sequence[StepId], columns: Sequence[str]) -> list[AgentStep]:
    """Those of the steps that are stored, each once, with some of their columns (`id`, `iteration`, `lane` and `epoch`
    among them); the others are None. States are as their rows hold them.
    """
    found: list[AgentStep] = []
    for start in range(0, len(ids), _MAX_PLACES):
        named = filters.one_of("id", ids[start : start + _MAX_PLACES])
        rows = await journal_of(db).find_versioned(named, columns=columns)
        found += _once(await shown_steps(db, rows))
    return found


async def state_at(db: TenantStore, session_id: SessionId, iteration: int) -> Any:
    """The state that a session had after a step.

    Raises `NotFoundError` for a step that is not stored and `BadRowError` when the rows that its state is rebuilt from
    are gone or damaged.
    """
    step = await find_step(db, session_id, iteration)
    if step is None:
        raise NotFoundError("step", step_id(session_id, iteration))
    if is_changes(step):
        raise BadRowError(
            f"the state of step {step.id!r} cannot be rebuilt: it begins at iteration {step.base}, and a row from "
            "there on is gone or damaged"
        )
    return step.state


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
    if order == "desc" and cursor is None and wanted == StepFilter(wanted.session_id):
        read = partial(_listed, db, wanted, order, size, offset, cursor)
        return await _newest_pages_of(db).get((wanted.session_id, size, offset), read)
    return await _listed(db, wanted, order, size, offset, cursor)


def _newest_pages_of(db: TenantStore) -> SameVersion[Page[AgentStep]]:
    """The newest pages that were read last. What a page shows depends on the journal alone."""
    return db.view(
        "newest steps",
        lambda: SameVersion(journal_of(db).version, _characters, most=_REMEMBERED, heaviest=_HEAVIEST),
    )


def _characters(page: Page[AgentStep]) -> int:
    rows = map(_ENCODER.encode, page.items, repeat(MAIN_TENANT))
    return sum(len(value) for row in rows for value in row if isinstance(value, str))


async def _listed(
    db: TenantStore, wanted: StepFilter, order: Order, size: int, offset: int, cursor: str | None
) -> Page[AgentStep]:
    if order == "desc" and not offset and (page := await _addressed(db, wanted, size, cursor)) is not None:
        return replace(page, items=tuple(await whole_steps(db, page.items)))
    page = await _searched(db, wanted, order, size, offset, cursor)
    while not page.items and page.next_cursor is not None:  # every row of it came too late, or was a fence
        page = await _searched(db, wanted, order, size, 0, page.next_cursor)
    return replace(page, items=tuple(await whole_steps(db, page.items)))


async def _searched(
    db: TenantStore, wanted: StepFilter, order: Order, size: int, offset: int, cursor: str | None
) -> Page[AgentStep]:
    """What is shown of `size` rows of the journal. Rows of one id are taken together: one of them may be shown."""
    descending, sort = order == "desc", _sort_of(wanted)
    journal = journal_of(db, wanted.session_id)
    found = await journal.find_versioned(
        *_conditions(wanted),
        _after(cursor, sort, descending=descending),
        order=[(column, descending) for column in sort],
        limit=size + 1,
        offset=offset,
    )
    page, following = found[:size], None
    if len(found) > size:
        last = page[-1].item
        following = paging.encode_cursor([getattr(last, column) for column in sort])
        if found[size].item.id == last.id:
            page += await journal.find_versioned(filters.equals("id", last.id))
    return Page(tuple(_once(await shown_steps(db, page))), following)


async def _addressed(db: TenantStore, wanted: StepFilter, size: int, cursor: str | None) -> Page[AgentStep] | None:
    """A session's newest steps by their ids; None when they have to be searched for.

    The steps of a session are numbered without a gap, so the ids of a page are known and found in milliseconds
    however many steps there are. The session's row may lag behind the journal, so some ids beyond it are asked for.
    """
    if wanted.session_id is None or wanted != StepFilter(wanted.session_id, max_iteration=wanted.max_iteration):
        return None
    if cursor is not None:
        top = paging.decode_cursor(cursor, (int, str))[0] - 1
        return await _newest_by_id(db, wanted.session_id, _at_most(top, wanted), 0, size)
    known = await _last_iteration(db, wanted.session_id)
    if known is None:
        return None
    for lag in _LAGS:
        ahead = lag if wanted.max_iteration is None else max(0, min(lag, wanted.max_iteration - known))
        page = await _newest_by_id(db, wanted.session_id, _at_most(known, wanted), ahead, size)
        if page is not None:
            return page
    return None


def _at_most(top: int, wanted: StepFilter) -> int:
    return top if wanted.max_iteration is None else min(top, wanted.max_iteration)


async def _newest_by_id(
    db: TenantStore, session_id: SessionId, top: int, ahead: int, size: int
) -> Page[AgentStep] | None:
    ids = [step_id(session_id, iteration) for iteration in range(max(0, top - size), top + ahead + 1)]
    found = await journal_of(db, session_id).find_versioned(filters.one_of("id", ids)) if ids else []
    steps = sorted(_once(await shown_steps(db, found)), key=lambda step: step.iteration, reverse=True)
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
    rows = await journal_of(db, session_id).find_versioned(filters.equals("id", step_id(session_id, iteration)))
    found = _once(await shown_steps(db, rows))
    return (await whole_steps(db, found))[0] if found else None


async def steps_by_id(db: TenantStore, ids: Sequence[str], *, columns: Sequence[str]) -> list[AgentStep]:
    """Some columns of the steps with these ids, as far as they are shown; states are not made whole."""
    if not ids:
        return []
    wanted = list(dict.fromkeys([*columns, "id", "iteration", "lane", "epoch"]))
    rows = await journal_of(db).find_versioned(filters.one_of("id", ids), columns=wanted)
    return _once(await shown_steps(db, rows))


async def list_steps_since_version(db: TenantStore, version: int) -> list[AgentStep]:
    """Steps committed after a journal version, by session and iteration: what projections may still lack.

    They are as their rows hold them: changes are not made whole.
    """
    rows = await shown_steps(db, await journal_of(db).created_since(version))
    return sorted(_once(rows), key=lambda step: (step.session_id, step.iteration))


async def answered_actions(db: TenantStore, action_ids: Sequence[ActionId]) -> set[ActionId]:
    """Those of the actions that a stored step answers: they were read, whatever the queue says.

    A failed step answers nothing: an action that is tried again after it is handled again.
    """
    found: set[ActionId] = set()
    succeeded = filters.differs("status", StepStatus.ERROR)
    for start in range(0, len(action_ids), _MAX_NAMED):
        named = filters.one_of("action_id", action_ids[start : start + _MAX_NAMED])
        rows = await journal_of(db).find_versioned(
            named, succeeded, columns=["action_id", "iteration", "lane", "epoch"]
        )
        found.update(row.item.action_id for row in await shown_steps(db, rows) if row.item.action_id is not None)
    return found


def _once(rows: Iterable[Versioned[AgentStep]]) -> list[AgentStep]:
    """Each step once, as it was committed first; in the order of `rows`."""
    first: dict[StepId, Versioned[AgentStep]] = {}
    for row in rows:
        known = first.get(row.item.id)
        if known is None or row.version < known.version:
            first[row.item.id] = row
    return [row.item for row in first.values()]


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
    given = [build(value) for value, build in checks if value is not None]
    # Fences are no steps. They have no session's id and no agent's, so only a list over everything could meet them.
    of_all = wanted.session_id is None and wanted.agent_id is None
    return [*given, filters.above("iteration", FENCE_ITERATION)] if of_all else given


def _after(cursor: str | None, sort: tuple[str, str], *, descending: bool) -> Expr | None:
    if cursor is None:
        return None
    kinds = (int, str) if sort[0] == "iteration" else (datetime, str)
    values = paging.decode_cursor(cursor, kinds)
    return filters.beyond(sort, (values[0], values[1]), descending=descending)
