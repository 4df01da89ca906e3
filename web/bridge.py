"""From the web server's threads to the store's asyncio loop, and back with the answer.

The store is async only; the web server is not. One loop runs in a real thread. Under eventlet a green thread waits for
it through eventlet's pool of real threads, so the others go on; nothing is monkey-patched (LanceDB hangs when it is).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeVar, assert_never, cast

from web.settings import AsyncMode

try:
    import uvloop as loops
except ImportError:  # it is not there on every system; asyncio's own loop does the same
    import asyncio as loops  # type: ignore[no-redef]

T = TypeVar("T")

PATIENCE_S = 30.0
FOREVER = math.inf
GRACE_S = 2.0
_WAITING_THREADS = 100


class StoreBridge:
    """One asyncio loop in a thread of its own."""

    def __init__(self, mode: AsyncMode, patience_s: float = PATIENCE_S) -> None:
        self.mode = mode
        self._patience_s = patience_s
        _allow_many_waits(mode)
        self._loop: asyncio.AbstractEventLoop = loops.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="store", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """The result of `work` on the loop. Raises `TimeoutError` when it takes too long; the work is then cancelled.

        Without a `timeout` it may take `patience_s` seconds; with `FOREVER` any time.

        Not for the loop's own thread, which would wait for itself.
        """
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return self.wait_outside(partial(future.result, self._limit(timeout)))
        except BaseException:
            future.cancel()
            raise

    def _limit(self, timeout: float | None) -> float | None:
        chosen = self._patience_s if timeout is None else timeout
        return None if chosen == FOREVER else chosen

    def wait_outside(self, wait: Callable[[], T]) -> T:
        """The result of a call that blocks its thread for long, while this server's other tasks go on."""
        match self.mode:
            case AsyncMode.THREADING:
                return wait()
            case AsyncMode.EVENTLET:
                # Imported only where it is used: its import warns, and threads need none of it.
                from eventlet import tpool

                return cast(T, tpool.execute(wait))
        assert_never(self.mode)

    def close(self) -> None:
        """End what still runs, stop the loop and its thread."""
        if self._loop.is_closed():
            return
        with contextlib.suppress(TimeoutError):
            self.run(_finish_others(), timeout=5.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()


def _allow_many_waits(mode: AsyncMode) -> None:
    """While the store is away requests wait in a thread of eventlet's pool; with its own 20 others would queue."""
    if mode is AsyncMode.EVENTLET:
        from eventlet import tpool

        tpool.set_num_threads(_WAITING_THREADS)


def new_lock(mode: AsyncMode) -> AbstractContextManager[Any]:
    """A mutual exclusion for the web server's threads or green threads, whichever it has."""
    match mode:
        case AsyncMode.THREADING:
            return threading.Lock()
        case AsyncMode.EVENTLET:
            from eventlet.semaphore import Semaphore

            return cast(AbstractContextManager[Any], Semaphore(1))
    assert_never(mode)


async def _finish_others() -> None:
    """Give what is in flight a moment to end by itself; then cancel it."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    if tasks:
        await asyncio.wait(tasks, timeout=GRACE_S)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
