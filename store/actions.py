"""The queue: what somebody wants done, a row before it happens, and the questions that are put to it.

`created ── pending ──(long work: claimed)──▶ done | failed | dead`; a `failed` or `dead` row can be requeued.
`failed`: the action could not be carried out as asked. `dead`: it broke its handler until its tries were used up;
between two tries its row is `pending` again, with the tries so far, the last error and the moment of the next one.
Rows get in by store/enqueueing.py, go on and end by store/marks.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import pyarrow.compute as pc

from store import filters, paging
from store.codec import RowCodec
from store.database import TenantStore
from store.errors import NotFoundError
from store.ids import ActionId, AgentId, ConversationId, SessionId
from store.lanes import LaneId, general_lane
from store.paging import Page
from store.schema import QUEUE
from store.scope import ScopedTable, Versioned


class ActionKind(StrEnum):
    """What is asked for."""

    CREATE = "agent_create"  # start a session
    INPUT = "agent_input"  # say something to a session: a turn
    INTERRUPT = "agent_interrupt"  # guide a session at its next step
    PAUSE = "agent_pause"  # stop after the running step
    RESUME = "agent_resume"  # go on after a pause
    DESTROY = "agent_destroy"  # end a session
    FORK = "agent_fork"  # start a session from a step of another
    APPROVAL = "approval"  # answer a session's question
    CANCEL = "cancel"  # take back an action that nobody has begun
    UNKNOWN = "unknown"  # stored by a newer version; left for it


class WhenBusy(StrEnum):
    """What an input does to a session whose turn is running, or that has inputs waiting."""

    ENQUEUE = "enqueue"  # waits until the others are done
    INTERRUPT = "interrupt"  # the running turn's next step reads it as guidance
    REJECT = "reject"  # fails
    ROLLBACK = "rollback"  # the running turn is taken back and this one begins in its place


class ApprovalDecision(StrEnum):
    """What a person answers; store/answers.py says which of it to which question."""

    REPEAT = "repeat"  # of a call that may have been made: make it (again)
    DONE = "done"  # it was made; its result is given
    FAIL = "fail"  # give up: the step fails
    APPROVE = "approve"  # yes
    REJECT = "reject"  # no
    EDIT = "edit"  # yes, but with what was changed
    RETRY = "retry"  # not so; the feedback says what to do better


class ActionStatus(StrEnum):
    """How far it is."""

    PENDING = "pending"  # waits for the worker or its session
    CLAIMED = "claimed"  # a worker has been at it for a while
    DONE = "done"  # its effect is stored
    FAILED = "failed"  # it could not be carried out as asked; the error says why
    DEAD = "dead"  # it broke its handler; kept for a person to look at


OPEN_STATUSES = (ActionStatus.PENDING, ActionStatus.CLAIMED)
#: these begin a session: their session_id is its id, their payload its spec
CREATING_KINDS = (ActionKind.CREATE, ActionKind.FORK)
CONTROL_KINDS = frozenset({ActionKind.PAUSE, ActionKind.RESUME, ActionKind.DESTROY, ActionKind.CANCEL})

DEFAULT_URGENCY = 0
LOWEST_URGENCY, HIGHEST_URGENCY = -100, 100


@dataclass(frozen=True, slots=True)
class Action:
    """A row of the queue."""

    id: ActionId
    created_at: datetime
    not_before: datetime | None
    kind: ActionKind
    urgency: int
    agent_id: AgentId | None
    session_id: SessionId | None
    conversation_id: ConversationId | None
    payload: Any
    metadata: Any
    idempotency_key: str | None
    status: ActionStatus
    attempts: int
    processed: bool
    processed_at: datetime | None
    error: str | None
    owner: str | None
    #: which lane of work it belongs to (store/lanes.py); empty while nobody has looked
    lane: str = ""
    #: the highest ownership that has answered for it; a mark of a lower one is not taken
    epoch: int = 0

    def log_context(self) -> dict[str, object]:
        """The ids that a log line about this action carries."""
        return {"action_id": self.id, "kind": self.kind.value, "session_id": self.session_id}


@dataclass(frozen=True, slots=True)
class ActionFilter:
    """Which actions to list; None means any."""

    status: ActionStatus | None = None
    kind: ActionKind | None = None
    session_id: SessionId | None = None
    agent_id: AgentId | None = None


CODEC: RowCodec[Action] = RowCodec(
    Action, QUEUE, json=frozenset({"payload", "metadata"}), enums={"kind": ActionKind, "status": ActionStatus}
)


def queue_of(db: TenantStore) -> ScopedTable[Action]:
    """This tenant's queue."""
    return db.table(CODEC)


def place_of(action: Action) -> LaneId:
    """The lane that an action belongs to, also when nobody wrote it down."""
    return LaneId(action.lane) if action.lane else general_lane(action.session_id or action.agent_id or "")


async def find_by_idempotency_key(db: TenantStore, key: str) -> Action | None:
    """The action that was stored first with `key`, by the order of commits, which no clock can change."""
    found = await queue_of(db).created_since(0, filters.equals("idempotency_key", key))
    return min(found, key=_stored_order).item if found else None


def _stored_order(row: Versioned[Action]) -> tuple[int, datetime, str]:
    return row.version, row.item.created_at, row.item.id


async def first_ids_by_key(db: TenantStore, keys: Sequence[str]) -> dict[str, ActionId]:
    """For each idempotency key, the action that was stored first with it."""
    found = await queue_of(db).created_since(
        0, filters.one_of("idempotency_key", keys), columns=["id", "created_at", "idempotency_key"]
    )
    first: dict[str, ActionId] = {}
    for row in sorted(found, key=_stored_order):
        first.setdefault(row.item.idempotency_key or "", row.item.id)
    return first


async def get_action(db: TenantStore, action_id: ActionId) -> Action:
    """One action; raises `NotFoundError`."""
    found = await queue_of(db).first(filters.equals("id", action_id))
    if found is None:
        raise NotFoundError("action", action_id)
    return found


async def find_create(db: TenantStore, session_id: SessionId) -> Action | None:
    """The action that creates, or created, a session: a create or a fork."""
    return await queue_of(db).first(
        filters.equals("session_id", session_id),
        filters.one_of("kind", CREATING_KINDS),
        order=[("created_at", False), ("id", False)],
    )


async def find_creates_of_agent(db: TenantStore, agent_id: AgentId) -> Action | None:
    """The newest create or fork of an agent."""
    return await queue_of(db).first(
        filters.equals("agent_id", agent_id),
        filters.one_of("kind", CREATING_KINDS),
        order=[("created_at", True), ("id", True)],
    )


async def list_actions(
    db: TenantStore, wanted: ActionFilter, *, limit: int = 100, cursor: str | None = None
) -> Page[Action]:
    """Actions, newest first."""
    size = paging.checked_limit(limit)
    found = await queue_of(db).find(
        *_conditions(wanted),
        _after(cursor),
        order=[("created_at", True), ("id", True)],
        limit=size + 1,
    )
    following = paging.encode_cursor((found[size - 1].created_at, found[size - 1].id)) if len(found) > size else None
    return Page(tuple(found[:size]), following)


def _conditions(wanted: ActionFilter) -> Iterable[Any]:
    values = {
        "status": wanted.status,
        "kind": wanted.kind,
        "session_id": wanted.session_id,
        "agent_id": wanted.agent_id,
    }
    return [filters.equals(name, value) for name, value in values.items() if value is not None]


def _after(cursor: str | None) -> Any:
    if cursor is None:
        return None
    created_at, action_id = paging.decode_cursor(cursor, (datetime, str))
    return filters.beyond(("created_at", "id"), (created_at, action_id), descending=True)


async def count_actions(db: TenantStore) -> dict[ActionStatus, int]:
    """How many actions there are in each status."""
    counted = pc.value_counts(await queue_of(db).values("status")).to_pylist()
    found = {ActionStatus(entry["values"]): int(entry["counts"]) for entry in counted}
    return {status: found.get(status, 0) for status in ActionStatus}


async def count_open_actions(db: TenantStore) -> int:
    """How many actions wait or are in hand."""
    return len(await queue_of(db).values("status", filters.one_of("status", OPEN_STATUSES)))


async def list_open_actions(db: TenantStore) -> list[Action]:
    """Every action that is not yet processed, oldest first: what a starting worker has before it."""
    found = await queue_of(db).find(filters.one_of("status", OPEN_STATUSES))
    return sorted(found, key=lambda action: (action.created_at, action.id))


async def list_open_actions_of_session(db: TenantStore, session_id: SessionId) -> list[Action]:
    """The session's actions that are not yet processed, oldest first."""
    found = await queue_of(db).find(filters.equals("session_id", session_id), filters.one_of("status", OPEN_STATUSES))
    return sorted(found, key=lambda action: (action.created_at, action.id))


async def find_open_inputs(db: TenantStore, session_id: SessionId) -> list[ActionId]:
    """The inputs of a session that have not ended: running or waiting."""
    found = await queue_of(db).values(
        "id",
        filters.equals("session_id", session_id),
        filters.equals("kind", ActionKind.INPUT),
        filters.one_of("status", OPEN_STATUSES),
    )
    return [ActionId(value) for value in found.to_pylist()]
