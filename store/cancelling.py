"""Taking back an action that nobody has begun: a person asks with an action, the worker that has the target decides."""

from __future__ import annotations

from store import filters
from store.actions import (
    HIGHEST_URGENCY,
    OPEN_STATUSES,
    Action,
    ActionKind,
    ActionStatus,
    get_action,
    place_of,
    queue_of,
)
from store.database import TenantStore
from store.enqueueing import NewAction, enqueue
from store.errors import ConflictError
from store.ids import ActionId

CANCELLED = "cancelled by request"


async def withdraw_action(db: TenantStore, action_id: ActionId) -> bool:
    """End an open action as cancelled; False when it was not open. For the worker that could carry it out.

    Crash before the commit: the cancel is carried out again. After: the action is `failed`.
    """
    changed = await queue_of(db).change_if(
        filters.equals("id", action_id),
        filters.one_of("status", OPEN_STATUSES),
        status=ActionStatus.FAILED,
        processed=True,
        processed_at=db.clock.now(),
        error=CANCELLED,
    )
    return changed > 0


async def cancel_action(db: TenantStore, action_id: ActionId) -> Action:
    """Ask for an open action to be taken back; returns the action of kind `cancel` that asks for it.

    It names its target's session, so that the same worker has both. Raises `NotFoundError`, and `ConflictError` for an
    action that has ended or is a cancel itself.
    """
    target = await get_action(db, action_id)
    if target.processed:
        raise ConflictError(f"action {action_id!r} has ended ({target.status.value}); there is nothing to cancel")
    if target.kind is ActionKind.CANCEL:
        raise ConflictError(f"action {action_id!r} is a cancel; requeue what it cancels instead")
    return await enqueue(
        db,
        NewAction(
            kind=ActionKind.CANCEL,
            agent_id=target.agent_id,
            session_id=target.session_id,
            conversation_id=target.conversation_id,
            payload={"action_id": target.id},
            urgency=HIGHEST_URGENCY,
            lane=place_of(target),
        ),
    )
