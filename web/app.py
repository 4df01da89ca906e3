"""The Flask application, served quietly: no banner, no access log, and a way to stop it."""

from __future__ import annotations

import threading
from typing import Any

from flask import Flask
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from web.orjson_provider import OrjsonProvider


class _QuietHandler(WSGIRequestHandler):
    """Logs errors, not requests."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        return None


class WebApp(Flask):
    """Flask with fast JSON, and a `run` that `stop_running` ends; Flask-SocketIO calls `run` in threading mode."""

    json_provider_class = OrjsonProvider

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._tried = threading.Event()
        self._server: BaseWSGIServer | None = None

    def run(self, host: str | None = None, port: int | None = None, *_: Any, **__: Any) -> None:
        """Serve with a thread a connection until `stop_running` is called. Raises `OSError` for a bad address."""
        try:
            self._server = make_server(
                host or "127.0.0.1", port or 0, self, threaded=True, request_handler=_QuietHandler
            )
        except SystemExit as error:  # werkzeug's way to say that the port is taken
            raise OSError(f"cannot serve on {host}:{port}; is the port taken?") from error
        finally:
            self._tried.set()
        try:
            self._server.serve_forever(poll_interval=0.1)
        finally:
            self._server.server_close()

    def stop_running(self) -> None:
        """Make `run` return; call it from another thread, after the one that runs was started."""
        self._tried.wait()
        if self._server is not None:
            self._server.shutdown()
