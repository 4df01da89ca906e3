"""Agents: starting sessions of a moniker, and control of an agent's latest session."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from typing_extensions import TypedDict

from store import (
    Action,
    ActionKind,
    ActionStatus,
    ConflictError,
    add_participant,
    agent_create,
    get_conversation,
    list_agents,
)
from store.agent_state import list_sessions_for_agent
from store.agent_usage import AgentUsage, usage_of_agents
from store.ids import AgentId, ConversationId, SessionId
from store.paging import decode_cursor, encode_cursor
from web.api import control
from web.api.control import ActionAccepted
from web.catalogue import MonikerEntry
from web.lookup import latest_of_agent, require_agent
from web.problems import refused
from web.queries import AgentsQuery, PageQuery
from web.routes import Answer, Api, Many, One, Operation
from web.schemas import Control, CreateAgent, Input, Interrupt
from web.shapes import Session, listed_session_shape, many, shape


class SessionAccepted(TypedDict):
    """A session that will begin."""

    action_id: str
    session_id: str
    agent_id: str
    conversation_id: str | None


class ListedAgent(TypedDict):
    """An agent; `usage` is null unless it was asked for."""

    agent_id: str
    moniker: str
    config: Any
    version: int
    created_at: datetime
    usage: AgentUsage | None


async def create_agent(api: Api, *, body: CreateAgent) -> Answer:
    """Check the moniker, its config and the conversation, then put the create into the queue."""
    spec = spec_of(api, body)
    if body.conversation_id is not None:
        await get_conversation(api.db, ConversationId(body.conversation_id))
    async with api.turns.of(session=body.session_id, key=body.idempotency_key):
        action = await agent_create(
            api.db,
            moniker=body.moniker,
            agent_id=None if body.agent_id is None else AgentId(body.agent_id),
            session_id=None if body.session_id is None else SessionId(body.session_id),
            conversation_id=None if body.conversation_id is None else ConversationId(body.conversation_id),
            spec=spec,
            idempotency_key=body.idempotency_key,
            urgency=body.urgency,
            not_before=body.not_before,
        )
    answer = _accepted(action)
    await _join(api, action, body)
    return Answer(answer, 202)


async def _join(api: Api, action: Action, body: CreateAgent) -> None:
    """Let the new session into its thread before it is promised: a post that follows at once has to reach it.

    The worker does the same when it starts the session; a crash in between leaves nothing undone.
    """
    if action.conversation_id is not None and action.session_id is not None and action.status is ActionStatus.PENDING:
        await add_participant(
            api.db,
            action.conversation_id,
            agent_id=action.agent_id,
            session_id=action.session_id,
            role="agent",
            delivery=body.delivery,
        )


def spec_of(api: Api, body: CreateAgent) -> dict[str, Any]:
    """What the session will be: the body, checked by its moniker."""
    entry = _entry(api, body.moniker)
    task = body.task or ""
    return {
        "task": task,
        "config": dict(entry.check(dict(body.config or {}), task)),
        "stop_on_done": entry.stop_on_done if body.stop_on_done is None else body.stop_on_done,
        **({} if body.agent_type is None else {"agent_type": body.agent_type}),
        "max_steps": body.max_steps,
        "max_runtime_s": body.max_runtime_s,
        "delivery": body.delivery.value,
        "max_concurrent": body.max_concurrent,
        **({} if body.budget is None else {"budget": body.budget.model_dump(exclude_none=True)}),
    }


def _entry(api: Api, moniker: str) -> MonikerEntry:
    entry = api.catalogue.get(moniker)
    if entry is None:
        known = ", ".join(api.catalogue)
        detail = f"there is no moniker {moniker!r}; known are: {known}"
        raise refused(422, detail, errors=[{"field": "moniker", "message": f"give one of: {known}"}])
    return entry


def _accepted(action: Action) -> dict[str, Any]:
    if action.kind is not ActionKind.CREATE:
        raise ConflictError(f"the idempotency_key was used before, for an {action.kind.value}; give a new one")
    return {
        "action_id": action.id,
        "session_id": action.session_id,
        "agent_id": action.agent_id,
        "conversation_id": action.conversation_id,
    }


async def list_agents_page(api: Api, *, query: AgentsQuery) -> Answer:
    """The newest version of every agent, by name; with what it has used, if asked."""
    found = await list_agents(api.db)
    if query.cursor is not None:
        after = decode_cursor(query.cursor, (str,))[0]
        found = [agent for agent in found if agent.agent_id > after]
    page = found[: query.limit]
    following = encode_cursor([page[-1].agent_id]) if len(found) > len(page) else None
    used = await usage_of_agents(api.db, [agent.agent_id for agent in page]) if query.usage else {}
    items = [{**shape(agent), "usage": _usage(used.get(agent.agent_id))} for agent in page]
    return Answer(many(items, following))


def _usage(used: AgentUsage | None) -> dict[str, Any] | None:
    return None if used is None else shape(used)


async def list_agent_sessions(api: Api, *, agent_id: str, query: PageQuery) -> Answer:
    """The sessions of one agent, newest first."""
    await require_agent(api.db, AgentId(agent_id))
    page = await list_sessions_for_agent(api.db, AgentId(agent_id), limit=query.limit, cursor=query.cursor)
    return Answer(many(map(listed_session_shape, page.items), page.next_cursor))


async def pause_agent(api: Api, *, agent_id: str, body: Control) -> Answer:
    """Pause the latest session."""
    return await control.pause(api, await latest_of_agent(api.db, AgentId(agent_id)))


async def resume_agent(api: Api, *, agent_id: str, body: Control) -> Answer:
    """Resume the latest session."""
    return await control.resume(api, await latest_of_agent(api.db, AgentId(agent_id)))


async def destroy_agent(api: Api, *, agent_id: str, body: Control) -> Answer:
    """End the latest session."""
    return await control.destroy(api, await latest_of_agent(api.db, AgentId(agent_id)))


async def interrupt_agent(api: Api, *, agent_id: str, body: Interrupt) -> Answer:
    """Guide the latest session."""
    return await control.interrupt(api, await latest_of_agent(api.db, AgentId(agent_id)), body)


async def input_agent(api: Api, *, agent_id: str, body: Input) -> Answer:
    """Say something to the latest session."""
    return await control.say(api, await latest_of_agent(api.db, AgentId(agent_id)), body)


def _control(word: str, handler: Any, body: Any, summary: str, *, may_be_empty: bool) -> Operation:
    return Operation(
        "POST",
        f"/api/agents/{{agent_id}}/{word}",
        handler,
        "agents",
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
        "POST",
        "/api/agents",
        create_agent,
        "agents",
        "Start a session of a moniker",
        One(SessionAccepted),
        202,
        body=CreateAgent,
        problems=(404, 409),
        enqueues=True,
    ),
    Operation("GET", "/api/agents", list_agents_page, "agents", "List agents", Many(ListedAgent), query=AgentsQuery),
    Operation(
        "GET",
        "/api/agents/{agent_id}/sessions",
        list_agent_sessions,
        "agents",
        "List an agent's sessions, newest first",
        Many(Session),
        query=PageQuery,
        problems=(404,),
    ),
    _control("pause", pause_agent, Control, "Pause the agent's latest session", may_be_empty=True),
    _control("resume", resume_agent, Control, "Resume the agent's latest session", may_be_empty=True),
    _control("destroy", destroy_agent, Control, "End the agent's latest session", may_be_empty=True),
    _control("interrupt", interrupt_agent, Interrupt, "Guide the agent's latest session", may_be_empty=False),
    _control("input", input_agent, Input, "Say something to the agent's latest session", may_be_empty=False),
)
