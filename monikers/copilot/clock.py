"""Time and ids of the engine: the library's own, so that it needs no store; a test or a host passes others.

Any clock with these three methods will do, that of the runtime too.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Time as the engine sees it."""

    def now(self) -> datetime:
        """The current time in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds` of `monotonic`."""
        ...


class MachineClock:
    """The machine's own clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def new_id() -> str:
    """A fresh random id (a UUID as text)."""
    return str(uuid.uuid4())
