"""The queue: what was asked for, how far it is, and another try for what failed."""

from __future__ import annotations

from typing_extensions import TypedDict

from store import (
    Action,
    ActionFilter,
    ActionStatus,
    cancel_action,
    count_actions,
    get_action,
    list_actions,
    requeue_action,
)
from store.ids import ActionId, AgentId, SessionId
from web.queries import ActionsQuery
from web.routes import Answer, Api, Many, One, Operation
from web.schemas import Control
from web.shapes import counts, many, shape


class CancelAccepted(TypedDict):
    """The action that asks for the cancel, and what it is to cancel."""

    action_id: str
    cancels: str
    session_id: str | None


async def list_queue(api: Api, *, query: ActionsQuery) -> Answer:
    """Actions, newest first; `counts` is over all actions."""
    wanted = ActionFilter(
        status=query.status,
        kind=query.kind,
        session_id=None if query.session_id is None else SessionId(query.session_id),
        agent_id=None if query.agent_id is None else AgentId(query.agent_id),
    )
    page = await list_actions(api.db, wanted, limit=query.limit, cursor=query.cursor)
    counted = counts(await count_actions(api.db))
    return Answer(many(map(shape, page.items), page.next_cursor, counts=counted))


async def show_action(api: Api, *, action_id: str) -> Answer:
    """One action."""
    return Answer(shape(await get_action(api.db, ActionId(action_id))))


async def requeue(api: Api, *, action_id: str, body: Control) -> Answer:
    """Give a failed or dead action another try."""
    async with api.turns.of(action=action_id):
        return Answer(shape(await requeue_action(api.db, ActionId(action_id))), 202)


async def cancel(api: Api, *, action_id: str, body: Control) -> Answer:
    """Take back an action that nobody has begun. How that went stands on the action that is answered."""
    asked = await cancel_action(api.db, ActionId(action_id))
    return Answer({"action_id": asked.id, "cancels": action_id, "session_id": asked.session_id}, 202)


OPERATIONS = (
    Operation(
        "GET",
        "/api/queue",
        list_queue,
        "queue",
        "List actions, newest first",
        Many(Action, counted=ActionStatus),
        query=ActionsQuery,
    ),
    Operation("GET", "/api/queue/{action_id}", show_action, "queue", "One action", One(Action), problems=(404,)),
    Operation(
        "POST",
        "/api/queue/{action_id}/requeue",
        requeue,
        "queue",
        "Give a failed or dead action another try",
        One(Action),
        202,
        body=Control,
        body_may_be_empty=True,
        problems=(404, 409),
        enqueues=True,
    ),
    Operation(
        "POST",
        "/api/queue/{action_id}/cancel",
        cancel,
        "queue",
        "Take back an action that nobody has begun",
        One(CancelAccepted),
        202,
        body=Control,
        body_may_be_empty=True,
        problems=(404, 409),
    ),
)
