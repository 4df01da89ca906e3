"""What a room missed since a cursor, in pages that end between two commits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from store import TenantStore, filters
from store.scope import Versioned
from web import cursors, delivery, sources
from web.delivery import Sent
from web.rooms import Room
from web.sources import Members, Source

PAGE_ROWS: Final = 500


@dataclass(frozen=True, slots=True)
class Missed:
    """One page: the events, the cursor after them, and whether there are more."""

    events: Sequence[Sent]
    cursor: str
    more: bool


@dataclass(frozen=True, slots=True)
class _Part:
    """What one table adds to a page, and the version up to which that is everything."""

    rows: Sequence[Versioned[Any]]
    version: int
    more: bool


async def cursor_of(db: TenantStore, room: Room) -> str:
    """The cursor that stands for now. Take it before reading rows: what is stored in between then comes twice."""
    return cursors.encode(await _newest(db, room))


async def missed(
    db: TenantStore, room: Room, cursor: str | None, members: Members, *, page_rows: int = PAGE_ROWS
) -> Missed:
    """What was stored for `room` since `cursor`; nothing when there is none.

    Raises `RefusedError` for a cursor that is not of this room, or ahead of the store.
    """
    newest = await _newest(db, room)
    if cursor is None:
        return Missed((), cursors.encode(newest), more=False)
    seen = cursors.decode(cursor, newest)
    events: list[Sent] = []
    for source in sources.of_room(room):
        if seen[source.table] == newest[source.table]:
            continue
        left = page_rows - len(events)
        part = await _part(db, source, room, members, since=seen[source.table], room_for=left, whole=left == page_rows)
        events += delivery.for_room(source, part.rows, room, seen=seen)
        seen[source.table] = part.version
        if part.more:
            return Missed(events, cursors.encode(seen), more=True)
    return Missed(events, cursors.encode(seen), more=False)


async def _newest(db: TenantStore, room: Room) -> dict[str, int]:
    return {source.table: await source.scoped(db).version() for source in sources.of_room(room)}


async def _part(
    db: TenantStore, source: Source, room: Room, members: Members, *, since: int, room_for: int, whole: bool
) -> _Part:
    """The next rows of one table: at most `room_for`, or with `whole` at least one commit."""
    newest = await source.scoped(db).version()
    conditions = source.conditions((room,), members)
    if conditions is None:
        return _Part((), newest, more=False)
    heads = await _since(db, source, since, conditions, columns=(source.key,))
    cut = _cut([row.version for row in heads], since=since, room_for=room_for, whole=whole)
    if cut == since:
        return _Part((), since, more=True)
    if cut is not None:
        conditions = (*conditions, filters.at_most(source.mark, cut))
    rows = await _since(db, source, since, conditions, columns=source.columns((room,)))
    version = cut if cut is not None else max([newest, *(row.version for row in rows)])
    shown = [row for row in rows if room in source.rooms_of(row.item, members)]
    complete = await sources.completed(db, source, shown)
    return _Part(delivery.in_order(source, complete), version, more=cut is not None)


def _cut(versions: Sequence[int], *, since: int, room_for: int, whole: bool) -> int | None:
    """The last version that still fits when rows with these versions, in order, are more than there is room for.

    None: all fit. `since`: not one commit fits. With `whole` the first commit is taken, however large it is.
    """
    if len(versions) <= room_for:
        return None
    fitting = [version for version in versions[:room_for] if version < versions[room_for]]
    if fitting:
        return fitting[-1]
    if not whole:
        return since
    return versions[0] if versions[0] != versions[-1] else None


async def _since(
    db: TenantStore, source: Source, since: int, conditions: Sequence[Any], *, columns: Sequence[str] | None
) -> list[Versioned[Any]]:
    table = source.scoped(db)
    read = table.created_since if source.follow == "created" else table.changed_since
    return await read(since, *conditions, columns=columns)
