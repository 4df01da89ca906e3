"""Group commit: what many callers want written at the same time becomes one commit, and each learns of it.

A commit costs about the same for 1 row as for 500, so waiting callers share one. While a commit is under way the next
group gathers. A caller that returns from `submit` knows that its item is stored; one that is cancelled or gets an
error knows nothing and must look before it writes again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

Commit = Callable[[Sequence[T]], Awaitable[int]]
OnCommit = Callable[[Sequence[T], int], None]


_PARTS = 4
_SMALLEST_PART = 32


@dataclass(frozen=True, slots=True)
class _Entry(Generic[T]):
    """What one caller handed over, and where its answer goes."""

    items: Sequence[T]
    stored: asyncio.Future[int]

    def answer(self, version: int) -> None:
        if not self.stored.done():
            self.stored.set_result(version)

    def fail(self, error: Exception) -> None:
        if not self.stored.done():
            self.stored.set_exception(error)


class GroupCommit(Generic[T]):
    """A queue in front of one commit function. `commit(items)` stores all of them and returns the table's version."""

    def __init__(self, commit: Commit[T], *, max_items: int, on_commit: OnCommit[T] | None = None) -> None:
        self._commit = commit
        self._max_items = max_items
        self._on_commit = on_commit
        self._waiting: deque[_Entry[T]] = deque()
        self._flushing: asyncio.Task[None] | None = None

    def submit(self, *items: T) -> asyncio.Future[int]:
        """Put `items` into the next commit, all of them; the future gives the version that holds them."""
        entry = _Entry(items, asyncio.get_running_loop().create_future())
        self._waiting.append(entry)
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._flush())
        return entry.stored

    async def drained(self) -> None:
        """Return when everything submitted so far is stored or has failed."""
        while self._flushing is not None:
            await asyncio.wait([self._flushing])

    async def _flush(self) -> None:
        # One turn of the loop lets every task that is ready now join the first group.
        await asyncio.sleep(0)
        try:
            while self._waiting:
                await self._commit_group(self._next_group())
        finally:
            self._flushing = None

    def _next_group(self) -> list[_Entry[T]]:
        group = [self._waiting.popleft()]
        size = len(group[0].items)
        while self._waiting and size + len(self._waiting[0].items) <= self._max_items:
            group.append(self._waiting.popleft())
            size += len(group[-1].items)
        return group

    async def _commit_group(self, group: list[_Entry[T]]) -> None:
        items = [item for entry in group for item in entry.items]
        try:
            version = await self._commit(items)
        except Exception as error:  # every caller learns of it
            await self._settle_failure(group, error)
            return
        self._announce(items, version)
        await self._answer(group, version)

    async def _answer(self, group: Sequence[_Entry[T]], version: int) -> None:
        """Answer a large group in parts: one part works while the next commit of another is under way.

        Answered at once, all of them would compute while no commit runs, and then wait together for one commit.
        """
        part = max(_SMALLEST_PART, -(-len(group) // _PARTS))
        for start in range(0, len(group), part):
            if start:
                await asyncio.sleep(0)
            for entry in group[start : start + part]:
                entry.answer(version)

    def _announce(self, items: Sequence[T], version: int) -> None:
        """A hook that fails must not keep the callers from learning that their items are stored."""
        try:
            if self._on_commit is not None:
                self._on_commit(items, version)
        except Exception as error:
            report = {"message": "a commit's hook failed; the commit stands", "exception": error}
            asyncio.get_running_loop().call_exception_handler(report)

    async def _settle_failure(self, group: list[_Entry[T]], error: Exception) -> None:
        """One bad item must not fail its neighbours: a refused group is tried again caller by caller."""
        if len(group) > 1 and isinstance(error, ValueError):
            for entry in group:
                await self._commit_group([entry])
            return
        for entry in group:
            entry.fail(error)
