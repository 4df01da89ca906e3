"""What can be asked of a session that is found: shared by the addresses under /api/agents and /api/sessions."""

from __future__ import annotations

from typing_extensions import TypedDict

from store import (
    Action,
    ActionKind,
    ConflictError,
    agent_destroy_action,
    agent_input,
    agent_interrupt,
    agent_pause_action,
    agent_resume_action,
)
from web.lookup import Known
from web.routes import Answer, Api
from web.schemas import Input, Interrupt


class ActionAccepted(TypedDict):
    """An action that will be carried out."""

    action_id: str
    session_id: str


async def pause(api: Api, session: Known) -> Answer:
    """Ask it to stop after its running step."""
    session.refuse(ActionKind.PAUSE)
    return _accepted(await agent_pause_action(api.db, agent_id=session.agent_id, session_id=session.session_id))


async def resume(api: Api, session: Known) -> Answer:
    """Ask it to go on."""
    session.refuse(ActionKind.RESUME)
    return _accepted(await agent_resume_action(api.db, agent_id=session.agent_id, session_id=session.session_id))


async def destroy(api: Api, session: Known) -> Answer:
    """Ask it to end."""
    session.refuse(ActionKind.DESTROY)
    return _accepted(await agent_destroy_action(api.db, agent_id=session.agent_id, session_id=session.session_id))


async def interrupt(api: Api, session: Known, body: Interrupt) -> Answer:
    """Guide it: its next step reads the guidance."""
    session.refuse(ActionKind.INTERRUPT)
    async with api.turns.of(key=body.idempotency_key):
        action = await agent_interrupt(
            api.db,
            guidance=body.guidance,
            agent_id=session.agent_id,
            session_id=session.session_id,
            conversation_id=session.conversation_id,
            idempotency_key=body.idempotency_key,
        )
    return _accepted(_same(action, ActionKind.INTERRUPT, session))


async def say(api: Api, session: Known, body: Input) -> Answer:
    """Begin a turn."""
    session.refuse(ActionKind.INPUT)
    async with api.turns.of(key=body.idempotency_key):
        action = await agent_input(
            api.db,
            text=body.text,
            data=body.data,
            agent_id=session.agent_id,
            session_id=session.session_id,
            conversation_id=session.conversation_id,
            idempotency_key=body.idempotency_key,
        )
    return _accepted(_same(action, ActionKind.INPUT, session))


def _same(action: Action, kind: ActionKind, session: Known) -> Action:
    """`action`, unless its idempotency key led to something else that was asked before."""
    if (action.kind, action.session_id) != (kind, session.session_id):
        before = f"an {action.kind.value} of session {action.session_id!r}"
        raise ConflictError(f"the idempotency_key was used before, for {before}; give a new one")
    return action


def _accepted(action: Action) -> Answer:
    return Answer({"action_id": action.id, "session_id": action.session_id}, 202)
