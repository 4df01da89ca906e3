"""Finding a session by its id, wherever it is: a row of its own, or still a create in the queue."""

from __future__ import annotations

from dataclasses import dataclass

from store import Action, ActionKind, AgentState, ConflictError, NotFoundError, SessionStatus, TenantStore
from store.actions import find_create, find_creates_of_agent
from store.agent_state import FINAL_STATUSES, find_agent_state, refusal
from store.agents import find_agent
from store.ids import AgentId, ConversationId, SessionId
from web.shapes import CREATE_FAILED, Json, queued_session_shape, session_shape


@dataclass(frozen=True, slots=True)
class Known:
    """A session that exists, and where that stands."""

    session_id: SessionId
    agent_id: AgentId | None
    conversation_id: ConversationId | None
    status: SessionStatus
    source: AgentState | Action

    def shape(self) -> Json:
        """The session as JSON."""
        if isinstance(self.source, AgentState):
            return session_shape(self.source)
        return queued_session_shape(self.source)

    def refuse(self, kind: ActionKind) -> None:
        """Raise `ConflictError` when this cannot be asked of it."""
        reason = refusal(self.session_id, self.status, kind)
        if self.status in FINAL_STATUSES and isinstance(self.source, Action):
            reason = f"session {self.session_id!r} could not be created (status error); create a new one"
        if reason is not None:
            raise ConflictError(reason)


async def find_known(db: TenantStore, session_id: SessionId) -> Known | None:
    """A session, if it exists."""
    state = await find_agent_state(db, session_id=session_id)
    if state is not None:
        return _of_state(state)
    create = await find_create(db, session_id)
    return None if create is None else _of_create(create, session_id)


async def get_known(db: TenantStore, session_id: SessionId) -> Known:
    """A session; raises `NotFoundError`."""
    found = await find_known(db, session_id)
    if found is None:
        raise NotFoundError("session", session_id)
    return found


async def latest_of_agent(db: TenantStore, agent_id: AgentId) -> Known:
    """The newest session of an agent, be it still in the queue; raises `NotFoundError`."""
    state = await find_agent_state(db, agent_id=agent_id)
    create = await find_creates_of_agent(db, agent_id)
    if create is not None and create.session_id is not None and _is_newer(create, state):
        return await get_known(db, create.session_id)
    if state is None:
        raise NotFoundError("agent", agent_id)
    return _of_state(state)


async def require_agent(db: TenantStore, agent_id: AgentId) -> None:
    """Raise `NotFoundError` unless somebody has created a session of this agent."""
    if await find_agent(db, agent_id) is None and await find_creates_of_agent(db, agent_id) is None:
        raise NotFoundError("agent", agent_id)


def _is_newer(create: Action, state: AgentState | None) -> bool:
    return state is None or (create.session_id != state.session_id and create.created_at > state.created_at)


def _of_state(state: AgentState) -> Known:
    return Known(state.session_id, state.agent_id, state.conversation_id, state.status, state)


def _of_create(create: Action, session_id: SessionId) -> Known:
    status = SessionStatus.ERROR if create.status in CREATE_FAILED else SessionStatus.CREATED
    return Known(session_id, create.agent_id, create.conversation_id, status, create)
