"""Which sessions are in memory: SESSIONS[session_id] -> runner, AGENT_LATEST[agent_id] -> session_id (spec 1).

A waiting or paused session is not in memory; it is opened when something arrives for it. One session is opened by one
task at a time (its lane).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Protocol

from pydantic import BaseModel

from runtime.batchread import BatchRead
from runtime.context import Services
from runtime.contract import Moniker
from runtime.errors import ParkedError, RefusedError
from runtime.ownership import Ownership
from runtime.projector import Projector
from runtime.retries import RetryPolicy
from runtime.runner import NO_RETRIES, Runner, Workplace
from runtime.session import LiveSession, session_of_row
from runtime.slots import Slots
from runtime.spec import SessionSpec
from store.actions import Action
from store.agent_state import AgentState, SessionStatus, find_agent_state, get_agent_states
from store.agent_steps import list_agent_steps_since_iteration
from store.conversations import Delivery
from store.ids import AgentId, SessionId
from store.lanes import LaneId
from store.session_cursors import find_cursor

_MAX_LATEST = 100_000
#: what a cancelled step may take to leave before it is left behind
_ABANDON_S = 1.0


class MonikerCatalogue(Protocol):
    """The monikers that this worker can run."""

    def names(self) -> Sequence[str]:
        """Every name, in order."""
        ...

    def get(self, name: str) -> Moniker[Any]:
        """The moniker; raises `MonikerInputError` for an unknown name."""
        ...

    def check(self, moniker: Moniker[Any], config: dict[str, Any], task: str) -> BaseModel:
        """The config as the moniker's model; raises `MonikerInputError`."""
        ...


class Registry:
    """The sessions in memory, and how one gets there."""

    def __init__(
        self,
        services: Services,
        projector: Projector,
        catalogue: MonikerCatalogue,
        ownership: Ownership,
        *,
        hold_s: float,
        sleep: Callable[[SessionId, datetime], None],
        retries: RetryPolicy = NO_RETRIES,
        slots: Slots,
    ) -> None:
        self.SESSIONS: dict[SessionId, Runner] = {}
        self.AGENT_LATEST: dict[AgentId, SessionId] = {}
        self._services = services
        self._projector = projector
        self._catalogue = catalogue
        self.ownership = ownership
        self._sleep = sleep
        self._workplace = Workplace(
            services, projector, ownership, slots, hold_s=hold_s, forget=self._forget, retries=retries
        )
        #: sessions that left because the store was away; `runtime.comeback` has them go on
        self.lost: dict[SessionId, LiveSession] = {}
        self._lanes: dict[SessionId, tuple[asyncio.Lock, int]] = {}
        self._rows: BatchRead[SessionId, AgentState] = BatchRead(self._read_rows)

    @property
    def agent_types(self) -> Collection[str]:
        """The types of agents that tools are granted to by name."""
        return self._services.tools.granted_types

    @asynccontextmanager
    async def lane(self, session_id: SessionId) -> AsyncIterator[None]:
        """Take a turn at opening a session or asking something of it; first come, first served."""
        lock, users = self._lanes.get(session_id, (asyncio.Lock(), 0))
        self._lanes[session_id] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._lanes.pop(session_id)
            if users > 1:
                self._lanes[session_id] = (lock, users - 1)

    async def row(self, session_id: SessionId) -> AgentState | None:
        """The stored row of a session, read together with those that others ask for now."""
        return await self._rows.get(session_id)

    async def open(self, session_id: SessionId) -> Runner:
        """The session's runner, started if it was not in memory. Call it inside the session's lane.

        Raises `RefusedError` for a session that is not stored.
        """
        runner = self.SESSIONS.get(session_id)
        if runner is not None:
            return runner
        await self._catch_up(session_id)
        row = await self.row(session_id)
        if row is None:
            raise RefusedError(f"there is no session {session_id!r}; it was never created, or its create failed")
        return await self.open_row(row)

    async def _catch_up(self, session_id: SessionId) -> None:
        """Bring the row of a session that lost its store up to the journal before anybody opens it.

        What it knew is stored first; then come the steps whose commit was not answered though it was made.
        """
        session = self.lost.get(session_id)
        if session is None:
            return
        if self.ownership.epoch_of(session.lane) != session.epoch:  # whoever took the lane brings its rows up to date
            del self.lost[session_id]
            return
        await self.ownership.confirm(session.lane, session.epoch)
        await self._projector.stored(session)
        for step in await list_agent_steps_since_iteration(self._services.db, session_id, session.iteration):
            self._projector.fold(session, step)
        await self._projector.stored(session)
        self._projector.settle(session_id)
        self.lost.pop(session_id, None)

    async def open_row(self, row: AgentState) -> Runner:
        """Start the runner of a stored session; raises `ParkedError` when it is another worker's."""
        if not self.ownership.holds(row.place):
            raise ParkedError(f"session {row.session_id!r} is in lane {row.place!r}, which another worker owns")
        session = session_of_row(row, owner=self.ownership.owner, epoch=self.ownership.epoch_of(row.place))
        await self._load_cursor(session)
        return self.start(session, reopened=True)

    def start(self, session: LiveSession, *, reopened: bool) -> Runner:
        """Put a session into memory and run it."""
        if not self.ownership.holds(session.lane):
            raise ParkedError(f"lane {session.lane!r} is being given to another worker; the action stays open for it")
        moniker, config = self.moniker_of(session.spec)
        runner = Runner(session, moniker, config, self._workplace, reopened=reopened)
        self.SESSIONS[session.session_id] = runner
        task = runner.start()
        task.set_name(f"session {session.session_id} ({session.spec.moniker})")
        task.add_done_callback(self._look_at_end)
        return runner

    def moniker_of(self, spec: SessionSpec) -> tuple[Moniker[Any], BaseModel]:
        """What runs a session, and its config; raises `MonikerInputError` when this worker cannot run it."""
        moniker = self._catalogue.get(spec.moniker)
        return moniker, self._catalogue.check(moniker, spec.config, spec.task)

    def remember_latest(self, agent_id: AgentId, session_id: SessionId) -> None:
        """Note the newest session of an agent; the oldest notes go when there are very many."""
        self.AGENT_LATEST.pop(agent_id, None)
        self.AGENT_LATEST[agent_id] = session_id
        if len(self.AGENT_LATEST) > _MAX_LATEST:
            del self.AGENT_LATEST[next(iter(self.AGENT_LATEST))]

    def forget_latest(self, action: Action) -> None:
        """Take back what was noted for a create that was refused; the store is asked the next time."""
        if action.agent_id is not None and self.AGENT_LATEST.get(action.agent_id) == action.session_id:
            self.AGENT_LATEST.pop(action.agent_id, None)

    async def latest_session(self, agent_id: AgentId) -> SessionId:
        """The newest session of an agent, whoever runs it; raises `RefusedError` when it has none.

        Another worker may have created one that was never seen pending here, so the store is asked; a session whose
        create is in hand and that has no row yet is newer than those that have one.
        """
        known = self.AGENT_LATEST.get(agent_id)
        if known is not None and not await self._is_stored(known):  # asked first: it may be stored a moment later
            return known
        row = await find_agent_state(self._services.db, agent_id=agent_id)
        if row is None:
            raise RefusedError(f"agent {agent_id!r} has no session; create one first")
        return row.session_id

    async def _is_stored(self, session_id: SessionId) -> bool:
        return await find_agent_state(self._services.db, session_id=session_id) is not None

    def drain_now(self, lanes: Collection[LaneId]) -> None:
        """Have the runners of `lanes` take no further step."""
        for runner in self._in(lanes):
            runner.drain()

    async def drain_lanes(self, lanes: Collection[LaneId], *, grace_s: float) -> None:
        """Let the runners of `lanes` leave after their step; after `grace_s` seconds running steps are cancelled."""
        await _let_leave(self._in(lanes), grace_s=grace_s)

    async def abandon(self, lanes: Collection[LaneId]) -> None:
        """Have the runners of `lanes` leave at once, with nothing stored: their sessions run elsewhere.

        One whose moniker does not let itself be cancelled is left behind: what it does is never shown, and nothing
        waits for it, least of all the beats.
        """
        runners = self._in(lanes)
        self.lost = {key: session for key, session in self.lost.items() if session.lane not in lanes}
        for runner in runners:
            runner.abandon()
        if runners:
            await asyncio.wait([asyncio.ensure_future(runner.ended()) for runner in runners], timeout=_ABANDON_S)
        for runner in runners:
            if self.SESSIONS.get(runner.session.session_id) is runner:
                del self.SESSIONS[runner.session.session_id]

    def _in(self, lanes: Collection[LaneId]) -> list[Runner]:
        return [runner for runner in self.SESSIONS.values() if runner.session.lane in lanes]

    async def _read_rows(self, session_ids: Any) -> dict[SessionId, AgentState]:
        return await get_agent_states(self._services.db, session_ids)

    async def _load_cursor(self, session: LiveSession) -> None:
        conversation_id = session.identity.conversation_id
        if session.spec.delivery is Delivery.PULL and conversation_id is not None:
            session.pulled_to = await find_cursor(self._services.db, session.session_id, conversation_id)

    def _forget(self, runner: Runner) -> None:
        session = runner.session
        if self.SESSIONS.get(session.session_id) is runner:
            del self.SESSIONS[session.session_id]
        owned = self.ownership.holds(session.lane) and self.ownership.epoch_of(session.lane) == session.epoch
        if runner.lost_store and owned:
            self.lost[session.session_id] = session
        if session.status is SessionStatus.WAITING and session.wake_at is not None:
            self._sleep(session.session_id, session.wake_at)

    def _look_at_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._services.log.error("a runner broke; its session goes on at the next start", exc_info=error)


async def _let_leave(runners: Sequence[Runner], *, grace_s: float) -> None:
    for runner in runners:
        runner.drain()
    leaving = [asyncio.ensure_future(runner.ended()) for runner in runners]
    if not leaving:
        return
    _, late = await asyncio.wait(leaving, timeout=grace_s)
    for runner in runners:
        runner.cancel_step()
    if late:
        await asyncio.wait(late)
