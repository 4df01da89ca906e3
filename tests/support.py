"""Help for tests of every folder. The one place where a test may wait for time to pass."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

from hypothesis import HealthCheck, settings

Check = Callable[[], bool | Awaitable[bool]]


async def eventually(check: Check, deadline_s: float = 10, every_s: float = 0.01) -> None:
    """Return once `check()` is true; fail when it still is not after `deadline_s`."""
    until = time.monotonic() + deadline_s
    while True:
        answer = check()
        if await answer if inspect.isawaitable(answer) else answer:
            return
        if time.monotonic() >= until:
            raise AssertionError(f"still not so after {deadline_s:g} s: {check}")
        await asyncio.sleep(every_s)


def examples(count: int) -> settings:
    """Settings of a hypothesis test: so many examples, however slow one is, on a store shared by all of them."""
    shared = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(max_examples=count, deadline=None, suppress_health_check=shared)
