"""Retention: what is old or too much goes, in small bites; what is needed stays, and the history stays exact."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import filters
from store.actions import ActionKind, ActionStatus, queue_of
from store.agent_events import AgentEvent, append_event, events_of
from store.agent_state import upsert_agent_state
from store.agent_steps import StepFilter, append_agent_step, journal_of, list_agent_steps, list_agent_steps_latest
from store.database import Store, TenantStore
from store.enqueueing import NewAction, enqueue
from store.ids import ActionId, AgentId, SessionId, TenantId
from store.marks import mark_action_processed_async, requeue_action
from store.records import append_record, records_of
from store.retention import (
    Bite,
    RetentionRules,
    retain,
    trim_events,
    trim_live_text,
    trim_queue,
    trim_steps,
    trim_workers,
)
from store.schema import LEASES
from store.testing import START, FrozenClock
from store.upkeep import Upkeep, UpkeepRules
from store.workers import WorkerStatus, list_workers, save_worker
from tests.store.rows import a_record, a_state, a_step, a_worker
from tests.support import eventually, examples

DAY = 86_400.0
ALL = RetentionRules(steps_age=timedelta(days=1), steps_count=3)


async def bites(turn: Any) -> list[Bite]:
    """Every bite of a turn that took something."""
    return [bite async for bite in turn if bite.rows]


async def history(db: TenantStore, session: str, *rows: dict[str, Any], last: int | None = None) -> None:
    """A session whose steps are `rows`, all of them projected."""
    await asyncio.gather(*[append_agent_step(db, a_step(session, at, **row)) for at, row in enumerate(rows)])
    await upsert_agent_state(db, [a_state(session, iteration=len(rows) - 1 if last is None else last)])
    await projected(db)


async def projected(db: TenantStore, name: str = "w", **other: Any) -> None:
    """A worker whose projections reach the newest step."""
    version = await journal_of(db).version()
    row = a_worker(name, journal_version=version, heartbeat_at=db.clock.now())
    await save_worker(db, dataclasses.replace(row, **other))


async def iterations(db: TenantStore, session: str = "s") -> list[int]:
    """The iterations of the session's steps that are there."""
    found = await journal_of(db).find(filters.equals("session_id", session))
    return sorted(step.iteration for step in found)


WHOLE: dict[str, Any] = {}


def changed(base: int) -> dict[str, Any]:
    """A row that holds only what changed since `base`."""
    return {"state": None, "changes": {"n": 1}, "base": base}


async def test_so_many_newest_steps_of_each_session_are_kept(db: TenantStore) -> None:
    await history(db, "s", *[WHOLE] * 10)
    await history(db, "short", *[WHOLE] * 2)

    taken = await bites(trim_steps(db, RetentionRules(steps_count=4)))

    assert taken == [Bite("agent_steps", 6)]
    assert await iterations(db) == [6, 7, 8, 9]
    assert await iterations(db, "short") == [0, 1]
    assert await bites(trim_steps(db, RetentionRules(steps_count=4))) == []


async def test_old_steps_go_but_a_sessions_last_one_stays(db: TenantStore, clock: FrozenClock) -> None:
    await history(db, "old", *[WHOLE] * 3)
    await history(db, "s", *[WHOLE] * 5)
    clock.advance(DAY + 2.5)

    await bites(trim_steps(db, RetentionRules(steps_age=timedelta(days=1))))

    assert await iterations(db) == [3, 4]
    assert await iterations(db, "old") == [2]


async def test_without_rules_nothing_goes(db: TenantStore, clock: FrozenClock) -> None:
    await history(db, "s", *[WHOLE] * 5)
    clock.advance(1000 * DAY)

    assert await bites(trim_steps(db, RetentionRules())) == []
    keep = RetentionRules(events_age=None, queue_age=None)
    assert await bites(trim_events(db, keep)) == await bites(trim_queue(db, keep)) == []


async def test_a_step_is_kept_with_all_that_its_state_is_made_of(db: TenantStore) -> None:
    rows = [WHOLE, changed(0), changed(0), WHOLE, changed(3), changed(3), changed(3)]
    await history(db, "s", *rows)

    await bites(trim_steps(db, RetentionRules(steps_count=1)))
    assert await iterations(db) == [3, 4, 5, 6]


@pytest.mark.parametrize("count", range(1, 8))
@pytest.mark.parametrize("bases", [[0, 0, 0, 0, 0, 0], [0, 1, 2, 3, 4, 5], [0, 0, 2, 2, 4, 4], [0, 0, 0, 3, 3, 5]])
async def test_every_kept_step_can_be_rebuilt(db: TenantStore, count: int, bases: list[int]) -> None:
    await history(db, "s", *[WHOLE if base == at else changed(base) for at, base in enumerate(bases)])

    await bites(trim_steps(db, RetentionRules(steps_count=count)))

    kept = await iterations(db)
    assert kept == list(range(kept[0], 6))
    assert {base for at, base in enumerate(bases) if at in kept} <= set(kept)
    assert len(kept) >= min(count, 6)


async def test_steps_above_any_running_workers_watermark_stay(db: TenantStore) -> None:
    await asyncio.gather(*[append_agent_step(db, a_step(iteration=at)) for at in range(3)])
    await projected(db, "behind")
    await history(db, "s2", *[WHOLE] * 3)
    for at in range(3, 8):
        await append_agent_step(db, a_step(iteration=at))
    await upsert_agent_state(db, [a_state(iteration=7)])
    await projected(db, "w")

    await bites(trim_steps(db, RetentionRules(steps_count=1)))
    assert await iterations(db) == [3, 4, 5, 6, 7]

    await projected(db, "behind")
    await bites(trim_steps(db, RetentionRules(steps_count=1)))
    assert await iterations(db) == [7]


async def test_steps_that_the_sessions_row_does_not_know_yet_stay(db: TenantStore) -> None:
    await history(db, "s", *[WHOLE] * 8, last=4)

    await bites(trim_steps(db, RetentionRules(steps_count=1)))

    assert await iterations(db) == [4, 5, 6, 7]


async def test_a_step_that_answers_an_open_action_stays(db: TenantStore) -> None:
    action = await enqueue(db, NewAction(ActionKind.INPUT, session_id=SessionId("s")))
    await history(db, "s", WHOLE, WHOLE, {"action_id": action.id}, *[WHOLE] * 5)

    await bites(trim_steps(db, RetentionRules(steps_count=1)))
    assert await iterations(db) == [2, 3, 4, 5, 6, 7]

    await mark_action_processed_async(db, action.id)
    await bites(trim_steps(db, RetentionRules(steps_count=1)))
    assert await iterations(db) == [7]


async def test_records_go_with_their_steps(db: TenantStore) -> None:
    for at in range(6):  # the last one belongs to a step that is not finished
        await append_record(db, a_record(id=f"s-{at}", iteration=at))
    await history(db, "s", *[WHOLE] * 5)

    assert await bites(trim_steps(db, RetentionRules(steps_count=2))) == [Bite("records", 3), Bite("agent_steps", 3)]

    assert sorted(record.iteration for record in await records_of(db).find()) == [3, 4, 5]


async def test_fences_stay(db: TenantStore, clock: FrozenClock) -> None:
    await append_agent_step(db, a_step("fence:echo/01", -1, epoch=7))
    await history(db, "s", *[WHOLE] * 5)
    clock.advance(100 * DAY)

    await bites(trim_steps(db, ALL))

    assert await iterations(db, "fence:echo/01") == [-1]


async def test_many_sessions_go_in_several_bites(db: TenantStore) -> None:
    for at in range(7):
        await history(db, f"s{at}", *[WHOLE] * 3)

    taken = await bites(trim_steps(db, RetentionRules(steps_count=1, sessions=3)))

    assert taken == [Bite("agent_steps", 6), Bite("agent_steps", 6), Bite("agent_steps", 2)]


async def test_another_tenant_keeps_its_rows(store: Store, clock: FrozenClock) -> None:
    db, other = store.tenant(), store.tenant(TenantId("other"))
    for tenant in (db, other):
        await history(tenant, "s", *[WHOLE] * 5)
        await an_event(tenant, "e")
    clock.advance(100 * DAY)

    async for _ in retain(db, ALL):
        pass

    assert (await iterations(db), await iterations(other)) == ([4], [0, 1, 2, 3, 4])
    assert (len(await events_of(db).find()), len(await events_of(other).find())) == (0, 1)


# --- the other tables -------------------------------------------------------------------------------------------------


async def an_event(db: TenantStore, name: str) -> None:
    await append_event(db, AgentEvent(name, db.clock.now(), SessionId("s"), 0, 0, "token", None))


async def test_events_go_after_a_while_a_bite_at_a_time(db: TenantStore, clock: FrozenClock) -> None:
    for at in range(6):
        await an_event(db, f"e{at}")
        clock.advance(1)
    rules = RetentionRules(events_age=timedelta(seconds=3), bite=2)

    assert await bites(trim_events(db, rules)) == [Bite("agent_events", 2), Bite("agent_events", 1)]

    assert sorted(event.id for event in await events_of(db).find()) == ["e3", "e4", "e5"]


async def test_live_text_goes_when_its_step_is_stored(db: TenantStore, clock: FrozenClock) -> None:
    rules = RetentionRules()
    await upsert_agent_state(db, [a_state("s", iteration=1), a_state("slow", iteration=-1)])

    async def pieces() -> None:
        said = [("s", 0), ("s", 1), ("s", 2), ("slow", 0), ("unknown", 0)]
        for session, at in said:
            name = f"{session}:{at}:{clock.monotonic():g}"
            await append_event(db, AgentEvent(name, clock.now(), SessionId(session), at, 0, "token", {}))
        await append_event(
            db, AgentEvent(f"p:{clock.monotonic():g}", clock.now(), SessionId("s"), 0, 0, "progress", {})
        )

    await pieces()
    clock.advance(61)
    await pieces()

    assert await bites(trim_live_text(db, rules)) == [Bite("agent_events", 2)]
    assert await bites(trim_live_text(db, rules)) == []

    old = {event.id for event in await events_of(db).find() if event.id.endswith(":0")}
    assert old == {"s:2:0", "slow:0:0", "unknown:0:0", "p:0"}
    assert len(await events_of(db).find()) == len(old) + 6


async def test_live_text_stays_where_events_are_kept_for_ever(db: TenantStore, clock: FrozenClock) -> None:
    await upsert_agent_state(db, [a_state("s", iteration=1)])
    await an_event(db, "e")
    clock.advance(DAY)
    assert await bites(trim_live_text(db, RetentionRules(events_age=None))) == []


async def test_processed_actions_go_and_open_ones_and_creates_stay(db: TenantStore, clock: FrozenClock) -> None:
    asked = {status: await enqueue(db, NewAction(ActionKind.INPUT, idempotency_key=status)) for status in ActionStatus}
    create = await enqueue(db, NewAction(ActionKind.CREATE, AgentId("a"), SessionId("s")))
    refused = await enqueue(db, NewAction(ActionKind.CREATE, AgentId("a"), SessionId("t")))
    for status, action in asked.items():
        await mark_action_processed_async(db, action.id, status=status)
    await mark_action_processed_async(db, create.id)
    await mark_action_processed_async(db, refused.id, status=ActionStatus.FAILED)
    clock.advance(31 * DAY)
    late = await enqueue(db, NewAction(ActionKind.PAUSE))
    await mark_action_processed_async(db, late.id)

    async for _ in trim_queue(db, RetentionRules(bite=1)):
        pass

    left = {action.id for action in await queue_of(db).find()}
    assert left == {asked[ActionStatus.PENDING].id, asked[ActionStatus.CLAIMED].id, create.id, late.id}


async def test_an_action_that_is_requeued_in_the_meantime_stays(db: TenantStore, clock: FrozenClock) -> None:
    dead = [await enqueue(db, NewAction(ActionKind.INPUT)) for _ in range(3)]
    for action in dead:
        await mark_action_processed_async(db, action.id, status=ActionStatus.DEAD)
        clock.advance(1)
    clock.advance(31 * DAY)

    turn = trim_queue(db, RetentionRules(bite=1))
    assert (await anext(turn)).rows == 1
    await requeue_action(db, ActionId(dead[1].id))
    assert [bite.rows async for bite in turn] == [1]

    assert [action.id for action in await queue_of(db).find()] == [dead[1].id]


async def test_rows_of_workers_long_gone_go_but_those_that_something_leans_on(
    db: TenantStore, clock: FrozenClock
) -> None:
    for epoch in range(6):
        status = WorkerStatus.STOPPED if epoch % 2 else WorkerStatus.RUNNING
        await save_worker(db, a_worker(f"w{epoch}", epoch=epoch, status=status, journal_version=9 - epoch))
    lease = {"tenant": db.tenant, "lane": "echo/01", "owner": "w3", "epoch": 3, "status": "active", "watermark": 1}
    await db.store.tables[LEASES.name].upsert((*lease.values(), START))
    clock.advance(DAY - 1)
    await save_worker(db, a_worker("w2", epoch=2, heartbeat_at=clock.now()))
    clock.advance(2)

    await bites(trim_workers(db, RetentionRules()))

    # w0 has the highest watermark, w2 was heard of today, w3 has a lease, w5 is the newest
    assert sorted(worker.worker_id for worker in await list_workers(db)) == ["w0", "w2", "w3", "w5"]


async def test_no_workers_are_no_error(db: TenantStore) -> None:
    assert await bites(trim_workers(db, RetentionRules())) == []


# --- the history after a deletion -----------------------------------------------------------------------------------


@given(
    steps=st.integers(1, 12), keep=st.integers(1, 12), size=st.integers(1, 5), order=st.sampled_from(["asc", "desc"])
)
@examples(30)
async def test_the_pages_of_a_trimmed_history_are_exact(
    store: Store, steps: int, keep: int, size: int, order: Any
) -> None:
    db = store.tenant(TenantId(f"{steps}-{keep}-{size}-{order}"))
    await history(db, "s", *[WHOLE] * steps)
    await bites(trim_steps(db, RetentionRules(steps_count=keep)))

    found: list[int] = []
    cursor, pages = None, 0
    while cursor is not None or not pages:
        page = await list_agent_steps(db, StepFilter(SessionId("s")), order=order, limit=size, cursor=cursor)
        found += [step.iteration for step in page.items]
        cursor, pages = page.next_cursor, pages + 1
        assert pages <= steps + 1

    kept = list(range(max(0, steps - keep), steps))
    assert found == (kept if order == "asc" else kept[::-1])


async def test_a_question_for_deleted_steps_is_answered_with_nothing(db: TenantStore) -> None:
    await history(db, "s", *[WHOLE] * 600)
    wanted = StepFilter(SessionId("s"))
    before = await list_agent_steps(db, wanted, order="desc", limit=300)
    await bites(trim_steps(db, RetentionRules(steps_count=5)))

    for order in ("asc", "desc"):
        gone = await list_agent_steps(db, dataclasses.replace(wanted, max_iteration=100), order=order)
        assert (gone.items, gone.next_cursor) == ((), None)
    behind = await list_agent_steps(db, wanted, order="desc", cursor=before.next_cursor)
    assert (behind.items, behind.next_cursor) == ((), None)
    assert [step.iteration for step in await list_agent_steps_latest(db, session_id=SessionId("s"), limit=3)] == [
        599,
        598,
        597,
    ]


# --- its place in upkeep --------------------------------------------------------------------------------------------


class Log:
    """Keeps the warnings."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def debug(self, event: str, **fields: object) -> None:
        """Nothing to keep."""

    def warning(self, event: str, **fields: object) -> None:
        self.warnings.append(event)


async def test_upkeep_gives_retention_its_turn_and_says_what_it_took(db: TenantStore) -> None:
    await history(db, "s", *[WHOLE] * 10)
    upkeep = Upkeep(db.store, UpkeepRules(retention=RetentionRules(steps_count=4)), Log())

    assert await upkeep.retain() == {"agent_steps": 6}
    assert await upkeep.retain() == {}
    assert await Upkeep(db.store, UpkeepRules(), Log()).retain() == {}


async def test_retention_ends_when_another_worker_is_to_do_it(db: TenantStore) -> None:
    for at in range(6):
        await history(db, f"s{at}", *[WHOLE] * 3)
    rules = UpkeepRules(retention=RetentionRules(steps_count=1, sessions=2))

    assert await Upkeep(db.store, rules, Log(), may_run=lambda: False).retain() == {"agent_steps": 4}


async def test_only_the_one_that_may_run_does_anything(db: TenantStore, clock: FrozenClock) -> None:
    await history(db, "s", *[WHOLE] * 5)
    may: list[bool] = []
    rules = UpkeepRules(retention=RetentionRules(steps_count=1), commits=10**6, retain_every_s=60)
    running = asyncio.create_task(Upkeep(db.store, rules, Log(), may_run=lambda: bool(may)).run())
    await eventually(lambda: clock.sleepers == 1)
    assert len(await iterations(db)) == 5

    may.append(True)
    clock.advance(rules.every_s)
    await eventually(lambda: clock.sleepers == 1)
    assert await iterations(db) == [4]

    # it rests after its turn
    await history(db, "t", *[WHOLE] * 5)
    clock.advance(59)
    await eventually(lambda: clock.sleepers == 1)
    assert len(await iterations(db, "t")) == 5
    clock.advance(1)
    await eventually(lambda: clock.sleepers == 1)
    assert await iterations(db, "t") == [4]

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
