"""Races among real processes on one folder: they begin together, and nothing is lost, doubled or shown wrongly."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from store.actions import ActionKind as Kind
from store.actions import ActionStatus, find_by_idempotency_key, first_ids_by_key, queue_of
from store.agent_state import states_of, upsert_agent_state
from store.agent_steps import append_agent_step, journal_of
from store.database import open_store
from store.enqueueing import NewAction, enqueue_all
from store.options import StoreOptions
from store.testing import CountingIds, FrozenClock
from tests.crash.store_child import AT_ONCE
from tests.crash.store_processes import Child, start_all
from tests.store.rows import a_state, a_step

pytestmark = pytest.mark.process
COUNT = 40


def reported(facts: list[dict[str, str]], name: str) -> list[str]:
    """What was acknowledged of one kind."""
    return [fact[name] for fact in facts if name in fact]


async def test_writers_a_reader_and_upkeep_do_not_disturb_each_other(tmp_path: Path) -> None:
    # Given actions to be marked, and at the barrier: two processes that write to every table, a reader and upkeep
    store = await open_store(StoreOptions(str(tmp_path)), clock=FrozenClock(), ids=CountingIds("old-"))
    db = store.tenant()
    old = [action.id for action in await enqueue_all(db, [NewAction(Kind.INPUT)] * 2 * COUNT)]
    mine = {name: old[at::2] for at, name in enumerate("ab")}
    children = await start_all(
        Child.start("follow", tmp_path),
        Child.start("keep_up", tmp_path),
        *[Child.start("write_everything", tmp_path, name=name, count=COUNT, ids=ids) for name, ids in mine.items()],
    )

    # When all of them work at the same time
    for child in children:
        child.go()
    reader, upkeep, *writers = children
    facts = [fact for report in await asyncio.gather(*[child.reports() for child in writers]) for fact in report]
    for child in (reader, upkeep):
        child.go()
    (followed,) = await reader.reports()
    rounds = [fact["rounds"] for fact in await upkeep.reports() if "rounds" in fact]

    # Then every acknowledged row is there once, and the last of those that replace each other
    stored = await queue_of(db).find()
    assert len(reported(facts, "action")) == 2 * COUNT
    assert sorted(action.id for action in stored) == sorted([*old, *reported(facts, "action")])
    assert sorted(step.id for step in await journal_of(db).find()) == sorted(reported(facts, "step"))
    assert sorted((state.session_id, state.iteration) for state in await states_of(db).find()) == [
        (f"{name}-{at}", COUNT // AT_ONCE - 1) for name in mine for at in range(AT_ONCE)
    ]

    # and every mark
    owners = {action.id: action.owner for action in stored if action.status is ActionStatus.DONE}
    assert owners == {action_id: name for name, ids in mine.items() for action_id in ids}

    # and the reader has seen each row once, and each as it is now
    assert sorted(followed["seen"]) == sorted(action.id for action in stored)
    assert followed["status"] == {action.id: action.status.value for action in stored}
    assert rounds
    await store.close()


async def test_deletions_take_what_they_name_and_nothing_else(tmp_path: Path) -> None:
    # Given rows to be deleted, and at the barrier: a deleter, two processes that write to every table, and upkeep
    store = await open_store(StoreOptions(str(tmp_path)), clock=FrozenClock(), ids=CountingIds("old-"))
    db = store.tenant()
    sessions = [f"gone-{at}" for at in range(COUNT)]
    steps = [a_step(session, 0) for session in sessions]
    actions = [action.id for action in await enqueue_all(db, [NewAction(Kind.INPUT)] * COUNT)]
    await asyncio.gather(*[append_agent_step(db, step) for step in steps])
    await upsert_agent_state(db, [a_state(session) for session in sessions])
    named: dict[str, Any] = {"steps": [step.id for step in steps], "actions": actions, "sessions": sessions}
    children = await start_all(
        Child.start("keep_up", tmp_path),
        Child.start("delete_rows", tmp_path, **named),
        *[Child.start("write_everything", tmp_path, name=name, count=COUNT, ids=[]) for name in "ab"],
    )

    # When all of them work at the same time
    for child in children:
        child.go()
    upkeep, *others = children
    deleted, *written = await asyncio.gather(*[child.reports() for child in others])
    upkeep.go()
    warnings = [fact for fact in await upkeep.reports() if "warning" in fact]

    # Then each deletion took its one row, and every row that was acknowledged is there, once
    assert all(set(fact.values()) == {1} for fact in deleted)
    assert len(deleted) == 3 * COUNT
    facts = [fact for report in written for fact in report]
    assert sorted(action.id for action in await queue_of(db).find()) == sorted(reported(facts, "action"))
    assert sorted(step.id for step in await journal_of(db).find()) == sorted(reported(facts, "step"))
    assert sorted((state.session_id, state.iteration) for state in await states_of(db).find()) == [
        (f"{name}-{at}", COUNT // AT_ONCE - 1) for name in "ab" for at in range(AT_ONCE)
    ]
    assert warnings == []
    await store.close()


async def test_processes_open_a_fresh_folder_at_once_and_use_the_same_keys(tmp_path: Path) -> None:
    # Given two processes at the barrier, before a folder that is not there
    folder = tmp_path / "fresh"
    children = await start_all(*[Child.start("same_keys", folder, count=COUNT, open_late=True) for _ in range(2)])
    assert not folder.exists()

    # When both open it and use the same idempotency keys
    for child in children:
        child.go()
    facts = [fact for report in await asyncio.gather(*[child.reports() for child in children]) for fact in report]

    # Then there is one store, and for each key one action that everybody finds, whatever was stored
    store = await open_store(StoreOptions(str(folder)), clock=FrozenClock(), ids=CountingIds())
    db = store.tenant()
    stored = await queue_of(db).find()
    keys = [f"key-{number}" for number in range(COUNT)]
    first = await first_ids_by_key(db, keys)
    assert {fact["id"] for fact in facts} <= {action.id for action in stored}
    for key in keys:
        rows = [action for action in stored if action.idempotency_key == key]
        assert len(rows) in (1, 2)
        found = await find_by_idempotency_key(db, key)
        assert found is not None
        assert first[key] == found.id
        assert not {fact["id"] for fact in facts} & ({action.id for action in rows} - {found.id})
    await store.close()
