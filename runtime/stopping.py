"""How a worker is asked to stop."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from typing import Final

#: a worker whose parent died has this long to store what it has; then it ends where it stands
ORPHAN_S: Final = 4.0


def stop_event(*, until_stdin_closes: bool) -> asyncio.Event:
    """An event that SIGTERM, Ctrl-C or, if asked for, the end of standard input sets. Call it inside the loop.

    A second signal ends the process at once: what is stored is whole, and the next start carries on. So does a parent
    that has been dead for `ORPHAN_S` seconds, even when the loop is blocked.
    """
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stop_or_leave, stop)
    if until_stdin_closes:
        threading.Thread(target=_follow_parent, args=(stop, loop), name="parent watch", daemon=True).start()
    return stop


def _stop_or_leave(stop: asyncio.Event) -> None:
    if stop.is_set():
        os._exit(1)
    stop.set()


def _follow_parent(stop: asyncio.Event, loop: asyncio.AbstractEventLoop) -> None:
    """Read standard input to its end: a thread, because a blocked loop reads nothing."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    try:
        loop.call_soon_threadsafe(stop.set)
    except RuntimeError:  # the loop is closed: the process is about to end anyway
        return
    time.sleep(ORPHAN_S)
    os._exit(1)
