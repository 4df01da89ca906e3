"""From the web server's threads to the store's asyncio loop, and back with the answer.

The store is async only; the web server is not. One loop runs in a real thread. Under eventlet a green thread waits for
it through eventlet's pool of real threads, so the others go on; nothing is monkey-patched (LanceDB hangs when it is).
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, TypeVar, assert_never, cast

from web.settings import AsyncMode

try:
    from uvloop import new_event_loop
except ImportError:
    from asyncio import new_event_loop

T = TypeVar("T")

PATIENCE_S = 30.0


class StoreBridge:
    """One asyncio loop in a thread of its own."""

    def __init__(self, mode: AsyncMode) -> None:
        self.mode = mode
        self._loop: asyncio.AbstractEventLoop = new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="store", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], timeout: float | None = PATIENCE_S) -> T:
        """The result of `work` on the loop. Raises `TimeoutError` when it takes too long; the work is then cancelled.

        Not for the loop's own thread, which would wait for itself.
        """
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return self._wait(future, timeout)
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Cancel what still runs, stop the loop and its thread."""
        if self._loop.is_closed():
            return
        with contextlib.suppress(TimeoutError):
            self.run(_cancel_others(), timeout=5.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _wait(self, future: Future[T], timeout: float | None) -> T:
        match self.mode:
            case AsyncMode.THREADING:
                return future.result(timeout)
            case AsyncMode.EVENTLET:
                from eventlet import (
                    tpool,  # only where it is used: importing eventlet warns, and threads need none of it
                )

                return cast(T, tpool.execute(future.result, timeout))
        assert_never(self.mode)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()


def new_lock(mode: AsyncMode) -> AbstractContextManager[Any]:
    """A mutual exclusion for the web server's threads or green threads, whichever it has."""
    match mode:
        case AsyncMode.THREADING:
            return threading.Lock()
        case AsyncMode.EVENTLET:
            from eventlet.semaphore import Semaphore

            return cast(AbstractContextManager[Any], Semaphore(1))
    assert_never(mode)


async def _cancel_others() -> None:
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
