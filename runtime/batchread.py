"""Group reads: callers that ask for single keys at the same time share one read (the twin of group commit)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BatchRead(Generic[K, V]):
    """Answers `get(key)` from `read(keys)`, which gives a mapping of those that exist."""

    def __init__(self, read: Callable[[Sequence[K]], Awaitable[Mapping[K, V]]]) -> None:
        self._read = read
        self._waiting: dict[K, asyncio.Future[V | None]] = {}
        self._task: asyncio.Task[None] | None = None

    async def get(self, key: K) -> V | None:
        """The value of `key` as it is stored now, or None."""
        if key not in self._waiting:
            self._waiting[key] = asyncio.get_running_loop().create_future()
        if self._task is None:
            self._task = asyncio.create_task(self._serve())
        return await asyncio.shield(self._waiting[key])

    async def _serve(self) -> None:
        await asyncio.sleep(0)
        while self._waiting:
            wanted, self._waiting = self._waiting, {}
            await self._answer(wanted)
        self._task = None

    async def _answer(self, wanted: Mapping[K, asyncio.Future[V | None]]) -> None:
        try:
            found = await self._read(list(wanted))
        except Exception as error:  # every caller gets the reader's error
            for future in wanted.values():
                future.set_exception(error)
            return
        for key, future in wanted.items():
            future.set_result(found.get(key))
