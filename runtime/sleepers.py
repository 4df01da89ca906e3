"""Sleepers: waiting sessions that a moment wakes. They cost one heap entry each, not a task."""

from __future__ import annotations

import asyncio
import heapq
from datetime import datetime, timedelta
from typing import Any

from runtime.approvals.deadlines import Deadlines
from runtime.contract import MonikerInputError
from runtime.errors import ParkedError, RefusedError
from runtime.firstof import first_of
from runtime.registry import Registry
from store.agent_state import SessionStatus
from store.clock import Clock
from store.errors import StoreError
from store.ids import SessionId

#: a wall clock that was wrong and is right again delays nobody for longer
_LONGEST_WAIT_S = 5.0
_AFTER_FAILURE = timedelta(seconds=1)


class SleepList:
    """The moments to wake sessions at, soonest first."""

    def __init__(self) -> None:
        self._heap: list[tuple[datetime, SessionId]] = []
        self.news = asyncio.Event()

    def add(self, session_id: SessionId, wake_at: datetime) -> None:
        """Wake a session at `wake_at`. One that wakes earlier for another reason is left alone then."""
        heapq.heappush(self._heap, (wake_at, session_id))
        self.news.set()

    def take_due(self, now: datetime) -> list[SessionId]:
        """The sessions whose moment has come; they leave the list."""
        due = []
        while self._heap and self._heap[0][0] <= now:
            due.append(heapq.heappop(self._heap)[1])
        return due

    def seconds_to_next(self, now: datetime) -> float:
        """How long nothing is due; bounded, since the wall clock may be set meanwhile."""
        if not self._heap:
            return _LONGEST_WAIT_S
        return min(max(0.0, (self._heap[0][0] - now).total_seconds()), _LONGEST_WAIT_S)


class Sleepers:
    """Opens each sleeping session when its moment has come."""

    def __init__(
        self, registry: Registry, sleeping: SleepList, clock: Clock, log: Any, deadlines: Deadlines | None = None
    ) -> None:
        self._deadlines = deadlines
        self._registry = registry
        self._sleeping = sleeping
        self._clock = clock
        self._log = log

    async def run(self) -> None:
        """Wake sessions until cancelled."""
        while True:
            self._sleeping.news.clear()
            for session_id in self._sleeping.take_due(self._clock.now()):
                await self._wake(session_id)
            pause = self._clock.sleep(self._sleeping.seconds_to_next(self._clock.now()))
            await first_of(pause, self._sleeping.news.wait())

    async def _wake(self, session_id: SessionId) -> None:
        try:
            async with self._registry.lane(session_id):
                await self._open(session_id)
        except StoreError as error:
            self._sleeping.add(session_id, self._clock.now() + _AFTER_FAILURE)
            self._log.warning("a sleeping session was not read; trying again", session_id=session_id, error=str(error))
        except (RefusedError, ParkedError, MonikerInputError) as error:
            self._log.warning("a sleeping session was not woken", session_id=session_id, error=str(error))

    async def _open(self, session_id: SessionId) -> None:
        row = await self._registry.row(session_id)
        if row is not None and row.status is SessionStatus.WAITING and session_id not in self._registry.SESSIONS:
            runner = await self._registry.open_row(row)
            if self._deadlines is not None:
                await self._deadlines.look(runner)
