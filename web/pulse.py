"""Tells every open page at once when the last worker is lost or one is back (event `worker`).

A worker's heartbeat is a row; that it stopped beating is nothing that a table could report. So this looks once a
second, and only while somebody has a page open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import structlog

from store import StoreError
from web.bridge import StoreBridge
from web.emitter import Sender
from web.vitals import Vitals

LOOK_EVERY_S: Final = 1

_log = structlog.get_logger(__name__)


class Pulse:
    """The loop that watches the workers, a background task of the Socket.IO server."""

    def __init__(
        self,
        bridge: StoreBridge,
        vitals: Vitals,
        *,
        sender: Sender,
        watched: Callable[[], bool],
        stopping: Callable[[], bool],
    ) -> None:
        self._bridge = bridge
        self._vitals = vitals
        self._sender = sender
        self._watched = watched
        self._stopping = stopping
        self._told: dict[str, Any] | None = None

    def run(self) -> None:
        """Look and tell until the server stops."""
        while not self._stopping():
            self._sender.sleep(LOOK_EVERY_S)
            if self._stopping() or not self._watched():
                continue
            try:
                self.once()
            except Exception as error:  # the loop must live as long as the server; at its end the store goes first
                if self._stopping():
                    return
                foreseen = isinstance(error, StoreError | TimeoutError)
                _log.warning(
                    "the workers cannot be seen; looking again", error=str(error), exc_info=None if foreseen else error
                )

    def once(self) -> None:
        """Tell everybody if the number of living workers is not what they were told last."""
        now = self._bridge.run(self._vitals.workers())
        if self._told is not None and now != self._told:
            self._sender.emit("worker", now, ignore_queue=True)
        self._told = now
