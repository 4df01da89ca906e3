"""Carries the relay's batches to the clients, in a background task of the Socket.IO server.

One turn at a time: either a batch is read and sent, or one connection is told what it missed and enters its room. So
no batch is on its way whose filter did not know the room, and a connection that enters is sent exactly what comes after
the cursor it was given. A turn is short: it is a read or two and puts packets into queues.

If a turn fails, the log says so, the relay goes back to where it stood and tries again: clients may see rows twice,
never a gap, and the process is never up with its live part dead.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

import structlog

from store import StoreError
from web.bridge import FOREVER, StoreBridge
from web.relay import Relay
from web.subscriptions import Subscriptions

RETRY_S: Final = 1

_log = structlog.get_logger(__name__)


class Sender(Protocol):
    """What is needed of the Socket.IO server."""

    def emit(self, event: str, *args: Any, **options: Any) -> None: ...

    def sleep(self, seconds: int = 0) -> Any: ...


class Emitter:
    """The loop between relay and clients."""

    def __init__(
        self,
        bridge: StoreBridge,
        relay: Relay,
        *,
        sender: Sender,
        subscriptions: Subscriptions,
        turn: AbstractContextManager[Any],
        stopping: Callable[[], bool],
    ) -> None:
        self._bridge = bridge
        self._relay = relay
        self._sender = sender
        self._subscriptions = subscriptions
        self._turn = turn
        self._stopping = stopping

    def run(self) -> None:
        """Send until the relay is stopped."""
        while not self._stopping():
            try:
                if not self._bridge.run(self._relay.wait(), timeout=FOREVER):
                    return
                self.once()
            except Exception as error:  # whatever it is, live events must go on when it has passed
                if self._stopping():
                    return
                foreseen = isinstance(error, StoreError | TimeoutError)
                _log.error(
                    "live events failed; trying again",
                    retry_s=RETRY_S,
                    error=str(error),
                    exc_info=None if foreseen else error,
                )
                self._sender.sleep(RETRY_S)

    def once(self) -> None:
        """Send what is new now."""
        with self._turn:
            batch = self._bridge.run(self._relay.poll(self._subscriptions.followed()))
            try:
                for sent in batch.events:
                    self._sender.emit(sent.event, sent.data, to=sent.room.name, ignore_queue=True)
            except BaseException:
                self._relay.rewind(batch)
                raise
