"""Killed at the commits that matter: what was acknowledged is there, no lock is left, the next one goes on."""

from __future__ import annotations

import fcntl
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from store.actions import ActionKind, ActionStatus, NewAction, enqueue, enqueue_all, queue_of
from store.agent_state import states_of
from store.agent_steps import journal_of
from store.database import Store, open_store
from store.options import StoreOptions
from store.testing import CountingIds, FrozenClock
from store.upkeep import Upkeep, UpkeepRules
from tests.crash.store_child import AT_ONCE
from tests.crash.store_processes import Child
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
