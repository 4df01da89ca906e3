"""Killed at the commits that matter: what was acknowledged is there, no lock is left, the next one goes on."""

from __future__ import annotations

import fcntl
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from store.actions import ActionKind, ActionStatus, queue_of
from store.agent_state import states_of, upsert_agent_state
from store.agent_steps import append_agent_step, journal_of
from store.database import Store, open_store
from store.enqueueing import NewAction, enqueue, enqueue_all
from store.leftovers import MIN_AGE_S, Leftovers
from store.options import StoreOptions
from store.records import append_record, records_of
from store.retention import RetentionRules, retain
from store.testing import CountingIds, FrozenClock
from store.upkeep import Upkeep, UpkeepRules
from store.workers import save_worker
from tests.crash.store_child import AT_ONCE
from tests.crash.store_processes import Child, start_all
from tests.store.rows import a_record, a_state, a_step, a_worker
from tests.support import eventually

pytestmark = pytest.mark.process
COUNT = 20


class Silent:
    """A log in which nothing may go wrong."""

    def debug(self, event: str, **fields: object) -> None:
        """Nothing to keep."""

    def warning(self, event: str, **fields: object) -> None:
        raise AssertionError((event, fields))


async def opened(folder: Path, prefix: str = "after-") -> Store:
    return await open_store(StoreOptions(str(folder)), clock=FrozenClock(), ids=CountingIds(prefix))


async def killed(role: str, folder: Path, crash_at: str, **options: Any) -> list[dict[str, Any]]:
    """What a process reported before it died at a crash point."""
    child = await Child.start(role, folder, name="x", count=COUNT, crash_at=crash_at, **options)
    child.go()
    return await child.reports_until_killed()


def free_locks(folder: Path) -> int:
    """How many lock files there are; each of them must be free."""
    locks = list((folder / "locks").iterdir())
    for path in locks:
        with path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return len(locks)


async def still_works(store: Store) -> None:
    """Appends, changes and upkeep go on, and upkeep leaves one file of rows and no old versions."""
    db = store.tenant()
    action = await enqueue(db, NewAction(ActionKind.INPUT))
    await queue_of(db).change((action.id,), owner="me")
    before = sorted(await queue_of(db).find(), key=lambda action: action.id)

    upkeep = Upkeep(store, UpkeepRules(commits=1, keep=timedelta(milliseconds=1)), Silent())
    folder = Path(store.options.url) / "queue.lance"

    async def is_tidy() -> bool:
        await upkeep.once(force=True)
        return len(list((folder / "data").iterdir())) == 1 and len(list((folder / "_versions").glob("*.manifest"))) <= 2

    await eventually(is_tidy)
    assert sorted(await queue_of(db).find(), key=lambda action: action.id) == before
    assert free_locks(Path(store.options.url)) > 0


@pytest.mark.parametrize(("point", "beyond"), [("before_commit", 0), ("after_commit", AT_ONCE)])
async def test_killed_at_an_append_all_acknowledged_rows_are_there(tmp_path: Path, point: str, beyond: int) -> None:
    facts = await killed("append_actions", tmp_path, f"queue.{point}:3")

    assert free_locks(tmp_path) > 0
    store = await opened(tmp_path)
    stored = Counter(action.id for action in await queue_of(store.tenant()).find())
    assert len(facts) == 2 * AT_ONCE
    assert stored.keys() >= {fact["action"] for fact in facts}
    assert set(stored.values()) == {1}
    assert len(stored) == len(facts) + beyond
    await still_works(store)
    await store.close()


async def test_killed_at_a_step_the_journal_has_no_gap(tmp_path: Path) -> None:
    facts = await killed("append_steps", tmp_path, "agent_steps.after_commit:4")

    store = await opened(tmp_path)
    steps = await journal_of(store.tenant()).find()
    assert {step.id for step in steps} >= {fact["step"] for fact in facts}
    assert len(steps) == len({step.id for step in steps}) == len(facts) + AT_ONCE
    for session in {step.session_id for step in steps}:
        iterations = sorted(step.iteration for step in steps if step.session_id == session)
        assert iterations == list(range(len(iterations)))
    await still_works(store)
    await store.close()


@pytest.mark.parametrize(("point", "beyond"), [("before_commit", 0), ("after_commit", AT_ONCE)])
async def test_killed_at_a_mark_all_acknowledged_marks_are_there(tmp_path: Path, point: str, beyond: int) -> None:
    store = await opened(tmp_path, "old-")
    old = [action.id for action in await enqueue_all(store.tenant(), [NewAction(ActionKind.INPUT)] * COUNT)]

    facts = await killed("mark_actions", tmp_path, f"queue.{point}:3", ids=old)

    # the store that was open all the time goes on, without a lock in its way
    stored = await queue_of(store.tenant()).find()
    done = {action.id for action in stored if action.status is ActionStatus.DONE}
    assert sorted(action.id for action in stored) == sorted(old)
    assert done >= {fact["marked"] for fact in facts}
    assert len(done) == len(facts) + beyond
    await still_works(store)
    await store.close()


async def test_killed_at_an_upsert_every_row_is_whole(tmp_path: Path) -> None:
    facts = await killed("upsert_states", tmp_path, "agent_state.after_commit:3")

    store = await opened(tmp_path)
    assert [fact["iteration"] for fact in facts] == [0, 1]
    states = await states_of(store.tenant()).find()
    assert sorted((state.session_id, state.iteration) for state in states) == [(f"x-{at}", 2) for at in range(4)]
    await still_works(store)
    await store.close()


@pytest.mark.parametrize("point", ["upkeep.before_compact", "upkeep.after_compact"])
async def test_killed_at_a_compaction_no_row_is_touched(tmp_path: Path, point: str) -> None:
    store = await opened(tmp_path, "old-")
    db = store.tenant()
    actions = [await enqueue(db, NewAction(ActionKind.INPUT)) for _ in range(6)]
    await queue_of(db).change((actions[2].id,), owner="me")
    before = sorted(await queue_of(db).find(), key=lambda action: action.id)
    version = await queue_of(db).version()

    assert await killed("compact_once", tmp_path, f"{point}:1") == []

    assert free_locks(tmp_path) > 0
    assert sorted(await queue_of(db).find(), key=lambda action: action.id) == before
    assert [row.item.id for row in await queue_of(db).changed_since(version)] == []
    assert len(await queue_of(db).created_since(0)) == 6
    await still_works(store)
    await store.close()


@pytest.mark.slow
async def test_killed_in_compactions_twenty_times_nothing_is_lost_and_leftovers_go(tmp_path: Path) -> None:
    store = await opened(tmp_path, "old-")
    db = store.tenant()
    written: list[str] = []
    for kill in range(20):
        child = await Child.start("keep_up", tmp_path)
        child.go()
        for _ in range(kill % 5 + 2):  # each time it dies at another moment of its work
            written += [action.id for action in await enqueue_all(db, [NewAction(ActionKind.INPUT)] * 3)]
            await queue_of(db).change((written[0],), owner=f"{kill}")
        child.kill()
        with pytest.raises(AssertionError):
            await child.reports()

    found = await queue_of(db).find()
    assert sorted(action.id for action in found) == sorted(written)
    assert {action.owner for action in found if action.id == written[0]} == {"19"}

    # what a killed commit or compaction wrote without naming it
    data = tmp_path / "queue.lance" / "data"
    (data / "nobody-names-this.lance").write_bytes(b"x" * 1000)
    (data / ".tmpNobody").write_bytes(b"x")
    upkeep = Upkeep(store, UpkeepRules(commits=1, keep=timedelta(milliseconds=1), leftover_s=0), Silent())

    async def is_tidy() -> bool:
        await upkeep.once(force=True)
        return len(list(data.iterdir())) == 1

    await eventually(is_tidy)
    assert sorted(action.id for action in await queue_of(db).find()) == sorted(written)
    await store.close()


@pytest.mark.slow
async def test_compaction_without_rest_beside_four_writers_loses_nothing(tmp_path: Path) -> None:
    store = await opened(tmp_path, "old-")
    db = store.tenant()
    old = [action.id for action in await enqueue_all(db, [NewAction(ActionKind.INPUT)] * 4 * COUNT)]
    children = await start_all(
        Child.start("keep_up", tmp_path),
        *[
            Child.start("write_everything", tmp_path, name=name, count=COUNT, ids=old[at::4])
            for at, name in enumerate("abcd")
        ],
    )
    for child in children:
        child.go()
    upkeep, *writers = children
    facts = [fact for child in writers for fact in await child.reports()]
    upkeep.go()
    assert any("rounds" in fact for fact in await upkeep.reports())

    actions = await queue_of(db).find()
    assert sorted(action.id for action in actions) == sorted(
        [*old, *(fact["action"] for fact in facts if "action" in fact)]
    )
    assert {action.id for action in actions if action.status is ActionStatus.DONE} == set(old)
    steps = [step.id for step in await journal_of(db).find()]
    assert sorted(steps) == sorted(fact["step"] for fact in facts if "step" in fact)
    assert len(steps) == 4 * COUNT
    await store.close()


async def test_a_file_that_may_still_be_named_stays(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    db = store.tenant()
    for _ in range(3):
        await enqueue(db, NewAction(ActionKind.INPUT))
    fresh = tmp_path / "queue.lance" / "data" / "a-commit-under-way.lance"
    fresh.write_bytes(b"x")
    clock = FrozenClock()
    leftovers = Leftovers(tmp_path / "queue.lance", clock.monotonic)

    assert await store.tables["queue"].remove(leftovers) == []
    clock.advance(MIN_AGE_S - 1)
    assert await store.tables["queue"].remove(leftovers) == []
    clock.advance(1)
    with (tmp_path / "locks" / "queue.lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert await store.tables["queue"].remove(leftovers) == []
    assert await store.tables["queue"].remove(leftovers) == [fresh]
    assert len(await queue_of(db).find()) == 3


@pytest.mark.parametrize(
    ("point", "records", "steps"),
    [
        ("records.before_delete:1", 6, 6),
        ("records.after_delete:1", 4, 6),
        ("agent_steps.before_delete:1", 4, 6),
        ("agent_steps.after_delete:1", 4, 4),
        ("agent_steps.before_delete:2", 2, 4),
    ],
)
async def test_killed_while_old_steps_are_deleted_the_rest_goes_with_the_next_turn(
    tmp_path: Path, point: str, records: int, steps: int
) -> None:
    store = await opened(tmp_path)
    db = store.tenant()
    for session in ("a", "b"):
        for at in range(3):
            await append_record(db, a_record(session, id=f"{session}-{at}", iteration=at))
            await append_agent_step(db, a_step(session, at))
    await upsert_agent_state(db, [a_state(session, iteration=2) for session in ("a", "b")])
    await save_worker(db, a_worker(journal_version=await journal_of(db).version()))

    await killed("trim_steps", tmp_path, point)
    assert (len(await records_of(db).find()), len(await journal_of(db).find())) == (records, steps)

    async for _ in retain(db, RetentionRules(steps_count=1)):
        pass
    assert sorted(step.id for step in await journal_of(db).find()) == ["a:2", "b:2"]
    assert sorted(record.id for record in await records_of(db).find()) == ["a-2", "b-2"]
    await still_works(store)
    await store.close()
