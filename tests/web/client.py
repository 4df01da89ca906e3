"""A Socket.IO client for tests: it keeps what it is sent."""

from __future__ import annotations

import gc
from dataclasses import dataclass, field
from typing import Any

import pytest
import socketio

from tests.support import eventually

#: the client library leaves a polling connection to the garbage collector, which Python then complains about
LEAVES_CONNECTIONS = [pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]


@dataclass
class Client:
    """A client that keeps what it is sent."""

    url: str
    io: socketio.AsyncClient = field(default_factory=lambda: socketio.AsyncClient(reconnection=False))
    events: list[tuple[str, Any]] = field(default_factory=list)
    hello: Any = None

    async def connect(self, transport: str = "websocket") -> Client:
        """Connect and wait for the hello."""
        self.io.on("*", self._keep)
        self.io.on("hello", self._greet)
        await self.io.connect(self.url, transports=[transport])
        await eventually(lambda: self.hello is not None)
        return self

    async def ask(self, event: str, *payload: Any) -> Any:
        """The acknowledgement of an event."""
        data = None if not payload else payload[0] if len(payload) == 1 else payload
        return await self.io.call(event, data, timeout=20)

    def seen(self, kind: str) -> list[Any]:
        """The data of the events of one kind."""
        return [data for event, data in self.events if event == kind]

    async def leave(self) -> None:
        """Disconnect, and collect what the library left behind while this test still runs."""
        await self.io.disconnect()
        gc.collect()

    async def _keep(self, event: str, data: Any = None) -> None:
        self.events.append((event, data))

    async def _greet(self, data: Any) -> None:
        self.hello = data
