"""Upkeep: a table's turn comes after enough commits and enough rest; it merges, prunes, indexes, and loses nothing."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from store import filters
from store.actions import ActionKind, queue_of
from store.agent_steps import append_agent_step, journal_of
from store.database import Store, open_store
from store.enqueueing import NewAction, enqueue
from store.ids import SessionId
from store.marks import mark_action_processed_async
from store.options import StoreOptions
from store.testing import CountingIds, FrozenClock
from store.upkeep import Upkeep, UpkeepRules
from tests.store.faults import with_faulty
from tests.store.rows import a_step
from tests.support import eventually

NEW = NewAction(ActionKind.INPUT, session_id=SessionId("s"))
RULES = UpkeepRules(commits=3, keep=timedelta(milliseconds=1), index_rows=10)


class Log:
    """Keeps the warnings."""

    def __init__(self) -> None:
        self.warnings: list[tuple[str, object]] = []
        self.done: list[object] = []

    def debug(self, event: str, **fields: object) -> None:
        self.done.append(fields["table"])

    def warning(self, event: str, **fields: object) -> None:
        self.warnings.append((event, fields["table"]))


async def fill(store: Store, commits: int) -> None:
    for at in range(commits):
        await append_agent_step(store.tenant(), a_step(iteration=at))


def files(store: Store, table: str, kind: str) -> int:
    """How many files of a kind (`data`, `_versions`) a table has on disk."""
    return sum(1 for file in (Path(store.options.url) / f"{table}.lance" / kind).glob("*") if file.is_file())


async def test_a_tables_turn_comes_after_so_many_commits(store: Store) -> None:
    upkeep = Upkeep(store, RULES, Log())
    await fill(store, 2)
    assert await upkeep.once() == []

    await fill(store, 1)
    assert await upkeep.once() == ["agent_steps"]
    assert await upkeep.once() == []

    await fill(store, 3)
    assert await upkeep.once() == ["agent_steps"]


async def test_a_store_opened_with_much_undone_has_its_turn_at_once(store: Store) -> None:
    await fill(store, 3)

    assert await Upkeep(store, RULES, Log()).once() == ["agent_steps"]


@pytest.fixture
async def slow(options: StoreOptions, clock: FrozenClock) -> AsyncIterator[Store]:
    """A store in which a compaction takes two seconds."""

    def takes_two_seconds(point: str) -> None:
        clock.advance(2 if point == "upkeep.after_compact" else 0)

    opened = await open_store(options, clock=clock, ids=CountingIds(), crash_point=takes_two_seconds)
    yield opened
    await opened.close()


async def test_a_table_rests_ten_times_as_long_as_its_turn_took(slow: Store, clock: FrozenClock) -> None:
    upkeep = Upkeep(slow, RULES, Log())
    await fill(slow, 3)
    assert await upkeep.once() == ["agent_steps"]
    await fill(slow, 3)

    clock.advance(19.9)
    assert await upkeep.once() == []

    clock.advance(0.1)
    assert await upkeep.once() == ["agent_steps"]


@pytest.mark.parametrize(("commits", "rest_s"), [(15, 20.0), (30, 10.0), (60, 5.0), (300, 2.0)])
async def test_a_table_that_falls_behind_rests_less(
    slow: Store, clock: FrozenClock, commits: int, rest_s: float
) -> None:
    """Else each turn has more to merge than the one before, takes longer, and rests longer, without end."""
    upkeep = Upkeep(slow, RULES, Log())
    await upkeep.once(force=True)
    clock.advance(100)
    await fill(slow, commits)
    assert await upkeep.once() == ["agent_steps"]
    await fill(slow, 3)

    clock.advance(rest_s - 0.1)
    assert await upkeep.once() == []

    clock.advance(0.1)
    assert await upkeep.once() == ["agent_steps"]


async def test_force_gives_every_table_its_turn(store: Store) -> None:
    assert await Upkeep(store, RULES, Log()).once(force=True) == list(store.tables)


async def test_it_merges_files_prunes_versions_and_keeps_every_row(store: Store) -> None:
    db = store.tenant()
    actions = [await enqueue(db, NEW) for _ in range(6)]
    await asyncio.gather(*[mark_action_processed_async(db, action.id) for action in actions[:3]])
    before = await queue_of(db).find(order=[("id", False)])

    upkeep = Upkeep(store, RULES, Log())

    async def is_tidy() -> bool:
        await upkeep.once(force=True)
        return files(store, "queue", "data") == 1 and files(store, "queue", "_versions") <= 2

    await eventually(is_tidy)
    assert await queue_of(db).find(order=[("id", False)]) == before


async def test_versions_are_kept_for_readers_for_a_while(store: Store) -> None:
    await fill(store, 5)

    await Upkeep(store, dataclasses.replace(RULES, keep=timedelta(minutes=5)), Log()).once(force=True)

    assert files(store, "agent_steps", "_versions") >= 6


async def test_indexes_are_built_once_a_table_is_large_and_answers_stay_the_same(store: Store) -> None:
    db = store.tenant()
    table = store.tables["agent_steps"]
    upkeep = Upkeep(store, RULES, Log())
    await fill(store, 9)
    await upkeep.once(force=True)
    assert await table.indexed_columns() == set()

    await append_agent_step(db, a_step("other"))
    await upkeep.once(force=True)
    assert await table.indexed_columns() == {"id", "session_id", "agent_id"}

    # rows that the index does not know yet are found as well
    await append_agent_step(db, a_step(iteration=9))
    found = await journal_of(db).find(filters.equals("session_id", "s"), order=[("iteration", False)])
    assert [step.iteration for step in found] == list(range(10))

    await upkeep.once(force=True)
    assert len(await journal_of(db).find(filters.equals("session_id", "s"))) == 10


async def test_a_changed_row_is_found_by_an_indexed_column_as_it_is_now(store: Store) -> None:
    db = store.tenant()
    actions = [await enqueue(db, NEW) for _ in range(10)]
    upkeep = Upkeep(store, RULES, Log())
    await upkeep.once(force=True)
    assert "session_id" in await store.tables["queue"].indexed_columns()

    for turn in range(3):
        await queue_of(db).change((actions[turn].id,), session_id=f"moved-{turn}")
        await upkeep.once(force=turn == 1)

    assert len(await queue_of(db).find(filters.equals("session_id", "s"))) == 7
    assert [len(await queue_of(db).find(filters.equals("session_id", f"moved-{at}"))) for at in range(3)] == [1, 1, 1]


@pytest.mark.parametrize("method", ["optimize", "count_rows"])
async def test_a_table_that_fails_is_reported_and_the_others_have_their_turn(store: Store, method: str) -> None:
    faulty, handle = await with_faulty(store, "queue")
    log = Log()
    handle.refused[method] = -1

    done = await Upkeep(faulty, RULES, log).once(force=True)

    assert done == list(store.tables)
    assert log.warnings == [("upkeep failed; the next turn tries again", "queue")]


async def test_a_table_that_cannot_be_read_is_reported_and_looked_at_again(store: Store) -> None:
    faulty, handle = await with_faulty(store, "queue")
    log = Log()
    upkeep = Upkeep(faulty, RULES, log)
    await fill(store, 3)
    handle.refused["version"] = 2

    assert await upkeep.once() == ["agent_steps"]
    assert log.warnings == [("upkeep cannot read a table; it looks again", "queue")]
    for _ in range(3):
        await enqueue(faulty.tenant(), NEW)
    assert await upkeep.once() == ["queue"]


async def test_it_runs_every_so_often_until_it_is_cancelled(store: Store, clock: FrozenClock) -> None:
    log = Log()
    running = asyncio.create_task(Upkeep(store, RULES, log).run())
    await eventually(lambda: clock.sleepers == 1)
    await fill(store, 3)
    assert log.done == []

    clock.advance(RULES.every_s)
    await eventually(lambda: log.done == ["agent_steps"] and clock.sleepers == 1)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_compaction_beside_appends_and_changes_loses_nothing(store: Store) -> None:
    db = store.tenant()
    # Versions outlive the slowest commit, as they do where it counts.
    upkeep = Upkeep(store, UpkeepRules(commits=3, keep=timedelta(seconds=3), index_rows=10), Log())

    async def write(at: int) -> None:
        action = await enqueue(db, NEW)
        await append_agent_step(db, a_step(iteration=at))
        await mark_action_processed_async(db, action.id)

    for turn in range(4):
        await asyncio.gather(upkeep.once(force=True), *[write(turn * 8 + at) for at in range(8)])

    assert [action.processed for action in await queue_of(db).find()] == [True] * 32
    assert len(await journal_of(db).find()) == 32
