"""Which sessions are in memory: SESSIONS[session_id] -> runner, AGENT_LATEST[agent_id] -> session_id (spec 1).

A waiting or paused session is not in memory; it is opened when something arrives for it. One session is opened by one
task at a time (its lane).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from pydantic import BaseModel

from runtime.batchread import BatchRead
from runtime.context import Services
from runtime.contract import Moniker
from runtime.errors import ParkedError, RefusedError
from runtime.projector import Projector
from runtime.runner import Runner
from runtime.session import LiveSession, session_of_row
from runtime.spec import SessionSpec
from store.actions import Action
from store.agent_state import AgentState, SessionStatus, find_agent_state, get_agent_states
from store.conversations import Delivery
from store.ids import AgentId, SessionId
from store.session_cursors import find_cursor

_MAX_LATEST = 100_000


class MonikerCatalogue(Protocol):
    """The monikers that this worker can run."""

    def get(self, name: str) -> Moniker[Any]:
        """The moniker; raises `MonikerInputError` for an unknown name."""
        ...

    def check(self, moniker: Moniker[Any], config: dict[str, Any], task: str) -> BaseModel:
        """The config as the moniker's model; raises `MonikerInputError`."""
        ...


@dataclass(frozen=True, slots=True)
class Ownership:
    """Who runs the sessions of this process."""

    owner: str
    epoch: int


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
    ) -> None:
        self.SESSIONS: dict[SessionId, Runner] = {}
        self.AGENT_LATEST: dict[AgentId, SessionId] = {}
        self._services = services
        self._projector = projector
        self._catalogue = catalogue
        self.ownership = ownership
        self._hold_s = hold_s
        self._sleep = sleep
        self._lanes: dict[SessionId, tuple[asyncio.Lock, int]] = {}
        self._rows: BatchRead[SessionId, AgentState] = BatchRead(self._read_rows)
        self._draining = False

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
        row = await self.row(session_id)
        if row is None:
            raise RefusedError(f"there is no session {session_id!r}; it was never created, or its create failed")
        return await self.open_row(row)

    async def open_row(self, row: AgentState) -> Runner:
        """Start the runner of a stored session."""
        session = session_of_row(row, owner=self.ownership.owner, epoch=self.ownership.epoch)
        await self._load_cursor(session)
        return self.start(session, reopened=True)

    def start(self, session: LiveSession, *, reopened: bool) -> Runner:
        """Put a session into memory and run it."""
        if self._draining:
            raise ParkedError("the worker is stopping; the action stays open for its next start")
        moniker, config = self.moniker_of(session.spec)
        runner = Runner(
            session,
            moniker,
            config,
            services=self._services,
            projector=self._projector,
            hold_s=self._hold_s,
            reopened=reopened,
            forget=self._forget,
        )
        self.SESSIONS[session.session_id] = runner
        runner.start().add_done_callback(self._look_at_end)
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
        """The newest session of an agent; raises `RefusedError` when it has none."""
        known = self.AGENT_LATEST.get(agent_id)
        if known is not None:
            return known
        row = await find_agent_state(self._services.db, agent_id=agent_id)
        if row is None:
            raise RefusedError(f"agent {agent_id!r} has no session; create one first")
        return row.session_id

    async def drain(self, *, grace_s: float) -> None:
        """Let every runner leave after its step; after `grace_s` seconds running steps are cancelled."""
        self._draining = True
        runners = list(self.SESSIONS.values())
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
        if session.status is SessionStatus.WAITING and session.wake_at is not None:
            self._sleep(session.session_id, session.wake_at)

    def _look_at_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._services.log.error("a runner broke; its session goes on at the next start", exc_info=error)
