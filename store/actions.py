"""The queue: what somebody wants done, a row before it happens.

`created ── pending ──(long work: claimed)──▶ done | failed | dead`; a `failed` or `dead` row can be requeued.
`failed`: the action could not be carried out as asked. `dead`: it broke the handler, or its tries are used up.
Crash before the append: nothing was accepted. After: it is done, or tried again when the worker is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import pyarrow.compute as pc

from store import filters, paging
from store.codec import RowCodec
from store.database import TenantStore
from store.errors import BadFilterError, ConflictError, NotFoundError
from store.ids import ActionId, AgentId, ConversationId, SessionId
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
    UNKNOWN = "unknown"  # stored by a newer version; left for it


class ActionStatus(StrEnum):
    """How far it is."""

    PENDING = "pending"  # waits for the worker or its session
    CLAIMED = "claimed"  # a worker has been at it for a while
    DONE = "done"  # its effect is stored
    FAILED = "failed"  # it could not be carried out as asked; the error says why
    DEAD = "dead"  # it broke its handler; kept for a person to look at


OPEN_STATUSES = (ActionStatus.PENDING, ActionStatus.CLAIMED)
REQUEUEABLE = (ActionStatus.FAILED, ActionStatus.DEAD)
CONTROL_KINDS = frozenset({ActionKind.PAUSE, ActionKind.RESUME, ActionKind.DESTROY})

DEFAULT_URGENCY = 0


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

    def log_context(self) -> dict[str, object]:
        """The ids that a log line about this action carries."""
        return {"action_id": self.id, "kind": self.kind.value, "session_id": self.session_id}


@dataclass(frozen=True, slots=True)
class NewAction:
    """An action to be enqueued."""

    kind: ActionKind
    agent_id: AgentId | None = None
    session_id: SessionId | None = None
    conversation_id: ConversationId | None = None
    payload: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] | None = None
    idempotency_key: str | None = None
    urgency: int = DEFAULT_URGENCY
    not_before: datetime | None = None


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


async def enqueue(db: TenantStore, new: NewAction) -> Action:
    """Store one action; when this returns it will be carried out. The same idempotency key gives the first one back.

    Callers that use one new key in the same instant may both store a row; both are given the one that was committed
    first, which the worker carries out, and the other is marked as its duplicate. Raises `ConflictError` for a key
    that belongs to another kind of request.
    """
    key = new.idempotency_key
    if key is not None and (earlier := await _first_with_key(db, key, new.kind)) is not None:
        return earlier
    action = _action(db, new)
    await queue_of(db).append(action)
    if key is None:
        return action
    return await _first_with_key(db, key, new.kind) or action


async def _first_with_key(db: TenantStore, key: str, kind: ActionKind) -> Action | None:
    first = await find_by_idempotency_key(db, key)
    if first is not None and first.kind is not kind:
        raise ConflictError(
            f"idempotency_key {key!r} belongs to the {first.kind.value} action {first.id!r}; "
            f"use another one for {kind.value}"
        )
    return first


async def enqueue_all(db: TenantStore, new: Sequence[NewAction]) -> list[Action]:
    """Store several actions, in one commit where that is possible."""
    return list(await asyncio.gather(*[enqueue(db, item) for item in new]))


def _action(db: TenantStore, new: NewAction) -> Action:
    return Action(
        id=ActionId(db.ids.new()),
        created_at=db.clock.now(),
        not_before=new.not_before,
        kind=new.kind,
        urgency=new.urgency,
        agent_id=new.agent_id,
        session_id=new.session_id,
        conversation_id=new.conversation_id,
        payload=dict(new.payload or {}),
        metadata=dict(new.metadata or {}),
        idempotency_key=new.idempotency_key,
        status=ActionStatus.PENDING,
        attempts=0,
        processed=False,
        processed_at=None,
        error=None,
        owner=None,
    )


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
    """The action that creates, or created, a session."""
    return await queue_of(db).first(
        filters.equals("session_id", session_id),
        filters.equals("kind", ActionKind.CREATE),
        order=[("created_at", False), ("id", False)],
    )


async def find_creates_of_agent(db: TenantStore, agent_id: AgentId) -> Action | None:
    """The newest create of an agent."""
    return await queue_of(db).first(
        filters.equals("agent_id", agent_id),
        filters.equals("kind", ActionKind.CREATE),
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


async def list_open_actions(db: TenantStore) -> list[Action]:
    """Every action that is not yet processed, oldest first: what a starting worker has before it."""
    found = await queue_of(db).find(filters.one_of("status", OPEN_STATUSES))
    return sorted(found, key=lambda action: (action.created_at, action.id))


async def mark_action_processed_async(
    db: TenantStore,
    action_id: ActionId,
    *,
    status: ActionStatus = ActionStatus.DONE,
    error: str | None = None,
    attempts: int = 1,
    owner: str | None = None,
) -> None:
    """Mark an action as processed; many marks share one commit. Returns when it is stored.

    Crash before: the action is tried again when a worker is back; handlers are made for that.
    """
    await _mark(db, action_id, status=status, attempts=attempts, error=error, owner=owner)


async def mark_action_claimed(db: TenantStore, action_id: ActionId, *, attempts: int, owner: str) -> None:
    """Say in the queue that a worker is at it. For people: ownership does not rest on it."""
    await _mark(db, action_id, status=ActionStatus.CLAIMED, attempts=attempts, error=None, owner=owner)


def _mark(
    db: TenantStore, action_id: ActionId, *, status: ActionStatus, attempts: int, error: str | None, owner: str | None
) -> asyncio.Future[int]:
    # Every mark names the same columns: of two marks in one group commit the later one wins.
    processed = status not in OPEN_STATUSES
    return queue_of(db).change(
        (action_id,),
        status=status,
        attempts=attempts,
        processed=processed,
        processed_at=db.clock.now() if processed else None,
        error=error,
        owner=owner,
    )


async def requeue_action(db: TenantStore, action_id: ActionId) -> Action:
    """Give a failed or dead action another try.

    Raises `NotFoundError`, and `ConflictError` for an action in another status.
    """
    action = await get_action(db, action_id)
    if action.status not in REQUEUEABLE:
        raise ConflictError(f"action {action_id!r} is {action.status.value}; only failed and dead ones can be requeued")
    await _mark(db, action_id, status=ActionStatus.PENDING, attempts=0, error=None, owner=None)
    return await get_action(db, action_id)


async def list_open_actions_of_session(db: TenantStore, session_id: SessionId) -> list[Action]:
    """The session's actions that are not yet processed, oldest first."""
    found = await queue_of(db).find(filters.equals("session_id", session_id), filters.one_of("status", OPEN_STATUSES))
    return sorted(found, key=lambda action: (action.created_at, action.id))


async def agent_create(
    db: TenantStore,
    *,
    moniker: str,
    agent_id: AgentId | None = None,
    session_id: SessionId | None = None,
    conversation_id: ConversationId | None = None,
    spec: Mapping[str, Any],
    idempotency_key: str | None = None,
) -> Action:
    """Ask for a new session of `moniker`. `spec` is what `agent_state.spec` will hold (task, config, limits).

    Raises `ConflictError` when `session_id` is already in use; the same idempotency key gives the first action back.
    """
    if idempotency_key is not None and (earlier := await _first_with_key(db, idempotency_key, ActionKind.CREATE)):
        return earlier
    if session_id is not None and await find_create(db, session_id) is not None:
        raise ConflictError(f"session_id {session_id!r} is already in use; leave it out to get a new one")
    return await enqueue(
        db,
        NewAction(
            kind=ActionKind.CREATE,
            agent_id=agent_id or AgentId(moniker),
            session_id=session_id or SessionId(db.ids.new()),
            conversation_id=conversation_id,
            payload={"moniker": moniker, **spec},
            idempotency_key=idempotency_key,
        ),
    )


async def agent_input(
    db: TenantStore,
    *,
    text: str,
    data: Mapping[str, Any] | None = None,
    agent_id: AgentId | None = None,
    session_id: SessionId | None = None,
    conversation_id: ConversationId | None = None,
    metadata: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> Action:
    """Say something to a session: it begins a turn when the session gets to it."""
    return await _about_session(
        db,
        ActionKind.INPUT,
        agent_id,
        session_id,
        payload={"text": text, "data": data},
        conversation_id=conversation_id,
        metadata=metadata,
        idempotency_key=idempotency_key,
    )


async def agent_interrupt(
    db: TenantStore,
    *,
    guidance: Any,
    agent_id: AgentId | None = None,
    session_id: SessionId | None = None,
    conversation_id: ConversationId | None = None,
    metadata: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> Action:
    """Guide a session: its next step reads `guidance`."""
    return await _about_session(
        db,
        ActionKind.INTERRUPT,
        agent_id,
        session_id,
        payload={"guidance": guidance},
        conversation_id=conversation_id,
        metadata=metadata,
        idempotency_key=idempotency_key,
    )


async def agent_pause_action(
    db: TenantStore, *, agent_id: AgentId | None = None, session_id: SessionId | None = None
) -> Action:
    """Ask a session to stop after its running step."""
    return await _about_session(db, ActionKind.PAUSE, agent_id, session_id)


async def agent_resume_action(
    db: TenantStore, *, agent_id: AgentId | None = None, session_id: SessionId | None = None
) -> Action:
    """Ask a paused session to go on."""
    return await _about_session(db, ActionKind.RESUME, agent_id, session_id)


async def agent_destroy_action(
    db: TenantStore, *, agent_id: AgentId | None = None, session_id: SessionId | None = None
) -> Action:
    """Ask a session to end; a running step has a grace, then it is cancelled."""
    return await _about_session(db, ActionKind.DESTROY, agent_id, session_id)


async def _about_session(
    db: TenantStore,
    kind: ActionKind,
    agent_id: AgentId | None,
    session_id: SessionId | None,
    *,
    payload: Mapping[str, Any] | None = None,
    conversation_id: ConversationId | None = None,
    metadata: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> Action:
    if agent_id is None and session_id is None:
        raise BadFilterError(f"{kind.value} needs a session_id or an agent_id")
    return await enqueue(
        db,
        NewAction(
            kind=kind,
            agent_id=agent_id,
            session_id=session_id,
            conversation_id=conversation_id,
            payload=payload,
            metadata=metadata,
            idempotency_key=idempotency_key,
        ),
    )
