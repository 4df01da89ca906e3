"""Rows on their way to rooms: which room gets which, and the cursor that each carries.

All rows of one commit go out together and only the last of them moves the cursor past it. A connection that is cut in
between gets the whole commit again, and the client drops what it knows by id: rows may repeat, none is lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from store.scope import Versioned
from web import cursors, sources
from web.cursors import Versions
from web.rooms import Room
from web.shapes import Json
from web.sources import Members, Source


@dataclass(frozen=True, slots=True)
class Sent:
    """One event for one room."""

    room: Room
    event: str
    data: Json


def for_rooms(
    source: Source, rows: Sequence[Versioned[Any]], followed: Collection[Room], *, members: Members, seen: Versions
) -> Iterator[Sent]:
    """The events of some rows for the rooms that are followed, room by room.

    `seen` is how far every table has been sent before these rows.
    """
    by_room: dict[Room, list[Versioned[Any]]] = {}
    for row in in_order(source, rows):
        for room in source.rooms_of(row.item, members):
            if room in followed:
                by_room.setdefault(room, []).append(row)
    for room, its_rows in by_room.items():
        yield from for_room(source, its_rows, room, seen=seen)


def for_room(source: Source, rows: Sequence[Versioned[Any]], room: Room, *, seen: Versions) -> Iterator[Sent]:
    """The events of rows that are in order and all for one room."""
    base = {one.table: seen[one.table] for one in sources.of_room(room)}
    for row, reached in zip(rows, _reached(rows), strict=True):
        events = source.events_of(row.item, room)
        for left, (event, data) in zip(reversed(range(len(events))), events, strict=True):
            version = row.version - 1 if left else reached  # only its last event tells that a row was sent
            cursor = cursors.encode({**base, source.table: version})
            yield Sent(room, event, {**data, "room": room.name, "cursor": cursor})


def in_order(source: Source, rows: Iterable[Versioned[Any]]) -> list[Versioned[Any]]:
    """Rows by commit, and within one commit in the order of their kind (steps by iteration)."""
    return sorted(rows, key=lambda row: (row.version, source.rank(row.item)))


def _reached(rows: Sequence[Versioned[Any]]) -> list[int]:
    """For each row, the version that has been sent completely with it."""
    versions = [row.version for row in rows]
    following = [*versions, None][1:]
    return [one - 1 if one == after else one for one, after in zip(versions, following, strict=True)]
