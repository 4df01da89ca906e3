"""Who follows which room. Kept beside Socket.IO's own rooms because the relay asks for it on every poll."""

from __future__ import annotations

from collections import Counter
from typing import Final

from web.problems import refused
from web.rooms import Room

MAX_ROOMS: Final = 100


class Subscriptions:
    """The rooms of every connection. Not safe for threads: `web.emitter.Emitter.turn` guards it."""

    def __init__(self) -> None:
        self._rooms: dict[str, set[Room]] = {}
        self._followers: Counter[Room] = Counter()

    def connected(self, sid: str) -> None:
        """A connection is there."""
        self._rooms.setdefault(sid, set())

    def disconnected(self, sid: str) -> None:
        """A connection is gone, and with it its rooms."""
        for room in self._rooms.pop(sid, set()):
            self._forget(room)

    def is_connected(self, sid: str) -> bool:
        """Whether the connection is still there."""
        return sid in self._rooms

    def anybody(self) -> bool:
        """Whether there is any connection."""
        return bool(self._rooms)

    def count(self) -> int:
        """How many connections there are."""
        return len(self._rooms)

    def check(self, sid: str, room: Room) -> None:
        """Raise a 429 `RefusedError` when the connection follows as many rooms as it may."""
        mine = self._rooms.get(sid, set())
        if room not in mine and len(mine) >= MAX_ROOMS:
            raise refused(429, f"one connection may follow {MAX_ROOMS} rooms; unsubscribe from some first")

    def add(self, sid: str, room: Room) -> None:
        """The connection follows `room`."""
        mine = self._rooms[sid]
        if room not in mine:
            mine.add(room)
            self._followers[room] += 1

    def remove(self, sid: str, room: Room) -> bool:
        """The connection no longer follows `room`; tells whether it did."""
        mine = self._rooms.get(sid, set())
        if room not in mine:
            return False
        mine.remove(room)
        self._forget(room)
        return True

    def followed(self) -> frozenset[Room]:
        """Every room that somebody follows."""
        return frozenset(self._followers)

    def _forget(self, room: Room) -> None:
        self._followers[room] -= 1
        if not self._followers[room]:
            del self._followers[room]
