"""Requests of this process that use the same key take turns, so that "is it there? then store it" cannot be raced.

It protects a client's own id or idempotency key against its simultaneous double. Requests without one never wait, and
requests with different keys still share a commit. Two web processes are not kept apart by it: there the older row wins.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Turn:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class Turns:
    """One lock for each key in use; a key that nobody uses costs nothing."""

    def __init__(self) -> None:
        self._turns: dict[tuple[str, str], _Turn] = {}

    @property
    def busy(self) -> int:
        """How many keys are in use."""
        return len(self._turns)

    @asynccontextmanager
    async def of(self, **keys: str | None) -> AsyncIterator[None]:
        """Enter when nobody else uses one of `keys`. They are taken in one order, so nobody waits in a circle."""
        async with AsyncExitStack() as stack:
            for kind, key in sorted(keys.items()):
                if key is not None:
                    await stack.enter_async_context(self._one((kind, key)))
            yield

    @asynccontextmanager
    async def _one(self, key: tuple[str, str]) -> AsyncIterator[None]:
        turn = self._turns.setdefault(key, _Turn())
        turn.users += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.users -= 1
            if not turn.users:
                del self._turns[key]
