"""The poller: sees what is new in the queue within milliseconds and costs next to nothing when nothing is.

One pass (`poll_once`) reads the rows that changed since the last one and hands those that are due to the dispatcher;
the loop around it waits for the first of: a commit to the queue, the next `not_before`, the end.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from runtime.dispatcher import Dispatcher
from runtime.firstof import first_of
from runtime.retries import RetryPace
from store import filters
from store.actions import Action, ActionStatus, get_action, list_open_actions_of_session, queue_of
from store.changes import Feed
from store.clock import Clock
from store.database import TenantStore
from store.errors import NotFoundError, StoreError
from store.ids import ActionId, SessionId
from store.schema import QUEUE

_IS_PENDING = filters.equals("status", ActionStatus.PENDING)
_AFTER_FAILURE_S = 1.0
#: the wall clock may be set meanwhile
_LONGEST_WAIT_S = 60.0
#: commits that come together are read together
_GATHER_S = 0.001


class Poller:
    """Follows the queue from a version on."""

    def __init__(self, db: TenantStore, dispatcher: Dispatcher, *, version: int, log: Any, pace: RetryPace) -> None:
        self._db = db
        self._clock: Clock = db.clock
        self._dispatcher = dispatcher
        self._feed: Feed[Action] = Feed(queue_of(db), "changed", version)
        self._log = log
        self._pace = pace
        self._later: list[tuple[datetime, ActionId]] = []
        self._reread: set[SessionId] = set()
        self._asked = asyncio.Event()

    def reread(self, session_id: SessionId, action_ids: Iterable[ActionId] = ()) -> None:
        """Read the session's open actions again, and `action_ids` that do not name it: it goes on, or has ended."""
        self._reread.add(session_id)
        for action_id in action_ids:
            heapq.heappush(self._later, (self._clock.now(), action_id))
        self._asked.set()

    def look_again(self, action_id: ActionId, moment: datetime) -> None:
        """Read an action again at `moment` and dispatch it if it is still open: its next try."""
        heapq.heappush(self._later, (moment, action_id))
        self._asked.set()

    async def run(self) -> None:
        """Poll whenever there may be something, until cancelled."""
        async with self._db.store.watch(QUEUE.name) as watch:
            while True:
                try:
                    await self.poll_once()
                except StoreError as error:
                    self._log.error("the queue cannot be read; trying again", error=str(error))
                    await self._clock.sleep(_AFTER_FAILURE_S)
                await first_of(watch.wait(), self._asked.wait(), self._clock.sleep(self._seconds_to_next()))
                await self._clock.sleep(_GATHER_S)

    async def poll_once(self) -> int:
        """Dispatch what is new and due; returns how many actions were started.

        What a read found is handed on before the next read: one that fails takes nothing with it.
        """
        self._asked.clear()
        ticket = self._dispatcher.ticket()
        started = 0
        while self._reread:
            # A fresh one: an action that was parked since, and for which this read is, must not look stale.
            again = self._dispatcher.ticket()
            started += self.offer(await self._open_again(), again)
        while self._later and self._later[0][0] <= self._clock.now():
            fresh = self._dispatcher.ticket()  # a try that ended after `ticket` may be the reason for this one
            started += self._take(await self._next_due(), fresh)
        return started + self.offer([row.item for row in await self._feed.poll(_IS_PENDING)], ticket)

    def offer(self, actions: list[Action], ticket: int) -> int:
        """Dispatch the actions that are due, keep the others until they are."""
        now = self._clock.now()
        overdue = [action for action in actions if action.attempts and _due(action, now)]
        for action in overdue:  # retries of an earlier worker, all at once: they wait for one another
            heapq.heappush(self._later, (self._pace.place(now, now), action.id))
        return self._take([action for action in actions if not (action.attempts and _due(action, now))], ticket)

    def _take(self, actions: list[Action], ticket: int) -> int:
        now = self._clock.now()
        for action in actions:
            if not _due(action, now):
                heapq.heappush(self._later, (action.not_before or now, action.id))
        return self._dispatcher.dispatch([action for action in actions if _due(action, now)], ticket)

    async def _open_again(self) -> list[Action]:
        session_id = self._reread.pop()
        try:
            return await list_open_actions_of_session(self._db, session_id)
        except StoreError:
            self._reread.add(session_id)
            raise

    async def _next_due(self) -> list[Action]:
        moment, action_id = heapq.heappop(self._later)
        try:
            action = await self._still_open(action_id)
        except StoreError:
            heapq.heappush(self._later, (moment, action_id))
            raise
        return [] if action is None else [action]

    async def _still_open(self, action_id: ActionId) -> Action | None:
        try:
            action = await get_action(self._db, action_id)
        except NotFoundError:
            return None
        return None if action.processed else action

    def _seconds_to_next(self) -> float:
        if not self._later:
            return _LONGEST_WAIT_S
        return min(max(0.0, (self._later[0][0] - self._clock.now()).total_seconds()), _LONGEST_WAIT_S)


def _due(action: Action, now: datetime) -> bool:
    return action.not_before is None or action.not_before <= now
