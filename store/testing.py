"""Fakes for what the store gets from outside: time that stands still, ids that count. They ship for tests."""

from __future__ import annotations

import asyncio
import heapq
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)


class FrozenClock:
    """Time that stands still until it is moved on; a sleeper wakes when its moment has come."""

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._now = start
        self._sleepers: list[tuple[datetime, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return (self._now - self._start).total_seconds()

    async def sleep(self, seconds: float) -> None:
        wakes = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + timedelta(seconds=seconds), id(wakes), wakes))
        await wakes

    @property
    def sleepers(self) -> int:
        """How many tasks wait for the clock to move."""
        return sum(1 for *_, wakes in self._sleepers if not wakes.done())

    def advance(self, seconds: float) -> None:
        """Move on by `seconds` and wake whoever waited for a moment up to then."""
        self._now += timedelta(seconds=seconds)
        while self._sleepers and self._sleepers[0][0] <= self._now:
            *_, wakes = heapq.heappop(self._sleepers)
            if not wakes.done():
                wakes.set_result(None)


class TickingClock(FrozenClock):
    """A frozen clock that moves on a little whenever it is asked, so that no two rows have the same time."""

    def __init__(self, start: datetime = START, *, step: timedelta = timedelta(milliseconds=1)) -> None:
        super().__init__(start)
        self._step = step

    def now(self) -> datetime:
        self.advance(self._step.total_seconds())
        return self._now


class CountingIds:
    """Ids that can be foretold: `id-000001`, `id-000002`, ..."""

    def __init__(self, prefix: str = "id-") -> None:
        self._prefix = prefix
        self._last = 0

    def new(self) -> str:
        self._last += 1
        return f"{self._prefix}{self._last:06d}"
