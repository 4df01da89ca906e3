"""Forks: a new session from a step of another one."""

from __future__ import annotations

from typing import Any

from store import Action, ActionKind, AgentState, AgentStep, ConflictError, NotFoundError, get_conversation
from store.agent_requests import FirstInput, agent_fork
from store.agent_steps import find_step, list_agent_steps_latest
from store.ids import AgentId, ConversationId, SessionId, step_id
from store.stepstates import is_changes
from web.api.control import ActionAccepted
from web.lookup import get_known
from web.routes import Answer, Api, One, Operation
from web.schemas import Fork
from web.shapes import Json


async def fork_session(api: Api, *, session_id: str, body: Fork) -> Answer:
    """Begin a session with the state, step tokens and wait that this one had after a step."""
    return Answer(await begin_fork(api, session_id, body), 202)


async def begin_fork(
    api: Api, session_id: str, body: Fork, *, first_input: FirstInput | None = None, stop_on_done: bool | None = None
) -> Json:
    """Put a fork into the queue, and in the same commit what is said to it; answers as `ActionAccepted`."""
    known = await get_known(api.db, SessionId(session_id))
    if not isinstance(known.source, AgentState):
        raise ConflictError(f"session {session_id!r} has not begun; it has no step to fork from")
    source = known.source
    step = await _step(api, source.session_id, body.iteration)
    if body.conversation_id is not None:
        await get_conversation(api.db, ConversationId(body.conversation_id))
    async with api.turns.of(session=body.session_id, key=body.idempotency_key):
        action = await agent_fork(
            api.db,
            source_id=source.session_id,
            iteration=step.iteration,
            agent_id=source.agent_id if body.agent_id is None else AgentId(body.agent_id),
            session_id=None if body.session_id is None else SessionId(body.session_id),
            conversation_id=None if body.conversation_id is None else ConversationId(body.conversation_id),
            spec={**_spec(api, source, body), **({} if stop_on_done is None else {"stop_on_done": stop_on_done})},
            first_input=first_input,
            idempotency_key=body.idempotency_key,
        )
    return _accepted(action, source.session_id)


async def _step(api: Api, session_id: SessionId, iteration: int | None) -> AgentStep:
    if iteration is None:
        latest = await list_agent_steps_latest(api.db, session_id=session_id, limit=1)
        if not latest:
            raise ConflictError(f"session {session_id!r} has no step yet; there is nothing to fork from")
        step = latest[0]
    else:
        found = await find_step(api.db, session_id, iteration)
        if found is None:
            raise NotFoundError("step", step_id(session_id, iteration))
        step = found
    if is_changes(step):
        raise ConflictError(f"the state of step {step.id!r} cannot be rebuilt any more; fork from a later one")
    return step


def _spec(api: Api, source: AgentState, body: Fork) -> dict[str, Any]:
    """What the old session was created with, its config changed where the request says so."""
    old = source.spec if isinstance(source.spec, dict) else {}
    config = {**(old.get("config") or {}), **(body.config or {})}
    entry = api.catalogue.get(source.moniker)
    if body.config is not None and entry is not None:
        config = dict(entry.check(config, old.get("task") or ""))
    kept = {name: value for name, value in old.items() if name not in {"action_id", "forked_from"}}
    return {**kept, "moniker": source.moniker, "config": config}


def _accepted(action: Action, source_id: SessionId) -> dict[str, Any]:
    origin = (action.payload or {}).get("forked_from") or {}
    if action.kind is not ActionKind.FORK or origin.get("session_id") != source_id:
        raise ConflictError(f"the idempotency_key was used before, for an {action.kind.value}; give a new one")
    return {"action_id": action.id, "session_id": action.session_id}


OPERATIONS = (
    Operation(
        "POST",
        "/api/sessions/{session_id}/fork",
        fork_session,
        "sessions",
        "Begin a new session from a step of this one",
        One(ActionAccepted),
        202,
        body=Fork,
        body_may_be_empty=True,
        problems=(404, 409),
        enqueues=True,
    ),
)
