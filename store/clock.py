"""The one place that time, ids and randomness come from; tests put another in its place.

No other module of the product may ask the operating system for any of the three (tests/test_layout.py).
"""

from __future__ import annotations

import asyncio
import random
import time
from datetime import UTC, datetime
from typing import Protocol

from ulid import ULID


class Clock(Protocol):
    """Time as the runtime sees it."""

    def now(self) -> datetime:
        """The current time in UTC with microseconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds` of `monotonic`."""
        ...


class Ids(Protocol):
    """A source of new ids."""

    def new(self) -> str:
        """A fresh id that sorts after every id this source gave before."""
        ...


class Chance(Protocol):
    """A source of randomness, for jitter."""

    def uniform(self, low: float, high: float) -> float:
        """A number between `low` and `high`."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SystemIds:
    """ULIDs that rise strictly, also within one millisecond and when the clock goes back."""

    def __init__(self) -> None:
        self._last = 0

    def new(self) -> str:
        value = max(int(ULID()), self._last + 1)
        self._last = value
        return str(ULID.from_int(value))


class SystemChance(random.Random):
    """The standard generator, seeded by the operating system."""
