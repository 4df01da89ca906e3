"""Help for tests of every folder. The one place where a test may wait for time to pass."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

from hypothesis import HealthCheck, settings

Check = Callable[[], bool | Awaitable[bool]]

_SHORTEST_DEADLINE_S = 30.0


async def eventually(check: Check, deadline_s: float = 30, every_s: float = 0.01) -> None:
    """Return once `check()` is true; fail when it still is not after `deadline_s`.

    A deadline costs a good run nothing, so none is shorter than half a minute: how long it takes says how busy the
    machine is.
    """
    until = time.monotonic() + max(deadline_s, _SHORTEST_DEADLINE_S)
    while True:
        answer = check()
        if await answer if inspect.isawaitable(answer) else answer:
            return
        if time.monotonic() >= until:
            raise AssertionError(f"still not so after {max(deadline_s, _SHORTEST_DEADLINE_S):g} s: {check}")
        await asyncio.sleep(every_s)


def examples(count: int) -> settings:
    """Settings of a hypothesis test: so many examples, however slow one is, on a store shared by all of them."""
    shared = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(max_examples=count, deadline=None, suppress_health_check=shared)
