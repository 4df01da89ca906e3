"""Watches: a commit by anybody wakes the waiter, also one that came before the wait; silence does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from store.actions import ActionKind
from store.agent_steps import append_agent_step
from store.database import Store, open_store
from store.enqueueing import NewAction, enqueue
from store.ids import SessionId
from store.marks import mark_action_processed_async
from store.testing import CountingIds, FrozenClock
from store.watch import CommitWatch, watch_commits
from tests.store.rows import a_step

NEW = NewAction(ActionKind.INPUT, session_id=SessionId("s"))


@pytest.fixture(params=["told by the kernel", "asking"])
async def watch(request: pytest.FixtureRequest, store: Store) -> AsyncIterator[CommitWatch]:
    """A watch on the queue and the journal, of each kind that there is."""
    tables = [store.tables["queue"], store.tables["agent_steps"]]
    folder: Path | None = store.options.folder if request.param == "told by the kernel" else None
    async with watch_commits(folder, tables) as entered:
        yield entered


async def woken(watch: CommitWatch) -> None:
    """Fail unless the watch wakes."""
    await asyncio.wait_for(watch.wait(), 30)


async def asleep(watch: CommitWatch) -> asyncio.Task[None]:
    """A task that waits, given every chance to return at once."""
    waiting = asyncio.create_task(watch.wait())
    for _ in range(50):
        await asyncio.sleep(0)
    assert not waiting.done()
    return waiting


async def test_a_commit_wakes_the_waiter(store: Store, watch: CommitWatch) -> None:
    waiting = await asleep(watch)

    await enqueue(store.tenant(), NEW)

    await asyncio.wait_for(waiting, 30)


async def test_a_commit_before_the_wait_is_not_missed(store: Store, watch: CommitWatch) -> None:
    await enqueue(store.tenant(), NEW)

    await woken(watch)


async def test_any_of_the_tables_wakes_it(store: Store, watch: CommitWatch) -> None:
    await append_agent_step(store.tenant(), a_step())

    await woken(watch)


async def test_a_changed_row_wakes_it(store: Store, watch: CommitWatch) -> None:
    action = await enqueue(store.tenant(), NEW)
    await woken(watch)

    await mark_action_processed_async(store.tenant(), action.id)

    await woken(watch)


async def test_a_commit_of_another_opener_wakes_it(store: Store, watch: CommitWatch) -> None:
    other = await open_store(store.options, clock=FrozenClock(), ids=CountingIds("other-"))

    await enqueue(other.tenant(), NEW)

    await woken(watch)
    await other.close()


async def test_other_tables_do_not_wake_it(store: Store, watch: CommitWatch) -> None:
    await store.tables["workers"].upsert(("main", "w", *[None] * 12))

    waiting = await asleep(watch)
    waiting.cancel()


async def test_the_store_watches_its_own_tables(store: Store) -> None:
    async with store.watch("queue") as watch:
        await enqueue(store.tenant(), NEW)
        await woken(watch)


async def test_a_table_that_does_not_exist_cannot_be_watched(store: Store) -> None:
    with pytest.raises(KeyError):
        store.watch("nonsense")
