"""What can be asked of a session that is found: shared by the addresses under /api/agents and /api/sessions."""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import TypedDict

from store import (
    Action,
    ActionKind,
    ConflictError,
    TenantStore,
    WhenBusy,
    agent_destroy_action,
    agent_input,
    agent_interrupt,
    agent_pause_action,
    agent_resume_action,
)
from store.actions import find_by_idempotency_key, find_open_inputs
from store.ids import SessionId
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
    await _refuse_unless_asked_before(api, session, ActionKind.INTERRUPT, body.idempotency_key)
    async with api.turns.of(key=body.idempotency_key):
        action = await agent_interrupt(
            api.db,
            guidance=body.guidance,
            agent_id=session.agent_id,
            session_id=session.session_id,
            conversation_id=session.conversation_id,
            idempotency_key=body.idempotency_key,
            urgency=body.urgency,
            not_before=body.not_before,
        )
    return _accepted(_same(action, ActionKind.INTERRUPT, session))


async def say(api: Api, session: Known, body: Input) -> Answer:
    """Begin a turn."""
    await _refuse_unless_asked_before(api, session, ActionKind.INPUT, body.idempotency_key)
    async with api.turns.of(key=body.idempotency_key):
        await refuse_busy(api.db, [session.session_id], body.when_busy, body.idempotency_key)
        action = await agent_input(
            api.db,
            text=body.text,
            data=body.data,
            when_busy=body.when_busy,
            agent_id=session.agent_id,
            session_id=session.session_id,
            conversation_id=session.conversation_id,
            idempotency_key=body.idempotency_key,
            urgency=body.urgency,
            not_before=body.not_before,
        )
    return _accepted(_same(action, ActionKind.INPUT, session))


async def refuse_busy(db: TenantStore, session_ids: Iterable[SessionId], asked: WhenBusy, key: str | None) -> None:
    """Raise `ConflictError` for an input that asks to be rejected, where a session is seen to be busy already.

    The worker decides; this only tells sooner. A key that was used before stands for an input that was accepted.
    """
    if asked is not WhenBusy.REJECT or (key is not None and await find_by_idempotency_key(db, key) is not None):
        return
    for session_id in session_ids:
        if await find_open_inputs(db, session_id):
            raise ConflictError(f"session {session_id!r} is busy; send it again later, or with another when_busy")


async def _refuse_unless_asked_before(api: Api, session: Known, kind: ActionKind, key: str | None) -> None:
    """A request that comes again with its key gets its first answer, also when the session has ended since."""
    try:
        session.refuse(kind)
    except ConflictError:
        if key is None or await find_by_idempotency_key(api.db, key) is None:
            raise


def _same(action: Action, kind: ActionKind, session: Known) -> Action:
    """`action`, unless its idempotency key led to something else that was asked before."""
    if (action.kind, action.session_id) != (kind, session.session_id):
        before = f"an {action.kind.value} of session {action.session_id!r}"
        raise ConflictError(f"the idempotency_key was used before, for {before}; give a new one")
    return action


def _accepted(action: Action) -> Answer:
    return Answer({"action_id": action.id, "session_id": action.session_id}, 202)
