"""Creating a session, be it a fork: its agent, its place in a conversation, its runner.

Crash anywhere in here: the create is open and comes again; what it stored before is found and stored no second time.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from runtime.agenttypes import check_agent_type
from runtime.batchread import BatchRead
from runtime.contract import MonikerInputError
from runtime.errors import RefusedError
from runtime.forking import begin_fork
from runtime.opening import Opening
from runtime.projector import Projector
from runtime.registry import MonikerCatalogue, Registry
from runtime.rehydration import Recovered
from runtime.session import LiveSession, new_session
from runtime.spec import SessionSpec, read_spec
from store.actions import Action, place_of
from store.agents import Agent, find_agents, save_agent_after
from store.conversations import Conversation, Delivery, add_participant, find_conversations
from store.database import TenantStore
from store.ids import AgentId, ConversationId, SessionId
from store.messages import messages_of
from store.session_cursors import find_cursor, save_cursor

_MAX_AGENTS_KNOWN = 1_000


class Creating:
    """The handler of creates and forks."""

    def __init__(
        self,
        db: TenantStore,
        registry: Registry,
        projector: Projector,
        catalogue: MonikerCatalogue,
        recovered: Recovered,
        opening: Opening,
    ) -> None:
        self._db = db
        self._registry = registry
        self._projector = projector
        self._catalogue = catalogue
        self._recovered = recovered
        self._opening = opening
        self._agents_known: dict[AgentId, Agent] = {}
        self._agents: BatchRead[AgentId, Agent] = BatchRead(partial(find_agents, db))
        self._conversations: BatchRead[ConversationId, Conversation] = BatchRead(partial(find_conversations, db))

    async def create(self, action: Action) -> None:
        """Start a session, be it a fork. Coming again it finds it, in the store or the journal, and goes on with it."""
        try:
            await self._create(action)
        except (RefusedError, MonikerInputError) as error:
            self._registry.forget_latest(action)
            raise RefusedError(str(error)) from error

    async def _create(self, action: Action) -> None:
        spec = read_spec(action.payload, action.id)
        async with self._opening.lane(action) as session_id:
            if await self._created_before(action, session_id):
                return
            session = await self._new_session(action, spec)
            if spec.forked_from is not None:
                await begin_fork(self._db, self._projector, session, spec.forked_from, action)
            runner = self._registry.start(session, reopened=self._recovered.tried(action.id))
        await self._projector.stored(runner.session)

    async def _created_before(self, action: Action, session_id: SessionId) -> bool:
        running = self._registry.SESSIONS.get(session_id)
        if running is not None:
            _refuse_other(session_id, running.session.spec.action_id, action)
            await self._projector.stored(running.session)
            return True
        row = await self._registry.row(session_id)
        if row is not None:
            _refuse_other(session_id, (row.spec or {}).get("action_id"), action)
        return row is not None

    async def _new_session(self, action: Action, spec: SessionSpec) -> LiveSession:
        moniker = self._catalogue.get(spec.moniker)
        self._catalogue.check(moniker, spec.config, spec.task)
        check_agent_type(spec, self._registry.agent_types, self._catalogue)
        owns = self._registry.ownership
        session = new_session(action, spec, moniker.first_step, owner=owns.owner, epoch=owns.epoch_of(place_of(action)))
        await self._know_agent(session)
        await self._join_conversation(session)
        return session

    async def _know_agent(self, session: LiveSession) -> None:
        agent_id, spec = session.identity.agent_id, session.spec
        known = self._agents_known.get(agent_id) or await self._agents.get(agent_id)
        if len(self._agents_known) >= _MAX_AGENTS_KNOWN:
            self._agents_known.clear()
        self._agents_known[agent_id] = await save_agent_after(self._db, known, agent_id, spec.moniker, spec.config)

    async def _join_conversation(self, session: LiveSession) -> None:
        identity = session.identity
        if identity.conversation_id is None:
            return
        if await self._conversations.get(identity.conversation_id) is None:
            raise RefusedError(f"there is no conversation {identity.conversation_id!r}; create it first")
        delivery = session.spec.delivery
        if delivery is Delivery.PULL:
            session.pulled_to = await self._first_cursor(identity.session_id, identity.conversation_id)
        await add_participant(
            self._db,
            identity.conversation_id,
            agent_id=identity.agent_id,
            session_id=identity.session_id,
            role="agent",
            delivery=delivery,
        )

    async def _first_cursor(self, session_id: SessionId, conversation_id: ConversationId) -> int:
        """Where a session begins to read: stored at once, so that a create that comes again skips no post."""
        known = await find_cursor(self._db, session_id, conversation_id)
        if known is None:
            known = await messages_of(self._db).version()
            await save_cursor(self._db, session_id, conversation_id, known)
        return known


def _refuse_other(session_id: SessionId, made_by: Any, action: Action) -> None:
    if made_by != action.id:
        raise RefusedError(f"session_id {session_id!r} is already in use by action {made_by}; use another one")
