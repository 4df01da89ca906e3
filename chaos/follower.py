"""A live client: follows rooms with its cursors for as long as the harness runs, and comes back after every cut."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import socketio
from socketio.exceptions import SocketIOError

from chaos.ledger import Ledger

_ANSWER_S = 5.0
_AGAIN_S = 0.3
#: what identifies a row of each event that is counted
_ID = {"step": "id", "message": "message_id"}


class Follower:
    """One connection and the rooms that it follows."""

    def __init__(self, url: str, ledger: Ledger) -> None:
        self._url = url
        self._live = ledger.live
        self._cursors: dict[str, str | None] = {}
        self._rooms: dict[str, dict[str, str]] = {}
        self._entered: set[str] = set()
        self._client = socketio.AsyncClient(reconnection=False)
        for event in _ID:
            self._client.on(event, self._handler(event))

    def _handler(self, event: str) -> Any:
        async def handle(data: dict[str, Any]) -> None:
            room = f"session:{data['session_id']}" if event == "step" else f"conversation:{data['conversation_id']}"
            self._saw(room, event, data)
            # An event may overtake the answer that tells what was missed: its cursor would lead past that.
            if room in self._entered:
                self._cursors[room] = data["cursor"]

        return handle

    def _saw(self, room: str, event: str, data: dict[str, Any]) -> None:
        if event in _ID and room in self._live:
            self._live[room].add(str(data[_ID[event]]))

    async def follow(self, room: str, target: dict[str, str]) -> None:
        """Follow a room from now on; returns when the server has let this client in, in this life or the next."""
        self._rooms[room] = target
        while room not in self._cursors:
            await asyncio.sleep(_AGAIN_S / 3)

    async def run(self) -> None:
        """Stay connected and subscribed until cancelled."""
        try:
            while True:
                with contextlib.suppress(SocketIOError, TimeoutError, OSError):
                    await self._connected()
                if self._client.connected:
                    await self._client.disconnect()
                await asyncio.sleep(_AGAIN_S)
        finally:
            await self._client.disconnect()

    async def _connected(self) -> None:
        await self._client.connect(self._url, transports=["websocket"], wait_timeout=_ANSWER_S)
        self._entered.clear()
        while self._client.connected:
            for room in [room for room in self._rooms if room not in self._entered]:
                await self._enter(room)
                self._entered.add(room)
            await asyncio.sleep(_AGAIN_S / 3)

    async def _enter(self, room: str) -> None:
        """Subscribe, reading what was missed page by page; a refusal ends the connection and is tried again."""
        more = True
        self._live.setdefault(room, set())
        while more:
            cursor = self._cursors.get(room)
            wanted = {**self._rooms[room], **({} if cursor is None else {"cursor": cursor})}
            answer = await self._client.call("subscribe", wanted, timeout=_ANSWER_S)
            if not answer["ok"]:
                raise SocketIOError(str(answer["error"]))
            for missed in answer["missed"]:
                self._saw(room, missed["event"], missed["data"])
            self._cursors[room] = answer["cursor"]
            more = bool(answer["more"])

    async def caught_up(self, expected: dict[str, set[str]], within_s: float) -> None:
        """Return when everything expected was seen, or after `within_s`."""
        for _ in range(int(within_s / _AGAIN_S)):
            if all(ids <= self._live.get(room, set()) for room, ids in expected.items()):
                return
            await asyncio.sleep(_AGAIN_S)
