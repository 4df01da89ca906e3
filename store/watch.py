"""Waiting for a commit by any process, at almost no cost.

On a local folder under Linux the kernel tells (inotify on the tables' `_versions` folders); elsewhere the version is
asked for, often while things happen and seldom when nothing does. A wake-up is a hint: the reader looks at versions.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from store.errors import StoreUnavailableError
from store.table import Table

if sys.platform == "linux":
    from asyncinotify import Inotify, Mask

_SHORTEST_ASK_S = 0.02
LONGEST_ASK_S = 0.5


class CommitWatch(Protocol):
    """Waits for commits to some tables. Use it as an async context manager."""

    async def __aenter__(self) -> CommitWatch: ...

    async def __aexit__(self, *_: object) -> None: ...

    async def wait(self) -> None:
        """Return once something was committed since the last return; at once if that has happened already."""
        ...


def watch_commits(folder: Path | None, tables: Sequence[Table], *, ask_s: float = LONGEST_ASK_S) -> CommitWatch:
    """The cheapest watch that works here; one that has to ask asks at least every `ask_s` seconds."""
    if folder is not None and sys.platform == "linux":
        # The number of watches a user may have is limited; asking works without one.
        with contextlib.suppress(OSError):
            return _KernelWatch([folder / f"{table.spec.name}.lance" / "_versions" for table in tables])
    return _AskingWatch(tables, ask_s)


class _KernelWatch:
    def __init__(self, folders: Sequence[Path]) -> None:
        self._news = asyncio.Event()
        self._inotify = Inotify()
        self._reader: asyncio.Task[None] | None = None
        try:
            for folder in folders:
                self._inotify.add_watch(folder, Mask.CREATE | Mask.MOVED_TO)
        except OSError:
            self._inotify.close()
            raise

    async def __aenter__(self) -> CommitWatch:
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._reader is not None:
            self._reader.cancel()
        self._inotify.close()

    async def wait(self) -> None:
        if self._reader is None or self._reader.done():
            raise StoreUnavailableError("the kernel no longer tells of commits; start the process again")
        await self._news.wait()
        self._news.clear()

    async def _read(self) -> None:
        try:
            async for _ in self._inotify:
                self._news.set()
        finally:
            self._news.set()  # whoever waits sees at its next wait that nobody reads


class _AskingWatch:
    """Asks for versions. A store that cannot be read has no news: whoever reads it learns what is wrong."""

    def __init__(self, tables: Sequence[Table], longest_s: float) -> None:
        self._tables = tables
        self._longest_s = longest_s
        self._seen: list[int] = []

    async def __aenter__(self) -> CommitWatch:
        self._seen = await self._versions()
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def wait(self) -> None:
        pause = min(_SHORTEST_ASK_S, self._longest_s)
        while (versions := await self._versions()) == self._seen:
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, self._longest_s)
        self._seen = versions

    async def _versions(self) -> list[int]:
        try:
            return list(await asyncio.gather(*[table.version() for table in self._tables]))
        except StoreUnavailableError:
            return self._seen
