"""Group commit: what many callers want written at the same time becomes one commit, and each learns of it.

A commit costs about the same for 1 row as for 500, so waiting callers share one. While a commit is under way the next
group gathers. A caller that returns from `submit` knows that its item is stored; one that is cancelled or gets an
error knows nothing and must look before it writes again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

Commit = Callable[[Sequence[T]], Awaitable[int]]
OnCommit = Callable[[Sequence[T], int], None]


class GroupCommit(Generic[T]):
    """A queue in front of one commit function. `commit(items)` stores all of them and returns the table's version."""

    def __init__(self, commit: Commit[T], *, max_items: int, on_commit: OnCommit[T] | None = None) -> None:
        self._commit = commit
        self._max_items = max_items
        self._on_commit = on_commit
        self._waiting: list[tuple[T, asyncio.Future[int]]] = []
        self._flushing: asyncio.Task[None] | None = None

    def submit(self, item: T) -> asyncio.Future[int]:
        """Put `item` into the next commit; the future gives the version that holds it."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._flush())
        return future

    async def drained(self) -> None:
        """Return when everything submitted so far is stored or has failed."""
        while self._flushing is not None:
            await asyncio.wait([self._flushing])

    async def _flush(self) -> None:
        # One turn of the loop lets every task that is ready now join the first group.
        await asyncio.sleep(0)
        try:
            while self._waiting:
                group, self._waiting = self._waiting[: self._max_items], self._waiting[self._max_items :]
                await self._commit_group(group)
        finally:
            self._flushing = None

    async def _commit_group(self, group: list[tuple[T, asyncio.Future[int]]]) -> None:
        items = [item for item, _ in group]
        try:
            version = await self._commit(items)
        except Exception as error:
            await self._settle_failure(group, error)
            return
        self._settle(group, version)

    async def _settle_failure(self, group: list[tuple[T, asyncio.Future[int]]], error: Exception) -> None:
        """One bad item must not fail its neighbours: a refused group is tried again item by item."""
        if len(group) > 1 and isinstance(error, ValueError):
            for entry in group:
                await self._commit_group([entry])
            return
        for _, future in group:
            if not future.done():
                future.set_exception(error)

    def _settle(self, group: list[tuple[T, asyncio.Future[int]]], version: int) -> None:
        if self._on_commit is not None:
            self._on_commit([item for item, _ in group], version)
        for _, future in group:
            if not future.done():
                future.set_result(version)
