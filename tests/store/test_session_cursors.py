"""Session cursors: how far a session has read in each of its threads."""

from __future__ import annotations

from store.database import TenantStore
from store.ids import ConversationId, SessionId
from store.session_cursors import cursors_of, find_cursor, save_cursor

S, C, D = SessionId("s"), ConversationId("c"), ConversationId("d")


async def test_who_never_read_has_no_cursor(db: TenantStore) -> None:
    assert await find_cursor(db, S, C) is None


async def test_the_newest_cursor_counts_and_is_the_only_row(db: TenantStore) -> None:
    for version in (1, 5, 2**40):
        await save_cursor(db, S, C, version)

    assert await find_cursor(db, S, C) == 2**40
    assert len(await cursors_of(db).find()) == 1


async def test_each_thread_and_each_session_has_its_own(db: TenantStore) -> None:
    await save_cursor(db, S, C, 1)
    await save_cursor(db, S, D, 2)
    await save_cursor(db, SessionId("other"), C, 3)

    assert [await find_cursor(db, S, thread) for thread in (C, D)] == [1, 2]
    assert await find_cursor(db, SessionId("other"), C) == 3
