"""A table: what was acknowledged is there once, whatever the engine answers; readers and writers have patience."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from store import filters
from store.actions import ActionKind as Kind
from store.actions import ActionStatus as Status
from store.actions import find_by_idempotency_key, get_action, queue_of
from store.agent_steps import append_agent_step, journal_of
from store.agents import list_agents, save_agent
from store.database import Store, TenantStore
from store.enqueueing import NewAction, enqueue, enqueue_all
from store.errors import BadRowError, StoreUnavailableError
from store.ids import ActionId, AgentId, SessionId, TenantId
from store.marks import mark_action_processed_async
from store.table import Change
from tests.store.faults import FaultyHandle, with_faulty
from tests.store.rows import a_step

OTHER = TenantId("other")
NEW = NewAction(Kind.INPUT, session_id=SessionId("s"))


# --- an answer that is lost ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [1, 2, 3])
async def test_rows_whose_answer_was_lost_are_stored_once(store: Store, lost: int) -> None:
    faulty, handle = await with_faulty(store, "agent_steps")
    handle.lost = lost

    await asyncio.gather(*[append_agent_step(faulty.tenant(), a_step(iteration=at)) for at in range(5)])

    assert sorted(step.iteration for step in await journal_of(store.tenant()).find()) == [0, 1, 2, 3, 4]


async def test_rows_of_which_the_engine_took_some_are_stored_once(store: Store) -> None:
    """Another writer's group held some of the rows, as when a caller asks again after it got no answer."""
    faulty, handle = await with_faulty(store, "agent_steps")
    steps = [a_step(iteration=at) for at in range(4)]
    await journal_of(store.tenant()).append_all(steps[:2])
    handle.refused["add"] = 1

    await journal_of(faulty.tenant()).append_all(steps)

    assert len(await journal_of(store.tenant()).find()) == 4


async def test_a_lost_answer_is_not_mistaken_for_the_same_id_of_another_tenant(store: Store) -> None:
    await append_agent_step(store.tenant(OTHER), a_step())
    faulty, handle = await with_faulty(store, "agent_steps")
    handle.refused["add"] = 1

    await append_agent_step(faulty.tenant(), a_step())

    assert len(await journal_of(store.tenant()).find()) == 1


async def test_a_lost_answer_is_not_mistaken_for_the_same_version_of_another_agent(store: Store) -> None:
    await save_agent(store.tenant(), AgentId("a"), "echo", {})
    faulty, handle = await with_faulty(store, "agents")
    handle.refused["add"] = 1

    await save_agent(faulty.tenant(), AgentId("b"), "echo", {})

    assert [agent.agent_id for agent in await list_agents(store.tenant())] == ["a", "b"]


async def test_a_lost_answer_for_text_that_was_cleaned_is_recognised(store: Store) -> None:
    faulty, handle = await with_faulty(store, "agent_steps")
    handle.lost = 1

    await append_agent_step(faulty.tenant(), a_step("\ud800"))

    assert len(await journal_of(store.tenant()).find()) == 1


# --- a store that is away --------------------------------------------------------------------------------------------


async def test_a_write_that_fails_for_a_moment_is_tried_again(store: Store) -> None:
    faulty, handle = await with_faulty(store, "queue")
    handle.refused["add"] = 2
    action = await enqueue(faulty.tenant(), NEW)

    handle.refused["merge_insert"] = 2
    await mark_action_processed_async(faulty.tenant(), action.id)

    assert (await get_action(store.tenant(), action.id)).status is Status.DONE


async def test_a_write_to_a_store_that_is_away_fails_with_the_cure_and_works_again_later(store: Store) -> None:
    faulty, handle = await with_faulty(store, "queue")
    db = faulty.tenant()
    handle.refused["add"] = -1

    with pytest.raises(StoreUnavailableError, match=r"'queue'.*the disk is away.*check the disk") as raised:
        await enqueue(db, NEW)
    assert isinstance(raised.value.__cause__, OSError)
    assert await queue_of(db).find() == []

    handle.refused.clear()
    assert await queue_of(db).find() == []  # nothing that was not acknowledged comes later
    await enqueue(db, NEW)
    assert len(await queue_of(db).find()) == 1


@pytest.mark.parametrize("method", ["query", "version"])
async def test_a_read_is_tried_once_more_and_then_fails_as_a_store_error(store: Store, method: str) -> None:
    faulty, handle = await with_faulty(store, "queue")
    table = queue_of(faulty.tenant())
    ask = table.find if method == "query" else table.version
    handle.refused[method] = 1
    await ask()

    handle.refused[method] = 2
    with pytest.raises(StoreUnavailableError, match="'queue' could not be read: the disk is away"):
        await ask()
    await ask()


async def test_a_value_that_cannot_be_stored_is_not_tried_again(store: Store) -> None:
    faulty, handle = await with_faulty(store, "agent_steps")

    with pytest.raises(BadRowError):
        await append_agent_step(faulty.tenant(), a_step(iteration=2**63))

    assert "add" not in handle.calls


# --- groups ----------------------------------------------------------------------------------------------------------


def count(handle: FaultyHandle, method: str) -> int:
    """How often a method of the handle was called; then start to count anew."""
    calls = handle.calls.count(method)
    handle.calls.clear()
    return calls


async def test_what_is_written_at_the_same_time_is_one_commit_of_each_kind(store: Store) -> None:
    faulty, handle = await with_faulty(store, "queue")
    db = faulty.tenant()

    actions = await enqueue_all(db, [NEW] * 200)
    assert count(handle, "add") == 1

    await asyncio.gather(*[mark_action_processed_async(db, action.id) for action in actions])
    assert count(handle, "merge_insert") == 1


async def test_a_bad_row_fails_alone_in_its_group(db: TenantStore) -> None:
    steps = [a_step(iteration=at) for at in (0, 2**63, 1)]

    answers = await asyncio.gather(*[append_agent_step(db, step) for step in steps], return_exceptions=True)

    assert isinstance(answers[1], BadRowError)
    assert sorted(step.iteration for step in await journal_of(db).find()) == [0, 1]


async def test_a_bad_change_fails_alone_in_its_group(db: TenantStore) -> None:
    actions = [await enqueue(db, NEW) for _ in range(3)]
    attempts = (1, 2**63, 2)

    marks = [mark_action_processed_async(db, actions[at].id, attempts=attempts[at]) for at in range(3)]
    answers = await asyncio.gather(*marks, return_exceptions=True)

    assert isinstance(answers[1], BadRowError)
    assert [(await get_action(db, action.id)).status.value for action in actions] == ["done", "pending", "done"]


async def test_in_one_group_the_last_row_of_a_key_wins(db: TenantStore) -> None:
    table = queue_of(db)
    actions = [await enqueue(db, NEW) for _ in range(2)]

    changes = [table.change((action.id,), error=f"{at}") for at in range(3) for action in actions]
    await asyncio.gather(*changes)

    assert {action.error for action in await table.find()} == {"2"}


async def test_changes_of_different_columns_in_one_group_all_take_place(db: TenantStore) -> None:
    table = queue_of(db)
    action = await enqueue(db, NEW)

    await asyncio.gather(
        table.change((action.id,), error="e"),
        table.change((action.id,), owner="o"),
        table.change((action.id,), urgency=3),
    )

    changed = await get_action(db, action.id)
    assert (changed.error, changed.owner, changed.urgency) == ("e", "o", 3)
    assert changed.payload == action.payload


async def test_a_change_of_a_row_that_is_gone_makes_no_row(db: TenantStore) -> None:
    await queue_of(db).change(("nowhere",), error="e")

    assert await queue_of(db).find() == []


async def test_a_hook_is_told_of_appended_rows_before_their_callers_go_on(store: Store) -> None:
    events: list[str] = []
    store.tables["agent_steps"].on_append(lambda rows, version: events.append(f"{len(rows)} rows"))

    async def caller(at: int) -> None:
        await append_agent_step(store.tenant(), a_step(iteration=at))
        events.append("went on")

    await asyncio.gather(caller(0), caller(1))

    assert events == ["2 rows", "went on", "went on"]


async def test_the_version_of_an_append_is_the_one_its_row_is_read_with(db: TenantStore) -> None:
    versions = [await append_agent_step(db, a_step(iteration=at)) for at in range(3)]

    assert [row.version for row in await journal_of(db).created_since(0)] == versions


# --- reads and upkeep ------------------------------------------------------------------------------------------------


async def test_a_read_can_choose_columns_order_and_a_stretch(db: TenantStore) -> None:
    await journal_of(db).append_all([a_step(iteration=at) for at in (2, 0, 3, 1)])

    found = await db.store.tables["agent_steps"].read(
        None, columns=["iteration"], order=[("iteration", True)], limit=2, offset=1
    )

    assert found.to_pylist() == [{"iteration": 2}, {"iteration": 1}]


async def test_a_read_without_a_limit_gives_every_row(db: TenantStore) -> None:
    await journal_of(db).append_all([a_step(iteration=at) for at in range(1500)])

    assert len(await journal_of(db).find()) == 1500
    assert await db.store.tables["agent_steps"].rows() == 1500


@pytest.mark.parametrize("name", ["queue", "agent_steps"])
async def test_compaction_changes_no_row(store: Store, name: str) -> None:
    db = store.tenant()
    actions = [await enqueue(db, NEW) for _ in range(5)]
    await mark_action_processed_async(db, actions[2].id)
    for at in range(5):
        await append_agent_step(db, a_step(iteration=at))
    before = (await store.tables[name].read(None)).sort_by("id").to_pylist()

    await store.tables[name].compact(keep=timedelta(milliseconds=1))

    assert (await store.tables[name].read(None)).sort_by("id").to_pylist() == before


async def test_a_change_names_its_row_by_the_whole_key(db: TenantStore) -> None:
    action = await enqueue(db, NEW)
    table = db.store.tables["queue"]

    await table.change(Change(("error",), (OTHER, action.id, "stolen")))

    assert (await get_action(db, action.id)).error is None


async def test_upserts_of_one_row_leave_one_row(store: Store) -> None:
    db = store.tenant()
    table = queue_of(db)
    action = await enqueue(db, NEW)

    for _ in range(3):
        await asyncio.gather(table.upsert(action), table.upsert(action))

    assert [found.id for found in await table.find()] == [action.id]
    assert await find_by_idempotency_key(db, "nothing") is None
    assert action.id == ActionId("id-000001")


async def test_a_writer_that_is_cancelled_ends(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    faulty, handle = await with_faulty(store, "queue")
    db = faulty.tenant()
    under_way = asyncio.Event()

    async def hangs(*_: Any, **__: Any) -> Any:
        under_way.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(handle, "update", hangs, raising=False)
    writing = asyncio.create_task(queue_of(db).change_if(filters.equals("id", "x"), owner="w"))
    await under_way.wait()
    writing.cancel()
    async with asyncio.timeout(30):
        await asyncio.wait([writing])
    assert writing.cancelled()


async def test_rows_of_a_commit_that_stood_still_until_its_place_was_pruned_are_stored(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.table._SLOW_S", -1.0)  # every commit counts as slow
    faulty, handle = await with_faulty(store, "agent_steps")
    real = handle.add
    lost = 0

    async def into_the_past(batch: Any) -> Any:
        nonlocal lost
        lost += 1
        if lost == 1:
            version = await store.tables["agent_steps"].version()
            return type("Committed", (), {"version": version})()  # it was said to be stored, and nobody sees it
        return await real(batch)

    monkeypatch.setattr(handle, "add", into_the_past)
    await append_agent_step(faulty.tenant(), a_step())
    assert lost == 2
    assert [step.id for step in await journal_of(store.tenant()).find()] == ["s:0"]


@pytest.mark.parametrize("landed", ["in line", "newest", "pruned", "alone"])
async def test_a_slow_change_is_made_again_only_when_it_landed_where_nobody_reads(
    store: Store, monkeypatch: pytest.MonkeyPatch, landed: str
) -> None:
    monkeypatch.setattr("store.table._SLOW_S", -1.0)  # every commit counts as slow
    await enqueue(store.tenant(), NEW)
    faulty, handle = await with_faulty(store, "queue")
    real, times = handle.update, 0
    kept = {"in line": [3, 4, 5], "newest": [1, 2, 3], "pruned": [4, 5], "alone": [3, 9]}

    async def slow(*values: Any, **options: Any) -> Any:
        nonlocal times
        times += 1
        if times > 1:
            monkeypatch.setattr("store.table._SLOW_S", 60.0)
            return await real(*values, **options)
        return type("Committed", (), {"version": 3, "rows_updated": 1})()

    async def versions() -> Any:
        return [{"version": number} for number in kept[landed]]

    monkeypatch.setattr(handle, "update", slow)
    monkeypatch.setattr(handle, "list_versions", versions)
    assert await queue_of(faulty.tenant()).change_if(filters.equals("session_id", "s"), owner="w") == 1
    assert times == (1 if landed in {"in line", "newest"} else 2)
