"""Waiting for tasks until a moment on the engine's clock, and letting go of those that do not end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from monikers.copilot.clock import Clock

AnyTask = asyncio.Task[Any]


async def settle(tasks: Iterable[AnyTask], clock: Clock, seconds: float | None) -> None:
    """Return when all `tasks` are done or `seconds` have passed (None: however long it takes). Cancels none of them."""
    pending = [task for task in tasks if not task.done()]
    if not pending:
        return
    over = asyncio.get_running_loop().create_future()
    waiting = set(pending)

    def ended(task: AnyTask) -> None:
        waiting.discard(task)
        if not waiting and not over.done():
            over.set_result(None)

    alarm = None if seconds is None else asyncio.ensure_future(clock.sleep(seconds))
    try:
        for task in pending:
            task.add_done_callback(ended)
        if alarm is not None:
            alarm.add_done_callback(lambda _: None if over.done() else over.set_result(None))
        await over
    finally:
        for task in pending:
            task.remove_done_callback(ended)
        if alarm is not None:
            alarm.cancel()


class Abandoned:
    """Tasks that were cancelled and are waited for no more. Held until they end: a task that nobody holds may vanish in
    the middle of its cleaning up."""

    def __init__(self) -> None:
        self._tasks: set[AnyTask] = set()

    def add(self, task: AnyTask) -> None:
        """Cancel a task and let go of it; whatever becomes of it is dropped."""
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        task.cancel()

    def _ended(self, task: AnyTask) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # asked for, or asyncio complains that nobody did

    def __len__(self) -> int:
        return len(self._tasks)
