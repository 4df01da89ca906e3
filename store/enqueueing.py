"""How an action gets into the queue: in its lane, and once for each idempotency key.

Crash before the append: nothing was accepted. After: it is done, or tried again when the worker is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from store import filters
from store.actions import (
    CREATING_KINDS,
    DEFAULT_URGENCY,
    Action,
    ActionKind,
    ActionStatus,
    find_by_idempotency_key,
    find_create,
    queue_of,
)
from store.database import TenantStore
from store.errors import ConflictError
from store.ids import ActionId, AgentId, ConversationId, SessionId
from store.lanes import LaneId, general_lane, lane_of
from store.schema import AGENT_STATE


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
    #: where the caller knows it; else it is looked up
    lane: str = ""


async def enqueue(db: TenantStore, new: NewAction) -> Action:
    """Store one action; when this returns it will be carried out. The same idempotency key gives the first one back.

    Callers that use one new key in the same instant may both store a row; both are given the one that was committed
    first, which the worker carries out, and the other is marked as its duplicate. Raises `ConflictError` for a key
    that belongs to another kind of request.
    """
    key = new.idempotency_key
    if (earlier := await find_earlier(db, key, new.kind)) is not None:
        return earlier
    action = _action(db, new, LaneId(new.lane) or await find_lane(db, new))
    await queue_of(db).append(action)
    return await find_earlier(db, key, new.kind) or action


async def enqueue_together(db: TenantStore, first: NewAction, *behind: NewAction) -> Action:
    """Store a create and what its session is asked for right behind it, in one commit; returns the create's action.

    Crash before: nothing of it is there. After: all is. A worker that sees one of them sees the others. The first one's
    idempotency key stands for all of them. Raises as `enqueue` does.
    """
    if (earlier := await find_earlier(db, first.idempotency_key, first.kind)) is not None:
        return earlier
    lane = LaneId(first.lane) or await find_lane(db, first)
    actions = [_action(db, new, lane) for new in (first, *behind)]
    await queue_of(db).append_all(actions)
    return await find_earlier(db, first.idempotency_key, first.kind) or actions[0]


async def enqueue_all(db: TenantStore, new: Sequence[NewAction]) -> list[Action]:
    """Store several actions, in one commit where that is possible."""
    lanes = await asyncio.gather(*[find_lane(db, item) for item in new])
    placed = [replace(item, lane=lane) for item, lane in zip(new, lanes, strict=True)]
    return list(await asyncio.gather(*[enqueue(db, item) for item in placed]))


async def find_earlier(db: TenantStore, key: str | None, kind: ActionKind) -> Action | None:
    """The action that was stored first with `key`, or None; raises `ConflictError` when it is of another kind."""
    if key is None:
        return None
    first = await find_by_idempotency_key(db, key)
    if first is not None and first.kind is not kind:
        raise ConflictError(
            f"idempotency_key {key!r} belongs to the {first.kind.value} action {first.id!r}; "
            f"use another one for {kind.value}"
        )
    return first


async def find_lane(db: TenantStore, new: NewAction) -> LaneId:
    """Where a new action belongs: to its session's lane, or to a general one when it names no session that is known."""
    if new.kind in CREATING_KINDS:
        return lane_of_create(new.payload or {}, new.session_id, new.agent_id)
    if new.session_id is None:
        return general_lane(new.agent_id or "")
    known = await db.values(AGENT_STATE, "lane", filters.equals("session_id", new.session_id))
    if known and known[0]:
        return LaneId(known[0])
    create = await find_create(db, new.session_id)
    return LaneId(create.lane) if create is not None and create.lane else general_lane(new.session_id)


def lane_of_create(payload: Mapping[str, Any], session_id: SessionId | None, agent_id: AgentId | None) -> LaneId:
    """The lane of the session that a create asks for. Sessions of an agent with a limit are in one lane."""
    key = (agent_id if payload.get("max_concurrent") is not None else session_id) or ""
    moniker = str(payload.get("moniker") or "")
    return lane_of(moniker, key) if moniker else general_lane(key)  # without one any worker may refuse it


def _action(db: TenantStore, new: NewAction, lane: LaneId) -> Action:
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
        lane=lane,
    )
