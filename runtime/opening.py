"""From an action to its session: which one it is about, the action's turn there, and the session's runner.

An action whose session is another worker's is given to that worker; one whose session is not created yet waits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from runtime.batchread import BatchRead
from runtime.cancelling import Cancels
from runtime.contract import MonikerInputError
from runtime.errors import ParkedError, RefusedError
from runtime.projector import Projector
from runtime.registry import Registry
from runtime.runner import Runner
from runtime.session import session_of_row
from runtime.waiting import Waiting
from store.actions import Action, ActionKind, find_create, first_ids_by_key, place_of
from store.agent_state import SessionStatus, refusal
from store.database import TenantStore
from store.ids import ActionId, SessionId
from store.lanes import LaneId
from store.marks import send_on


class Opening:
    """How the handlers get at sessions."""

    def __init__(
        self, db: TenantStore, registry: Registry, projector: Projector, cancels: Cancels, waiting: Waiting
    ) -> None:
        self._db = db
        self._registry = registry
        self._projector = projector
        self._cancels = cancels
        self._waiting = waiting
        self._first_by_key: BatchRead[str, ActionId] = BatchRead(partial(first_ids_by_key, db))

    @asynccontextmanager
    async def lane(self, action: Action) -> AsyncIterator[SessionId]:
        """The action's turn at its session.

        Whether it is a duplicate is asked within it: asking takes time, and what came later must not overtake it.
        """
        session_id = await self._session_id(action)
        async with self._registry.lane(session_id):
            await self._refuse_duplicate(action)
            self._cancels.begin(action, session_id)
            yield session_id

    async def open(self, action: Action, session_id: SessionId) -> Runner:
        """The runner of the action's session; raises `RefusedError` when the session cannot take the action."""
        running = self._registry.SESSIONS.get(session_id)
        if running is None:
            await self._look_before_opening(action, session_id)
        try:
            runner = running or await self._registry.open(session_id)
        except MonikerInputError as error:
            raise RefusedError(f"session {session_id!r} cannot be opened: {error}") from error
        runner.session.refuse(action.kind)
        return runner

    async def open_to_destroy(self, action: Action, session_id: SessionId) -> Runner | None:
        """Like `open`; a session whose moniker or config is no longer good is ended without a runner."""
        row = None if session_id in self._registry.SESSIONS else await self._registry.row(session_id)
        if row is None or refusal(session_id, row.status, action.kind) is not None:
            return await self.open(action, session_id)
        owns = self._registry.ownership
        session = session_of_row(row, owner=owns.owner, epoch=owns.epoch_of(row.place))
        try:
            self._registry.moniker_of(session.spec)
        except MonikerInputError:
            session.enter(SessionStatus.STOPPED, "destroyed", self._db.clock.now())
            await self._projector.stored(session)
            return None
        return await self.open(action, session_id)

    async def _refuse_duplicate(self, action: Action) -> None:
        """Two processes may have stored one idempotency key in the same instant: the older row wins."""
        if action.idempotency_key is None:
            return
        first = await self._first_by_key.get(action.idempotency_key)
        if first is not None and first != action.id:
            raise RefusedError(f"duplicate of action {first}, which has the same idempotency_key")

    async def _look_before_opening(self, action: Action, session_id: SessionId) -> None:
        """Raise for a session that has ended, is not created yet, or is another worker's, who then gets the action."""
        row = await self._registry.row(session_id)
        if row is None:
            await self._wait_for_create(action, session_id)
            row = await self._registry.row(session_id)  # the create may just have ended
        if row is None:
            return
        _refuse_ended(row.session_id, row.status, action.kind)
        if not self._registry.ownership.holds(row.place):
            await self._send_on(action, session_id, row.place)

    async def _wait_for_create(self, action: Action, session_id: SessionId) -> None:
        """Park what is asked of a session whose create is still open: it waits for its moment or its next try."""
        self._waiting.await_create(session_id)
        create = await find_create(self._db, session_id)
        if create is None or create.processed:
            self._waiting.stop_awaiting(session_id)
            return
        if not self._registry.ownership.holds(place_of(create)):
            await self._send_on(action, session_id, place_of(create))
        self._waiting.note_early(action, session_id)
        raise ParkedError(f"session {session_id!r} is not created yet; action {action.id} stays open")

    async def _session_id(self, action: Action) -> SessionId:
        """The session that an action is about: its own, or its agent's latest."""
        if action.session_id is not None:
            return action.session_id
        if action.agent_id is None:
            raise RefusedError(f"{action.kind.value} needs a session_id or an agent_id")
        session_id = await self._registry.latest_session(action.agent_id)
        await self._send_on_if_elsewhere(action, session_id)
        return session_id

    async def _send_on_if_elsewhere(self, action: Action, session_id: SessionId) -> None:
        """An agent's latest session may be another worker's: the action is given to it, and seen there."""
        running = self._registry.SESSIONS.get(session_id)
        row = None if running is not None else await self._registry.row(session_id)
        if row is not None and not self._registry.ownership.holds(row.place):
            await self._send_on(action, session_id, row.place)

    async def _send_on(self, action: Action, session_id: SessionId, lane: LaneId) -> None:
        """Give an action to the owner of `lane`, if it is not there already; always raises `ParkedError`."""
        here = place_of(action)
        if here != lane:
            epoch = max(action.epoch or 0, self._registry.ownership.epoch_of(here))
            await send_on(self._db, action, session_id, lane, epoch=epoch)
        raise ParkedError(f"session {session_id!r} is in lane {lane!r}, which another worker owns")


def _refuse_ended(session_id: SessionId, status: SessionStatus, kind: ActionKind) -> None:
    reason = refusal(session_id, status, kind)
    if reason is not None:
        raise RefusedError(reason)
