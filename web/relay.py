"""The relay: follows the tables by row version and turns what is new into events for rooms.

It runs on the store's loop; `web.emitter` carries its batches to the clients. Tables that no followed room shows are
passed over without being read. A table is read at most once in `PAUSE_S`, however many commits it gets, so a storm of
small commits becomes few large batches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final

from store import TenantStore
from store.changes import Feed
from store.conversations import list_participants
from store.ids import ConversationId
from store.schema import PARTICIPANTS
from store.watch import CommitWatch
from web import delivery, replay, sources
from web.cursors import Versions
from web.delivery import Sent
from web.replay import Missed
from web.rooms import Room, RoomKind
from web.sources import Members, Source

PAUSE_S: Final = 0.015
#: commits are announced by the system; should it fail to, the tables are looked at this often anyway
LOOK_ANYWAY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Batch:
    """What one look at the tables found, and where the relay stood before."""

    events: Sequence[Sent]
    before: Versions


class Relay:
    """Follows one tenant's tables. `poll` and `missed` must not run at the same time: `web.emitter` sees to that."""

    def __init__(self, db: TenantStore) -> None:
        self._db = db
        self._feeds: dict[str, Feed[Any]] = {}
        self._members: dict[str, frozenset[str]] = {}
        self._members_version = -1
        self._polled_at = 0.0
        self._stopped = asyncio.Event()
        self._open = AsyncExitStack()
        self._watch: CommitWatch | None = None

    async def start(self) -> None:
        """Begin to follow, from now on."""
        versions = {source.table: await source.scoped(self._db).version() for source in sources.ALL}
        self._follow_from(versions)
        tables = [*versions, PARTICIPANTS.name]
        self._watch = await self._open.enter_async_context(self._db.store.watch(*tables))

    async def stop(self) -> None:
        """Make `wait` return False, and let the watch go."""
        self._stopped.set()
        await self._open.aclose()

    async def wait(self) -> bool:
        """Return True when it is time to poll, False when the relay was stopped."""
        if self._watch is None:
            raise RuntimeError("start the relay before waiting for news")
        if self._stopped.is_set():
            return False
        news = asyncio.ensure_future(self._watch.wait())
        stopped = asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait({news, stopped}, timeout=LOOK_ANYWAY_S, return_when=asyncio.FIRST_COMPLETED)
            if news.done() and not self._stopped.is_set():
                news.result()  # a watch that broke is an error to be told, not a silence
        finally:
            news.cancel()
            stopped.cancel()
            await asyncio.gather(news, stopped, return_exceptions=True)
        rest = self._polled_at + PAUSE_S - self._db.clock.monotonic()
        if rest > 0:
            await self._db.clock.sleep(rest)
        return not self._stopped.is_set()

    async def poll(self, followed: Collection[Room]) -> Batch:
        """What was stored since the last poll, for the rooms that are followed."""
        self._polled_at = self._db.clock.monotonic()
        before = self._versions()
        members = await self._members_of(followed)
        events: list[Sent] = []
        try:
            for source in sources.ALL:
                events += await self._news(source, followed, members)
        except BaseException:
            self._follow_from(before)
            raise
        return Batch(events, before)

    def rewind(self, batch: Batch) -> None:
        """Take a batch back that could not be sent: the next poll finds its rows again."""
        self._follow_from(batch.before)

    async def missed(self, room: Room, cursor: str | None) -> Missed:
        """What was stored for `room` since `cursor`, a page of it; see `web.replay.missed`."""
        return await replay.missed(self._db, room, cursor, await self._members_of([room]))

    async def _news(self, source: Source, followed: Collection[Room], members: Members) -> list[Sent]:
        feed = self._feeds[source.table]
        conditions = source.conditions(followed, members) if followed else None
        if conditions is None:
            await feed.skip()
            return []
        seen = self._versions()
        found = await feed.poll(*conditions, columns=source.columns(followed))
        rows = await sources.completed(self._db, source, found)
        return list(delivery.for_rooms(source, rows, followed, members=members, seen=seen))

    async def _members_of(self, rooms: Collection[Room]) -> Members:
        """Who takes part in the conversations among `rooms`, read again when somebody joined or left."""
        threads = set(sources.keys(rooms, RoomKind.CONVERSATION))
        if not threads:
            return {}
        version = await self._db.store.tables[PARTICIPANTS.name].version()
        if version != self._members_version:
            self._members, self._members_version = {}, version
        for thread in threads - self._members.keys():
            self._members[thread] = await _sessions_in(self._db, thread)
        return {thread: self._members[thread] for thread in threads}

    def _versions(self) -> dict[str, int]:
        return {table: feed.version for table, feed in self._feeds.items()}

    def _follow_from(self, versions: Versions) -> None:
        self._feeds = {
            source.table: Feed(source.scoped(self._db), source.follow, versions[source.table]) for source in sources.ALL
        }


async def _sessions_in(db: TenantStore, conversation_id: str) -> frozenset[str]:
    members = await list_participants(db, ConversationId(conversation_id))
    return frozenset(member.session_id for member in members if member.session_id is not None)
