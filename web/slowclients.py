"""Lets go of clients that do not read what they are sent, so that they cost neither memory nor the others' time.

A packet for a client waits in a queue until its connection takes it. A client that is half gone (its machine sleeps,
its network is cut without a word) takes nothing, and nothing bounds its queue until the next ping fails, 45 s later. So
the queues are looked at twice a second. Whoever is let go comes back with its cursor and misses nothing.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Any, Final

import structlog

LOOK_EVERY_S: Final = 0.5
#: a burst may pass the limit for a moment; a client is slow when it is beyond it at so many looks in a row
LOOKS: Final = 4
#: so many times the limit is too much at any time
FAR_TOO_MUCH: Final = 10

_log = structlog.get_logger(__name__)


class SlowClients:
    """The loop that looks, a background task of the Socket.IO server."""

    def __init__(self, server: Any, *, limit: int, stopping: Callable[[], bool]) -> None:
        self._server = server
        self._limit = limit
        self._stopping = stopping
        self._beyond: dict[str, int] = {}

    def run(self) -> None:
        """Look until the server stops."""
        while not self._stopping():
            self._server.sleep(LOOK_EVERY_S)
            self.once()

    def once(self) -> None:
        """Look at every connection, and drop those that are beyond the limit for too long."""
        waiting = {sid: one.queue.qsize() for sid, one in list(self._server.eio.sockets.items())}
        beyond = {sid: count for sid, count in waiting.items() if count > self._limit}
        self._beyond = {sid: self._beyond.get(sid, 0) + 1 for sid in beyond}
        for sid, count in beyond.items():
            if self._beyond[sid] >= LOOKS or count > self._limit * FAR_TOO_MUCH:
                self._drop(sid, count)

    def _drop(self, sid: str, waiting: int) -> None:
        _log.warning("a client does not read what it is sent; it is let go", packets=waiting)
        self._beyond.pop(sid, None)
        connection = _connection_of(self._server.environ.get(sid, {}))
        found = self._server.eio.sockets.get(sid)
        if connection is not None:
            with contextlib.suppress(OSError):  # it is gone already
                connection.shutdown(socket.SHUT_RDWR)
        if found is not None:
            found.close(wait=False, abort=True)
            _empty(found.queue)


def _connection_of(environ: dict[str, Any]) -> Any | None:
    """The TCP connection of a websocket; its writer hangs in it until it is shut. None for polling: nobody hangs."""
    if "websocket" not in environ.get("HTTP_UPGRADE", "").lower():
        return None
    if "eventlet.input" in environ:
        return environ["eventlet.input"].get_socket()
    return environ.get("werkzeug.socket")


def _empty(queue: Any) -> None:
    """What nobody will read need not be kept; the last entry is the one that ends the writer."""
    while queue.qsize() > 1:
        queue.get_nowait()
        queue.task_done()
