"""Putting the web process together: store, app, routes, live part. Nothing is shared between two calls."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

import orjson
from flask import Flask, Response
from flask_compress import Compress
from flask_socketio import SocketIO

from store import TenantStore
from web.api import openapi
from web.api.table import BLUEPRINTS, OPERATIONS
from web.app import WebApp
from web.bridge import StoreBridge, new_lock
from web.catalogue import Catalogue, ModelInfo
from web.copilotpages import copilot_blueprint
from web.copilotviews import CopilotViews
from web.depth import QueueDepth
from web.emitter import Emitter
from web.errors import install_errors
from web.guard import Guard
from web.metrics.page import CONTENT_TYPE, PATH, MetricsPage
from web.pages import pages_blueprint
from web.pulse import Pulse
from web.relay import Relay
from web.routes import Api, Door, ask, blueprint_of
from web.settings import WebSettings
from web.slowclients import SlowClients
from web.sockets import Live, install_sockets
from web.studiopages import studio_blueprint
from web.studioviews import StudioViews
from web.subscriptions import Subscriptions
from web.turns import Turns
from web.views import StoreViews
from web.vitals import Vitals
from web.workshop import NO_WORKSHOP, Workshop

#: opens the store; called once, on the loop that the store will live on
StoreOpener = Callable[[], Awaitable[TenantStore]]

MAX_EVENT_BYTES = 65_536
STOP_PATIENCE_S = 20.0
OPEN_PATIENCE_S = 60.0


class Joinable(Protocol):
    """A background task, a thread or a green one."""

    def join(self) -> Any: ...


@dataclass(slots=True)
class Web:
    """The web process, ready to be served. `close` it when nobody serves it any more."""

    app: WebApp
    socketio: SocketIO
    settings: WebSettings
    bridge: StoreBridge
    db: TenantStore
    relay: Relay
    door: Door
    boot_id: str
    _emitting: Joinable | None = None
    _stopping: bool = False

    @property
    def stopping(self) -> bool:
        """Whether `close` was called."""
        return self._stopping

    def close(self) -> None:
        """Stop the relay, finish the writes in flight, close the store and its loop."""
        if self._stopping:
            return
        self._stopping = True
        try:
            self.bridge.run(self.relay.stop())
            if self._emitting is not None:
                self._emitting.join()
            self.bridge.run(self.db.store.close(), timeout=STOP_PATIENCE_S)
        finally:
            self.bridge.close()

    def start_emitting(self, emitter: Emitter) -> None:
        """Send live events from now on."""
        self._emitting = self.socketio.start_background_task(emitter.run)


def create_app(
    settings: WebSettings,
    open_db: StoreOpener,
    catalogue: Catalogue,
    model: ModelInfo,
    redact: Callable[[str], str] = str,
    workshop: Workshop = NO_WORKSHOP,
) -> Web:
    """Open the store and build everything over it. Raises what `open_db` raises, with nothing left running.

    `redact` takes secrets out of a text; every error that is answered passes it.
    """
    bridge = StoreBridge(settings.async_mode, settings.request_s)
    try:
        db = bridge.run(_opened(open_db), timeout=OPEN_PATIENCE_S)
        parts = Api(db, catalogue, Turns(), Vitals(db, model), QueueDepth(db, settings.max_queue), workshop)
        return _assembled(settings, bridge, parts, redact)
    except BaseException:
        bridge.close()
        raise


def _assembled(
    settings: WebSettings,
    bridge: StoreBridge,
    api: Api,
    redact: Callable[[str], str],
) -> Web:
    app = WebApp("web", static_folder="static", template_folder="templates")
    socketio = _socketio(app, settings)
    app.wsgi_app = Guard(app.wsgi_app, settings)  # type: ignore[method-assign]  # the way Flask documents it
    relay = Relay(api.db)
    bridge.run(relay.start())
    door = Door(api, bridge, settings)
    web = Web(app, socketio, settings, bridge, api.db, relay, door, api.db.ids.new())
    _add_routes(web, redact)
    subscriptions = Subscriptions()
    _add_metrics(web, subscriptions)
    _add_live(web, subscriptions, redact)
    return web


def _add_routes(web: Web, redact: Callable[[str], str]) -> None:
    install_errors(web.app, redact)
    Compress(web.app)
    for name, operations in BLUEPRINTS.items():
        web.app.register_blueprint(blueprint_of(name, operations, web.door))
    web.app.register_blueprint(pages_blueprint(StoreViews(web.door.api, web.bridge)))
    web.app.register_blueprint(copilot_blueprint(CopilotViews(web.door.api, web.bridge)))
    web.app.register_blueprint(studio_blueprint(StudioViews(web.door.api, web.bridge)))

    @web.app.get(openapi.PATH)
    def openapi_document() -> Response:
        return Response(orjson.dumps(openapi.document(OPERATIONS)), mimetype="application/json")


def _add_metrics(web: Web, subscriptions: Subscriptions) -> None:
    page = MetricsPage(web.db, subscriptions.count)

    @web.app.get(PATH)
    def metrics() -> Response:
        return Response(ask(web.bridge, page.text()), content_type=CONTENT_TYPE)


def _add_live(web: Web, subscriptions: Subscriptions, redact: Callable[[str], str]) -> None:
    turn = new_lock(web.settings.async_mode)
    install_sockets(web.socketio, Live(web.boot_id, web.door, web.relay, subscriptions, turn, redact))
    emitter = Emitter(
        web.bridge,
        web.relay,
        sender=web.socketio,
        subscriptions=subscriptions,
        turn=turn,
        stopping=lambda: web.stopping,
    )
    web.start_emitting(emitter)
    pulse = Pulse(
        web.bridge,
        web.door.api.vitals,
        sender=web.socketio,
        watched=subscriptions.anybody,
        stopping=lambda: web.stopping,
    )
    web.socketio.start_background_task(pulse.run)
    server: Any = web.socketio.server  # type: ignore[attr-defined]  # python-socketio's, made by Flask-SocketIO
    slow = SlowClients(server, limit=web.settings.client_buffer, stopping=lambda: web.stopping)
    web.socketio.start_background_task(slow.run)


def _socketio(app: Flask, settings: WebSettings) -> SocketIO:
    """The Socket.IO server. Each connection's events are handled in order and one at a time (`async_handlers`)."""
    return SocketIO(
        app,
        async_mode=settings.async_mode.value,
        async_handlers=False,
        always_connect=True,
        manage_session=False,
        max_http_buffer_size=MAX_EVENT_BYTES,
        message_queue=settings.redis_url,
        logger=_protocol_log(),
        engineio_logger=_protocol_log(),
    )


def _protocol_log() -> logging.Logger:
    """Where the Socket.IO libraries write. They log every malformed packet and lost connection as an error: only what
    is worse is shown."""
    log = logging.getLogger("web.socketio")
    log.setLevel(logging.CRITICAL)
    return log


async def _opened(open_db: StoreOpener) -> TenantStore:
    return await open_db()
