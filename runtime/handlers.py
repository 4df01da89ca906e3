"""What each kind of action does to a session.

A handler returns when the action's effect is stored. It raises `RefusedError` for an action that cannot be carried out
as asked and `ParkedError` for one that has to wait; the dispatcher marks the row. Handlers are repeatable: an action
whose mark was lost in a crash comes again, and its handler finds what it did before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from runtime.batchread import BatchRead
from runtime.contract import MonikerInputError
from runtime.errors import ParkedError, RefusedError
from runtime.projector import Projector
from runtime.registry import MonikerCatalogue, Registry
from runtime.rehydration import Recovered
from runtime.runner import Runner
from runtime.session import Guidance, LiveSession, new_session, session_of_row
from runtime.spec import SessionSpec, read_spec
from store.actions import Action, ActionKind, first_ids_by_key
from store.agent_state import SessionStatus, refusal
from store.agents import Agent, find_agents, save_agent_after
from store.conversations import Conversation, Delivery, add_participant, find_conversations
from store.database import TenantStore
from store.ids import ActionId, AgentId, ConversationId, SessionId
from store.messages import messages_of
from store.session_cursors import find_cursor, save_cursor

Handler = Callable[[Action], Awaitable[None]]
Reread = Callable[[SessionId, Sequence[ActionId]], None]

_MAX_GUIDANCE_WAITING = 1000
_MAX_AGENTS_KNOWN = 1_000


class Handlers:
    """The handlers of one worker."""

    def __init__(
        self,
        *,
        db: TenantStore,
        registry: Registry,
        projector: Projector,
        catalogue: MonikerCatalogue,
        recovered: Recovered,
        stop_grace_s: float,
    ) -> None:
        self.db = db
        self.registry = registry
        self.projector = projector
        self.catalogue = catalogue
        self.recovered = recovered
        self.stop_grace_s = stop_grace_s
        self._agents_known: dict[AgentId, Agent] = {}
        self._agents: BatchRead[AgentId, Agent] = BatchRead(partial(find_agents, db))
        self._conversations: BatchRead[ConversationId, Conversation] = BatchRead(partial(find_conversations, db))
        self._first_by_key: BatchRead[str, ActionId] = BatchRead(partial(first_ids_by_key, db))
        self._reread: list[Reread] = []
        #: parked actions that name only their agent: they are not found by their session
        self._parked: defaultdict[SessionId, list[ActionId]] = defaultdict(list)

    def on_resume(self, reread: Reread) -> None:
        """Have `reread` called for each session that goes on or is ended: its parked actions have to be read again."""
        self._reread.append(reread)

    def table(self) -> Mapping[ActionKind, Handler]:
        """The handler of each kind."""
        return {
            ActionKind.CREATE: self.create,
            ActionKind.INPUT: self.input,
            ActionKind.INTERRUPT: self.interrupt,
            ActionKind.PAUSE: self.pause,
            ActionKind.RESUME: self.resume,
            ActionKind.DESTROY: self.destroy,
        }

    def announce(self, action: Action) -> None:
        """Called when an action is taken up: from here on a new session is its agent's latest."""
        if action.kind is ActionKind.CREATE and action.agent_id is not None and action.session_id is not None:
            self.registry.remember_latest(action.agent_id, action.session_id)

    async def create(self, action: Action) -> None:
        """Start a session. Coming again it finds the session, in the store or in the journal, and goes on with it."""
        try:
            await self._create(action)
        except (RefusedError, MonikerInputError) as error:
            self.registry.forget_latest(action)
            raise RefusedError(str(error)) from error

    async def _create(self, action: Action) -> None:
        spec = read_spec(action.payload, action.id)
        async with self._lane(action) as session_id:
            if await self._created_before(action, session_id):
                return
            session = await self._new_session(action, spec)
            runner = self.registry.start(session, reopened=self.recovered.tried(action.id))
        await self.projector.stored(runner.session)

    async def _created_before(self, action: Action, session_id: SessionId) -> bool:
        running = self.registry.SESSIONS.get(session_id)
        if running is not None:
            _refuse_other(session_id, running.session.spec.action_id, action)
            await self.projector.stored(running.session)
            return True
        row = await self.registry.row(session_id)
        if row is not None:
            _refuse_other(session_id, (row.spec or {}).get("action_id"), action)
        return row is not None

    async def _new_session(self, action: Action, spec: SessionSpec) -> LiveSession:
        moniker = self.catalogue.get(spec.moniker)
        self.catalogue.check(moniker, spec.config, spec.task)
        owner = self.registry.ownership
        session = new_session(action, spec, moniker.first_step, owner=owner.owner, epoch=owner.epoch)
        await self._know_agent(session)
        await self._join_conversation(session)
        return session

    async def _know_agent(self, session: LiveSession) -> None:
        agent_id, spec = session.identity.agent_id, session.spec
        known = self._agents_known.get(agent_id) or await self._agents.get(agent_id)
        if len(self._agents_known) >= _MAX_AGENTS_KNOWN:
            self._agents_known.clear()
        self._agents_known[agent_id] = await save_agent_after(self.db, known, agent_id, spec.moniker, spec.config)

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
            self.db,
            identity.conversation_id,
            agent_id=identity.agent_id,
            session_id=identity.session_id,
            role="agent",
            delivery=delivery,
        )

    async def _first_cursor(self, session_id: SessionId, conversation_id: ConversationId) -> int:
        """Where a session begins to read: stored at once, so that a create that comes again skips no post."""
        known = await find_cursor(self.db, session_id, conversation_id)
        if known is None:
            known = await messages_of(self.db).version()
            await save_cursor(self.db, session_id, conversation_id, known)
        return known

    async def input(self, action: Action) -> None:
        """Carry out a turn: returns when the session waits again, or has ended."""
        if not isinstance(action.payload, dict):
            raise RefusedError(f"the payload of {action.kind.value} is {type(action.payload).__name__}, not an object")
        async with self._lane(action) as session_id:
            if await self._answered(action, session_id):
                return
            runner = await self._open(action, session_id)
            ended = runner.hand_over(action)
        try:
            await ended
        except ParkedError:
            self._note_parked(action, runner.session)
            raise

    def _note_parked(self, action: Action, session: LiveSession) -> None:
        if session.turn == action.id:
            self.recovered.answered_ids.add(action.id)
        if action.session_id is None:
            self._parked[session.session_id].append(action.id)

    async def interrupt(self, action: Action) -> None:
        """Accept guidance: it is stored with the session until a step has read it."""
        if not isinstance(action.payload, dict) or "guidance" not in action.payload:
            raise RefusedError("agent_interrupt needs a payload with guidance")
        async with self._lane(action) as session_id:
            if await self._answered(action, session_id):
                return
            runner = await self._open(action, session_id)
            session = runner.session
            if any(item.action_id == action.id for item in session.guidance):
                return
            if len(session.guidance) >= _MAX_GUIDANCE_WAITING:
                raise RefusedError(f"session {session.session_id!r} has {_MAX_GUIDANCE_WAITING} unread interrupts")
            runner.interrupt(Guidance(action.id, action.payload["guidance"]))
            await self.projector.stored(session)

    async def pause(self, action: Action) -> None:
        """Hold a session after its running step: returns when it rests."""
        async with self._lane(action) as session_id:
            runner = await self._open(action, session_id)
            runner.request_pause()
        session = runner.session
        await runner.until(lambda: session.status is SessionStatus.PAUSED or not runner.pause_requested)
        if runner.pause_requested and session.status is not SessionStatus.PAUSED and not session.ended:
            raise ParkedError(f"session {session.session_id!r} left before it could pause")
        await self.projector.stored(session)

    async def resume(self, action: Action) -> None:
        """Let a paused session go on; a failed one tries its step again."""
        async with self._lane(action) as session_id:
            runner = await self._open(action, session_id)
            session = runner.session
            if session.status is SessionStatus.ERROR:
                session.enter(SessionStatus.RUNNING, "resumed after an error", self.db.clock.now())
            runner.request_resume()
            await self.projector.stored(session)
        self._read_again(session_id)

    async def destroy(self, action: Action) -> None:
        """End a session: its running step has a grace, then it is cancelled."""
        async with self._lane(action) as session_id:
            if self.recovered.tried(action.id) and await self._stopped(session_id):
                return
            runner = await self._open_to_destroy(action, session_id)
            if runner is None:
                return
            session = runner.session
            session.enter(SessionStatus.STOPPING, "asked to end", self.db.clock.now())
            self.projector.touch(session)
            runner.request_stop()
        await runner.stop_within(self.stop_grace_s)
        if not session.ended:
            raise ParkedError(f"session {session.session_id!r} left before it could end")
        self._read_again(session_id)

    @asynccontextmanager
    async def _lane(self, action: Action) -> AsyncIterator[SessionId]:
        """The action's turn at its session.

        Whether it is a duplicate is asked within it: asking takes time, and what came later must not overtake it.
        """
        session_id = await self._session_id(action)
        async with self.registry.lane(session_id):
            await self._refuse_duplicate(action)
            yield session_id

    async def _refuse_duplicate(self, action: Action) -> None:
        """Two processes may have stored one idempotency key in the same instant: the older row wins."""
        if action.idempotency_key is None:
            return
        first = await self._first_by_key.get(action.idempotency_key)
        if first is not None and first != action.id:
            raise RefusedError(f"duplicate of action {first}, which has the same idempotency_key")

    async def _answered(self, action: Action, session_id: SessionId) -> bool:
        """Whether a stored step has read the action and the turn that it began, if it did, has ended well."""
        if not self.recovered.answered(action.id):
            return False
        running = self.registry.SESSIONS.get(session_id)
        if running is not None:
            return running.session.turn != action.id
        row = await self.registry.row(session_id)
        if row is None or (row.status is SessionStatus.ERROR and action.kind is ActionKind.INPUT):
            return False
        return (row.inbox or {}).get("turn") != action.id

    async def _stopped(self, session_id: SessionId) -> bool:
        row = await self.registry.row(session_id)
        return row is not None and row.status is SessionStatus.STOPPED

    def _read_again(self, session_id: SessionId) -> None:
        action_ids = self._parked.pop(session_id, [])
        for reread in self._reread:
            reread(session_id, action_ids)

    async def _open(self, action: Action, session_id: SessionId) -> Runner:
        """The runner of the action's session; raises `RefusedError` when the session cannot take the action."""
        running = self.registry.SESSIONS.get(session_id)
        if running is None and (row := await self.registry.row(session_id)) is not None:
            _refuse_ended(row.session_id, row.status, action.kind)
        try:
            runner = running or await self.registry.open(session_id)
        except MonikerInputError as error:
            raise RefusedError(f"session {session_id!r} cannot be opened: {error}") from error
        runner.session.refuse(action.kind)
        return runner

    async def _open_to_destroy(self, action: Action, session_id: SessionId) -> Runner | None:
        """Like `_open`; a session whose moniker or config is no longer good is ended without a runner."""
        row = None if session_id in self.registry.SESSIONS else await self.registry.row(session_id)
        if row is None or refusal(session_id, row.status, action.kind) is not None:
            return await self._open(action, session_id)
        owner = self.registry.ownership
        session = session_of_row(row, owner=owner.owner, epoch=owner.epoch)
        try:
            self.registry.moniker_of(session.spec)
        except MonikerInputError:
            session.enter(SessionStatus.STOPPED, "destroyed", self.db.clock.now())
            await self.projector.stored(session)
            return None
        return await self._open(action, session_id)

    async def _session_id(self, action: Action) -> SessionId:
        """The session that an action is about: its own, or its agent's latest."""
        if action.session_id is not None:
            return action.session_id
        if action.agent_id is None:
            raise RefusedError(f"{action.kind.value} needs a session_id or an agent_id")
        return await self.registry.latest_session(action.agent_id)


def _refuse_other(session_id: SessionId, made_by: Any, action: Action) -> None:
    if made_by != action.id:
        raise RefusedError(f"session_id {session_id!r} is already in use by action {made_by}; use another one")


def _refuse_ended(session_id: SessionId, status: SessionStatus, kind: ActionKind) -> None:
    reason = refusal(session_id, status, kind)
    if reason is not None:
        raise RefusedError(reason)
