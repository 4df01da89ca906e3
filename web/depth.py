"""How many actions are open, and no to more of them when there are too many.

A request costs nothing here: it sees a number that is counted anew in the background, at most once a second, and what
this process let in since then is added. Another web process, or a worker, may put more in meanwhile: the limit bounds
the queue, it does not count it to the last action.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import structlog

from store import StoreError, TenantStore
from store.actions import count_open_actions
from web.problems import Problem, RefusedError

FRESH_S: Final = 1.0
RETRY_AFTER_S: Final = 5

_log = structlog.get_logger(__name__)


class QueueDepth:
    """The bound of the queue; 0 is none. Used on the store's loop only."""

    def __init__(self, db: TenantStore, limit: int) -> None:
        self._db = db
        self._limit = limit
        self._counted: int | None = None
        self._counted_at = 0.0
        #: requests that put something in: those at it, those that have ended, and how many had at the last count
        self._at_it = 0
        self._ended = 0
        self._ended_at_count = 0
        self._counting: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def room(self) -> AsyncIterator[None]:
        """Room for one more action within the context; raises the 429 that says when to come again."""
        if not self._limit:
            yield
            return
        await self._admit()
        self._at_it += 1
        try:
            yield
        finally:
            self._at_it -= 1
            self._ended += 1

    async def _admit(self) -> None:
        if self._stale() and self._counting is None:
            self._counting = asyncio.create_task(self._count(self._ended))
        if self._counted is None and self._counting is not None:
            await asyncio.shield(self._counting)
        open_actions = (self._counted or 0) + self._ended - self._ended_at_count + self._at_it
        if open_actions >= self._limit:
            raise RefusedError(
                Problem(
                    429,
                    f"the queue holds {open_actions} open actions, and {self._limit} is its limit; come again in "
                    f"{RETRY_AFTER_S} s, start another worker, or raise STEPWELL_MAX_QUEUE",
                    headers={"Retry-After": str(RETRY_AFTER_S)},
                )
            )

    def _stale(self) -> bool:
        return self._counted is None or self._db.clock.monotonic() - self._counted_at >= FRESH_S

    async def _count(self, ended: int) -> None:
        """Count what is stored; what `ended` requests had put in by now is in it."""
        try:
            self._counted = await count_open_actions(self._db)
            self._counted_at = self._db.clock.monotonic()
            self._ended_at_count = ended
        except StoreError as error:
            _log.warning("the queue cannot be counted; its last count stands", error=str(error))
        finally:
            self._counting = None
