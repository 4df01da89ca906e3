"""How a worker is asked to stop."""

from __future__ import annotations

import asyncio
import os
import signal
import sys


def stop_event(*, until_stdin_closes: bool) -> asyncio.Event:
    """An event that SIGTERM, Ctrl-C or, if asked for, the end of standard input sets. Call it inside the loop.

    A second signal ends the process at once: what is stored is whole, and the next start carries on.
    """
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stop_or_leave, stop)
    if until_stdin_closes:
        loop.add_reader(sys.stdin.fileno(), _stop_at_end_of_input, stop, loop)
    return stop


def _stop_or_leave(stop: asyncio.Event) -> None:
    if stop.is_set():
        os._exit(1)
    stop.set()


def _stop_at_end_of_input(stop: asyncio.Event, loop: asyncio.AbstractEventLoop) -> None:
    if not os.read(sys.stdin.fileno(), 1):
        loop.remove_reader(sys.stdin.fileno())
        stop.set()
