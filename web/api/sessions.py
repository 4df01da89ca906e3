"""Sessions: lists, one session, and control of it."""

from __future__ import annotations

from typing import Any

from store import SessionFilter, SessionStatus, count_sessions, list_sessions
from store.ids import AgentId, ConversationId, SessionId
from web.api import control
from web.api.control import ActionAccepted
from web.lookup import get_known
from web.queries import SessionsQuery
from web.routes import Answer, Api, Many, One, Operation
from web.schemas import Control, Input, Interrupt
from web.shapes import Session, counts, listed_session_shape, many


async def list_sessions_page(api: Api, *, query: SessionsQuery) -> Answer:
    """Sessions, newest first, without their context; `counts` is over all sessions."""
    wanted = SessionFilter(
        status=query.status,
        agent_id=None if query.agent_id is None else AgentId(query.agent_id),
        conversation_id=None if query.conversation_id is None else ConversationId(query.conversation_id),
        moniker=query.moniker,
    )
    page = await list_sessions(api.db, wanted, limit=query.limit, cursor=query.cursor)
    counted = counts(await count_sessions(api.db))
    return Answer(many(map(listed_session_shape, page.items), page.next_cursor, counts=counted))


async def get_session(api: Api, *, session_id: str) -> Answer:
    """One session. One that is still in the queue is `created`; one that could not be created is `error`."""
    return Answer((await get_known(api.db, SessionId(session_id))).shape())


async def pause_session(api: Api, *, session_id: str, body: Control) -> Answer:
    """Pause a session."""
    return await control.pause(api, await get_known(api.db, SessionId(session_id)))


async def resume_session(api: Api, *, session_id: str, body: Control) -> Answer:
    """Resume a session."""
    return await control.resume(api, await get_known(api.db, SessionId(session_id)))


async def destroy_session(api: Api, *, session_id: str, body: Control) -> Answer:
    """End a session."""
    return await control.destroy(api, await get_known(api.db, SessionId(session_id)))


async def interrupt_session(api: Api, *, session_id: str, body: Interrupt) -> Answer:
    """Guide a session."""
    return await control.interrupt(api, await get_known(api.db, SessionId(session_id)), body)


async def input_session(api: Api, *, session_id: str, body: Input) -> Answer:
    """Say something to a session."""
    return await control.say(api, await get_known(api.db, SessionId(session_id)), body)


def _control(word: str, handler: Any, body: Any, summary: str, *, may_be_empty: bool) -> Operation:
    return Operation(
        "POST",
        f"/api/sessions/{{session_id}}/{word}",
        handler,
        "sessions",
        summary,
        One(ActionAccepted),
        202,
        body=body,
        body_may_be_empty=may_be_empty,
        problems=(404, 409),
        enqueues=body is not Control,
    )


OPERATIONS = (
    Operation(
        "GET",
        "/api/sessions",
        list_sessions_page,
        "sessions",
        "List sessions, newest first",
        Many(Session, counted=SessionStatus),
        query=SessionsQuery,
    ),
    Operation(
        "GET",
        "/api/sessions/{session_id}",
        get_session,
        "sessions",
        "One session",
        One(Session),
        problems=(404,),
    ),
    _control("pause", pause_session, Control, "Pause a session after its running step", may_be_empty=True),
    _control("resume", resume_session, Control, "Let a paused session go on", may_be_empty=True),
    _control("destroy", destroy_session, Control, "End a session", may_be_empty=True),
    _control("interrupt", interrupt_session, Interrupt, "Guide a session's next step", may_be_empty=False),
    _control("input", input_session, Input, "Say something to a session: a turn", may_be_empty=False),
)
