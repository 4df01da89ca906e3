"""Processes on one local folder take turns at commits: one advisory lock file a table.

Measured: with the lock the p99 of an append beside a compacting process falls from 66 to 26 ms and the worst from
2.2 s to 36 ms. On object storage there is no such lock; Lance's optimistic commits order the writers there.
The kernel drops the lock when its process dies, so a killed process never blocks another.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path


class CommitLock:
    """A mutual exclusion among the processes of this machine, and among the tasks of this process."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._turn = asyncio.Lock()
        self._file: int | None = None

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Enter when nobody else holds the lock. Cancelling while waiting leaves nothing behind."""
        async with self._turn:
            await self._take()
            try:
                yield
            finally:
                self._give_back()

    async def _take(self) -> None:
        if self._path is None:
            return
        if self._file is None:
            self._file = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        if not _try_flock(self._file):
            file, self._file = self._file, None
            self._file = await _flock_in_thread(file)

    def _give_back(self) -> None:
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the lock file; a held lock is released with it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


async def _flock_in_thread(file: int) -> int:
    """Wait for the lock on `file`, which is the waiter's own until then; the next comer opens another one."""
    waiting = asyncio.ensure_future(asyncio.to_thread(fcntl.flock, file, fcntl.LOCK_EX))
    try:
        await asyncio.shield(waiting)
    except BaseException:
        # The thread cannot be stopped: it still gets the lock, and closing its file gives that back.
        waiting.add_done_callback(lambda _: os.close(file))
        raise
    return file


def _try_flock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class ProcessRole:
    """A role that one process at a time may have on a folder (the worker), for as long as it lives."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)

    def try_take(self) -> bool:
        """Take the role if nobody has it."""
        return _try_flock(self._file)

    async def take(self) -> None:
        """Wait until the role is free and take it. A cancelled wait is only for a process about to exit."""
        if not self.try_take():
            await asyncio.to_thread(fcntl.flock, self._file, fcntl.LOCK_EX)

    def close(self) -> None:
        """Give the role back."""
        os.close(self._file)
