"""Serving the web process until it is asked to stop, in either async mode."""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from web.factory import Web
from web.listener import serve_eventlet
from web.settings import AsyncMode


class Stop:
    """A request to stop, from a signal or another thread. A socket carries it, so that either kind of loop wakes up."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)

    def request(self, _signal: int | None = None, _frame: FrameType | None = None) -> None:
        """Ask to stop; asking twice is fine."""
        with contextlib.suppress(OSError):
            self._writer.send(b".")

    def wait(self) -> None:
        """Block this thread until somebody asks."""
        self._reader.recv(1)

    def fileno(self) -> int:
        """What becomes readable when somebody asks."""
        return self._reader.fileno()

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Let SIGINT and SIGTERM ask, where this is the main thread; before and after they mean what they did."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {one: signal.signal(one, self.request) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def close(self) -> None:
        """Let the sockets go."""
        self._reader.close()
        self._writer.close()


def serve(web: Web, *, host: str | None = None, port: int | None = None, stop: Stop | None = None) -> None:
    """Serve until SIGINT, SIGTERM or `stop`, then close `web`. Returns normally: the process then ends with 0.

    Under eventlet call it from the thread that made `web`. Raises `OSError` when the address cannot be had.
    """
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    asked = stop or Stop()
    try:
        with asked.on_signals():
            _serve(web, host or web.settings.host, web.settings.port if port is None else port, asked)
    finally:
        web.close()
        if stop is None:
            asked.close()


def _serve(web: Web, host: str, port: int, stop: Stop) -> None:
    """The server is a background task, a thread or a green one, so that this thread can wait for the end."""
    failures: list[Exception] = []

    def run() -> None:
        try:
            if web.settings.async_mode is AsyncMode.EVENTLET:
                serve_eventlet(web.app, host, port)
            else:
                web.socketio.run(web.app, host=host, port=port, log_output=False, allow_unsafe_werkzeug=True)
        except Exception as error:  # raised again by the thread that waits
            failures.append(error)
        finally:
            stop.request()

    web.socketio.start_background_task(run)
    web.bridge.wait_outside(stop.wait)
    if failures:
        raise failures[0]
    if web.settings.async_mode is AsyncMode.THREADING:
        web.app.stop_running()  # eventlet's server ends with the process
