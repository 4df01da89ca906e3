"""How an action of the queue goes on and ends: marks, the owner that answers for it, and another try.

Every write here changes rows that are there; it is stored when the function returns, and killed before that the row
is as it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import datetime
from typing import Any

from store import filters
from store.actions import OPEN_STATUSES, Action, ActionStatus, get_action, queue_of
from store.database import TenantStore
from store.errors import ConflictError
from store.ids import ActionId, SessionId
from store.lanes import LaneId

REQUEUEABLE = (ActionStatus.FAILED, ActionStatus.DEAD)

_HISTORY = "history"
_MAX_HISTORY = 20


async def mark_action_processed_async(
    db: TenantStore,
    action_id: ActionId,
    *,
    status: ActionStatus = ActionStatus.DONE,
    error: str | None = None,
    attempts: int = 1,
    owner: str | None = None,
    epoch: int = 0,
    not_before: datetime | None = None,
) -> None:
    """Mark an action as processed; many marks share one commit. Returns when it is stored.

    With an open status it is put back: `not_before` is then the moment of its next try.
    Crash before: the action is tried again when a worker is back; handlers are made for that. A mark of a lower
    `epoch` than the row's comes from an owner that was replaced: it is not taken.
    """
    await _marked(
        db,
        action_id,
        status=status,
        error=error,
        attempts=attempts,
        owner=owner,
        epoch=epoch,
        not_before=not_before,
    )


def mark_action_claimed(
    db: TenantStore,
    action_id: ActionId,
    *,
    attempts: int,
    owner: str,
    epoch: int = 0,
    error: str | None = None,
    not_before: datetime | None = None,
) -> asyncio.Future[int]:
    """Say in the queue that a worker is at it. For people: ownership does not rest on it.

    The mark is handed over before this returns, so that one of the action's end which is handed over later is the one
    that stays. The future is done when it is stored.
    """
    return _marked(
        db,
        action_id,
        status=ActionStatus.CLAIMED,
        error=error,
        attempts=attempts,
        owner=owner,
        epoch=epoch,
        not_before=not_before,
    )


def _marked(
    db: TenantStore,
    action_id: ActionId,
    *,
    status: ActionStatus,
    error: str | None,
    attempts: int,
    owner: str | None,
    epoch: int,
    not_before: datetime | None,
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
        epoch=epoch,
        not_before=not_before,
    )


async def own_open_actions(db: TenantStore, lanes: Collection[LaneId], epoch: int) -> None:
    """Answer for the open actions of `lanes` from now on: marks of an earlier owner are no longer taken."""
    of_lanes = filters.one_of("lane", lanes) & filters.equals("processed", False)
    await queue_of(db).change_if(of_lanes & filters.below("epoch", epoch), epoch=epoch)


async def send_on(db: TenantStore, action: Action, session_id: SessionId, lane: LaneId, *, epoch: int) -> None:
    """Give an action that named only its agent to the session that this means now; that session's owner sees it."""
    await queue_of(db).change((action.id,), session_id=session_id, lane=lane, epoch=epoch)


async def requeue_action(db: TenantStore, action_id: ActionId) -> Action:
    """Give a failed or dead action another try, at once and with all its tries; how it ended stays in its metadata.

    Of two callers that race one wins. Raises `NotFoundError`, and `ConflictError` for an action in another status.
    Crash before the commit: it is as it was. After: it is in the queue again.
    """
    action = await get_action(db, action_id)
    changed = action.status in REQUEUEABLE and await queue_of(db).change_if(
        *_still(action),
        status=ActionStatus.PENDING,
        attempts=0,
        processed=False,
        processed_at=None,
        error=None,
        owner=None,
        not_before=None,
        metadata=_with_history(action),
    )
    found = await get_action(db, action_id)
    if not changed:
        raise ConflictError(f"action {action_id!r} is {found.status.value}; only failed and dead ones can be requeued")
    return found


def _still(action: Action) -> list[Any]:
    """Conditions that hold while nobody has changed how an action ended."""
    ended_at = [] if action.processed_at is None else [filters.equals("processed_at", action.processed_at)]
    return [filters.equals("id", action.id), filters.equals("status", action.status), *ended_at]


def _with_history(action: Action) -> dict[str, Any]:
    """The action's metadata and in it, as `history`, how it ended so far; the newest end is the last."""
    before = action.metadata if isinstance(action.metadata, dict) else {}
    ended = {
        "status": action.status.value,
        "attempts": action.attempts,
        "error": action.error,
        "ended_at": None if action.processed_at is None else action.processed_at.isoformat(),
    }
    return {**before, _HISTORY: [*before.get(_HISTORY, []), ended][-_MAX_HISTORY:]}
