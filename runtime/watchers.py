"""Watchers: tasks that wait until something holds, looked at whenever something has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Watchers:
    """The conditions that are waited for, and who waits for each."""

    def __init__(self) -> None:
        self._entries: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when `condition` holds, or when everybody is let go."""
        if condition():
            return
        future = asyncio.get_running_loop().create_future()
        self._entries.append((condition, future))
        await future

    def look(self) -> None:
        """Something has changed: let those go whose condition holds now."""
        if not self._entries:
            return
        met = [entry for entry in self._entries if entry[0]()]
        self._entries = [entry for entry in self._entries if entry not in met]
        _let_go(met)

    def release(self) -> None:
        """Let everybody go: nothing changes any more."""
        _let_go(self._entries)


def _let_go(entries: list[tuple[Callable[[], bool], asyncio.Future[None]]]) -> None:
    for _, future in entries:
        if not future.done():
            future.set_result(None)
