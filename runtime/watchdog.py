"""The watchdog: names what holds the event loop, from a thread of its own.

A moniker that blocks (`time.sleep`, a long computation) stops every session of its worker and its heartbeats. When
that lasts for the lease time, other workers take the sessions over; this worker goes on with what is left to it when
it comes back. Nothing in the process can end such a step, but its operator can be told which one it is.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from contextlib import suppress
from typing import Any

from store.clock import Clock

#: the loop is looked after so often
_EVERY_S = 0.5
#: so many looks without a turn of the loop mean that it stands still
_LOOKS = 4
_FRAMES = 4


class Watchdog:
    """Tells the log when the loop did not turn for some looks of the thread, and again when it goes on."""

    def __init__(self, clock: Clock, log: Any, *, every_s: float = _EVERY_S, looks: int = _LOOKS) -> None:
        self._clock = clock
        self._log = log
        self._every_s = every_s
        self._looks = looks
        self._turns = 0
        self._told = False
        self._ended = threading.Event()

    async def run(self) -> None:
        """Show that the loop turns, until cancelled; the thread that looks at it ends with this."""
        loop, main = asyncio.get_running_loop(), threading.get_ident()
        threading.Thread(target=self._look, args=(loop, main), name="watchdog", daemon=True).start()
        try:
            while True:
                await self._clock.sleep(self._every_s)
                self._turns += 1
                if self._told:
                    self._told = False
                    self._log.warning("the worker goes on after it stood still")
        finally:
            self._ended.set()

    def _look(self, loop: asyncio.AbstractEventLoop, main: int) -> None:
        # Counting its own waits, not asking a clock: the machine may have slept, a test may have leapt ahead.
        seen, still = -1, 0
        while not self._ended.wait(self._every_s):
            still = still + 1 if self._turns == seen else 0
            seen = self._turns
            if still == self._looks:
                self._told = True
                self._tell(loop, main, still * self._every_s)

    def _tell(self, loop: asyncio.AbstractEventLoop, main: int, still_s: float) -> None:
        task = None
        with suppress(RuntimeError):  # the loop may be changing tasks at this moment
            task = asyncio.current_task(loop)
        frame = sys._current_frames().get(main)
        where = "".join(traceback.format_stack(frame)[-_FRAMES:]) if frame is not None else ""
        self._log.error(
            "the worker stands still: a step blocks its event loop; await instead, or run it elsewhere",
            task=None if task is None else task.get_name(),
            seconds=round(still_s, 1),
            where=where,
        )
