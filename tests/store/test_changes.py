"""The change feed: whatever is appended, changed and compacted in between, polls miss nothing and repeat nothing."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import filters
from store.actions import ActionKind, ActionStatus, queue_of
from store.agent_steps import append_agent_step, journal_of
from store.changes import Feed
from store.database import Store, TenantStore
from store.enqueueing import NewAction, enqueue, enqueue_all
from store.errors import StoreUnavailableError
from store.ids import ActionId, SessionId, TenantId
from store.marks import mark_action_processed_async
from tests.store.faults import with_faulty
from tests.store.rows import a_step
from tests.support import examples

NEW = NewAction(ActionKind.INPUT, session_id=SessionId("s"))
NOTHING_OLD = timedelta(milliseconds=1)

OPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3)),
        st.tuples(st.just("change"), st.integers(0, 30)),
        st.tuples(st.just("elsewhere"), st.just(1)),
        st.tuples(st.just("compact"), st.just(0)),
        st.tuples(st.just("created"), st.just(0)),
        st.tuples(st.just("changed"), st.just(0)),
        st.tuples(st.just("change together"), st.integers(0, 30)),
    ),
    min_size=3,
    max_size=16,
)


class Follower:
    """Two feeds on the queue of a tenant, and what each of them gave out."""

    def __init__(self, db: TenantStore, version: int) -> None:
        self._created = Feed(queue_of(db), "created", version)
        self._changed = Feed(queue_of(db), "changed", version)
        self.created: list[ActionId] = []
        self.attempts: dict[ActionId, int] = {}
        self.repeats = 0

    async def poll_created(self) -> None:
        rows = await self._created.poll()
        assert [row.version for row in rows] == sorted(row.version for row in rows)
        self.created += [row.item.id for row in rows]

    async def poll_changed(self) -> None:
        rows = await self._changed.poll()
        assert len({row.item.id for row in rows}) == len(rows)
        for row in rows:
            self.repeats += self.attempts.get(row.item.id) == row.item.attempts
            self.attempts[row.item.id] = row.item.attempts


@examples(60)
@given(OPS)
async def test_any_interleaving_gives_each_new_row_once_and_each_changed_row_as_it_is(
    store: Store, ops: list[tuple[str, int]]
) -> None:
    db = store.tenant(TenantId(store.ids.new()))
    follower = Follower(db, await queue_of(db).version())
    attempts: dict[ActionId, int] = {}

    async def change(number: int) -> None:
        if attempts:
            action_id = list(attempts)[number % len(attempts)]
            attempts[action_id] += 1
            await mark_action_processed_async(db, action_id, attempts=attempts[action_id])

    for op, number in ops:
        if op == "append":
            attempts |= {action.id: 0 for action in await enqueue_all(db, [NEW] * number)}
        elif op == "change":
            await change(number)
        elif op == "change together":
            await asyncio.gather(change(number), change(number + 1))
        elif op == "elsewhere":
            await enqueue(store.tenant(), NEW)
        elif op == "compact":
            await store.tables["queue"].compact(keep=NOTHING_OLD)
        elif op == "created":
            await follower.poll_created()
        else:
            await follower.poll_changed()
    for _ in range(2):
        await follower.poll_created()
        await follower.poll_changed()

    assert sorted(follower.created) == sorted(attempts)
    assert follower.attempts == attempts
    assert follower.repeats == 0


@examples(25)
@given(st.lists(st.sampled_from(["append", "together", "compact", "poll"]), max_size=14))
async def test_the_journal_is_followed_row_by_row_in_the_order_of_commits(store: Store, ops: list[str]) -> None:
    db = store.tenant(TenantId(store.ids.new()))
    feed = Feed(journal_of(db), "created", await journal_of(db).version())
    seen: list[int] = []
    stored = 0

    for op in (*ops, "poll"):
        if op == "compact":
            await store.tables["agent_steps"].compact(keep=NOTHING_OLD)
        elif op == "poll":
            seen += [row.item.iteration for row in await feed.poll()]
        else:
            size = 1 if op == "append" else 3
            await asyncio.gather(*[append_agent_step(db, a_step(iteration=stored + at)) for at in range(size)])
            stored += size

    assert seen == sorted(seen) == list(range(stored))


async def test_a_feed_follows_from_its_version_on(db: TenantStore) -> None:
    old = await enqueue(db, NEW)
    version = await queue_of(db).version()
    new = await enqueue(db, NEW)

    assert [row.item for row in await Feed(queue_of(db), "created", version).poll()] == [new]
    assert [row.item for row in await Feed(queue_of(db), "created", 0).poll()] == [old, new]


@pytest.mark.parametrize("kind", ["created", "changed"])
async def test_a_second_poll_gives_nothing(db: TenantStore, kind: Any) -> None:
    await enqueue(db, NEW)
    feed = Feed(queue_of(db), kind, 0)
    assert len(await feed.poll()) == 1

    assert await feed.poll() == []
    assert feed.version == await queue_of(db).version()


async def test_rows_that_miss_the_conditions_are_passed_over_for_good(db: TenantStore) -> None:
    feed = Feed(queue_of(db), "changed", 0)
    action = await enqueue(db, NEW)
    is_done = filters.equals("status", ActionStatus.DONE)
    assert await feed.poll(is_done) == []
    assert await feed.poll() == []

    await mark_action_processed_async(db, action.id)

    assert [row.item.status for row in await feed.poll(is_done)] == [ActionStatus.DONE]


async def test_a_poll_can_choose_columns(db: TenantStore) -> None:
    action = await enqueue(db, NEW)

    (row,) = await Feed(queue_of(db), "created", 0).poll(columns=["id"])

    assert row.item.id == action.id
    assert row.item.payload is None


async def test_skip_passes_over_everything_up_to_now(db: TenantStore) -> None:
    feed = Feed(queue_of(db), "changed", 0)
    await enqueue(db, NEW)

    await feed.skip()
    assert await feed.poll() == []

    new = await enqueue(db, NEW)
    assert [row.item for row in await feed.poll()] == [new]
    await feed.skip()
    assert feed.version == await queue_of(db).version()


async def test_a_poll_that_fails_loses_nothing(store: Store) -> None:
    faulty, handle = await with_faulty(store, "queue")
    feed = Feed(queue_of(faulty.tenant()), "created", 0)
    action = await enqueue(store.tenant(), NEW)
    handle.refused["query"] = 2
    with pytest.raises(StoreUnavailableError):
        await feed.poll()

    assert [row.item for row in await feed.poll()] == [action]


async def test_an_upserted_row_is_new_once_and_changed_ever_after(db: TenantStore) -> None:
    action = await enqueue(db, NEW)
    created, changed = Feed(queue_of(db), "created", 0), Feed(queue_of(db), "changed", 0)
    assert (len(await created.poll()), len(await changed.poll())) == (1, 1)

    await queue_of(db).upsert(action)

    assert (len(await created.poll()), len(await changed.poll())) == (0, 1)


async def test_a_row_that_changes_while_it_is_read_is_given_by_the_next_poll_and_hides_no_other(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = store.tenant()
    moving, still = [await enqueue(db, NEW) for _ in range(2)]
    feed = Feed(queue_of(db), "changed", await queue_of(db).version())
    table = store.tables["queue"]
    heads = table._heads

    async def overtaken(mark: str, version: int) -> Any:
        found = await heads(mark, version)
        monkeypatch.setattr(table, "_heads", heads)
        await mark_action_processed_async(db, moving.id, attempts=3)
        return found

    await mark_action_processed_async(db, moving.id, attempts=2)
    await mark_action_processed_async(db, still.id, attempts=2)
    monkeypatch.setattr(table, "_heads", overtaken)
    assert [(row.item.id, row.item.attempts) for row in await feed.poll()] == [(still.id, 2)]
    assert [(row.item.id, row.item.attempts) for row in await feed.poll()] == [(moving.id, 3)]
    assert await feed.poll() == []


@pytest.mark.parametrize("count", [1000, 1001])
async def test_many_new_rows_are_given_like_few(store: Store, count: int) -> None:
    db = store.tenant()
    await enqueue(db, NEW)
    feed = Feed(queue_of(db), "created", await queue_of(db).version())
    made = await enqueue_all(db, [NEW] * count)
    assert {row.item.id for row in await feed.poll()} == {action.id for action in made}


@pytest.mark.parametrize("columns", [["id"], ["tenant"], ["urgency"], ["kind", "status"], ["id", "created_at"]])
async def test_few_columns_are_read_like_many(store: Store, columns: list[str]) -> None:
    db = store.tenant()
    await enqueue(db, NEW)
    feed = Feed(queue_of(db), "changed", await queue_of(db).version())
    await enqueue_all(db, [NEW] * 3)
    assert len(await feed.poll(filters.equals("session_id", "s"), columns=columns)) == 3
