"""Eventlet's server, which outlives a lack of file handles: it refuses connections until there are handles again.

Eventlet itself ends its loop when `accept` fails, and with it the whole dashboard.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from typing import Any, Final

_NO_HANDLES: Final = frozenset({errno.EMFILE, errno.ENFILE})
_PAUSE_S: Final = 0.05
_BUSY: Final = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class Listener:
    """A listening socket of eventlet's. One handle is kept back, so that who cannot be served can be told so."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._spare: int | None = _spare()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def accept(self) -> Any:
        """The next connection that there is a handle for."""
        from eventlet import sleep

        while True:
            try:
                return self._inner.accept()
            except OSError as error:
                if error.errno not in _NO_HANDLES:
                    raise
            self._refuse_one()
            sleep(_PAUSE_S)

    def _refuse_one(self) -> None:
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
            with contextlib.suppress(OSError):
                refused, _ = self._inner.accept()
                with contextlib.suppress(OSError):
                    refused.send(_BUSY)
                refused.close()
        self._spare = _spare()


def serve_eventlet(app: Any, host: str, port: int) -> None:
    """Serve with green threads; returns or raises when the listening socket is lost. `OSError` for a bad address."""
    import eventlet
    import eventlet.wsgi

    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    eventlet.wsgi.server(Listener(eventlet.listen(address[:2], family)), app, log_output=False)


def _spare() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
