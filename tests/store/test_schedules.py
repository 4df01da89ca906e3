from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from store import filters
from store.actions import Action, ActionKind, list_open_actions, queue_of
from store.database import TenantStore
from store.errors import ConflictError, NotFoundError
from store.ids import AgentId, ConversationId, ScheduleId, SessionId
from store.schedules import (
    Schedule,
    add_schedule,
    delete_schedule,
    enable_schedule,
    find_schedule,
    fire,
    get_schedule,
    list_enabled,
    list_schedules,
    schedules_of,
)
from store.testing import START, FrozenClock
from store.timetable import BadRuleError, Rule

HOURLY = Rule(cron="0 * * * *")
HOUR = timedelta(hours=1)


async def added(db: TenantStore, name: str = "s1", **given: Any) -> Schedule:
    values = {"rule": HOURLY, "kind": ActionKind.INPUT, "payload": {"text": "x"}, "session_id": SessionId("s"), **given}
    return await add_schedule(db, schedule_id=ScheduleId(name), **values)


async def fired(db: TenantStore) -> list[Action]:
    """What the queue holds, oldest first."""
    return await list_open_actions(db)


async def test_a_schedule_is_stored_found_listed_and_deleted(ticking: TenantStore) -> None:
    made = [await added(ticking, f"s{number}", urgency=number) for number in range(5)]
    assert await get_schedule(ticking, made[2].schedule_id) == made[2]
    page = await list_schedules(ticking, limit=3)
    rest = await list_schedules(ticking, limit=3, cursor=page.next_cursor)
    assert [*page.items, *rest.items] == made[::-1]
    assert rest.next_cursor is None
    await delete_schedule(ticking, made[2].schedule_id)
    assert await find_schedule(ticking, made[2].schedule_id) is None
    for gone in (get_schedule, delete_schedule):
        with pytest.raises(NotFoundError):
            await gone(ticking, made[2].schedule_id)
    with pytest.raises(ConflictError):
        await added(ticking, "s1")
    with pytest.raises(BadRuleError):
        await added(ticking, "bad", rule=Rule(cron="x"))


async def test_a_due_moment_is_fired_once_and_the_next_one_is_stored(db: TenantStore, clock: FrozenClock) -> None:
    made = await added(db, urgency=7, conversation_id=ConversationId("c"))
    assert made.next_at == START + HOUR
    assert await fire(db, made) is None
    clock.advance(3600)
    action = await fire(db, made)
    assert action is not None
    assert (action.kind, action.session_id, action.conversation_id, action.urgency, action.payload) == (
        ActionKind.INPUT,
        "s",
        "c",
        7,
        {"text": "x"},
    )
    now = await get_schedule(db, made.schedule_id)
    assert (now.next_at, now.last_at, now.last_action_id) == (START + 2 * HOUR, START + HOUR, action.id)
    assert await fire(db, now) is None


async def test_a_crash_between_the_action_and_the_row_fires_no_second_time(
    db: TenantStore, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await added(db)
    clock.advance(3600)
    with monkeypatch.context() as crash:
        crash.setattr("store.scope.ScopedTable.change_if", None)
        with pytest.raises(TypeError):
            await fire(db, made)
    clock.advance(10 * 3600)
    assert await get_schedule(db, made.schedule_id) == made
    await fire(db, made)
    assert len(await fired(db)) == 1
    assert (await get_schedule(db, made.schedule_id)).next_at == START + 12 * HOUR


async def test_workers_that_fire_at_once_fire_once(db: TenantStore, clock: FrozenClock) -> None:
    made = await added(db)
    clock.advance(3600)
    actions = await asyncio.gather(*[fire(db, made) for _ in range(6)])
    assert len({action.id for action in actions if action is not None}) == 1  # what the worker carries out
    first = min(await queue_of(db).created_since(0), key=lambda row: (row.version, row.item.id)).item
    now = await get_schedule(db, made.schedule_id)
    assert (now.next_at, now.last_action_id) == (START + 2 * HOUR, first.id)


async def test_missed_moments_are_one(db: TenantStore, clock: FrozenClock) -> None:
    made = await added(db)
    clock.advance(1000 * 3600 + 10)
    await fire(db, made)
    now = await get_schedule(db, made.schedule_id)
    assert (len(await fired(db)), now.last_at, now.next_at) == (1, START + HOUR, START + 1001 * HOUR)
    assert await fire(db, now) is None


@pytest.mark.parametrize("rule", [HOURLY, Rule(every_s=3600)])
async def test_a_clock_that_goes_back_fires_nothing_twice(db: TenantStore, clock: FrozenClock, rule: Rule) -> None:
    """F13"""
    await added(db, rule=rule)
    keys = []
    for hours in [1, 1, -1, 1, -2, 1, 1, 1, 1]:
        clock.advance(hours * 3600)
        for schedule in await list_enabled(db):
            if (action := await fire(db, schedule)) is not None:
                keys.append(action.idempotency_key)
    assert len(keys) == len(set(keys)) == 4  # the hours 1, 2, 3, 4 that the clock showed
    assert len(await fired(db)) == 4


async def test_a_disabled_schedule_rests_and_misses_nothing_when_it_is_enabled(
    db: TenantStore, clock: FrozenClock
) -> None:
    made = await added(db)
    off = await enable_schedule(db, made.schedule_id, enabled=False)
    assert (off.enabled, off.next_at) == (False, None)
    clock.advance(5 * 3600)
    assert (await list_enabled(db), await fire(db, off)) == ([], None)
    on = await enable_schedule(db, made.schedule_id, enabled=True)
    assert on.next_at == START + 6 * HOUR
    assert await enable_schedule(db, made.schedule_id, enabled=True) == on


async def test_one_that_is_disabled_while_it_fires_stays_disabled(db: TenantStore, clock: FrozenClock) -> None:
    made = await added(db)
    clock.advance(3600)
    await enable_schedule(db, made.schedule_id, enabled=False)
    await fire(db, made)  # read before that
    assert (await get_schedule(db, made.schedule_id)).next_at is None
    await delete_schedule(db, made.schedule_id)
    await fire(db, made)
    assert await schedules_of(db).find(filters.equals("schedule_id", "s1")) == []


async def test_each_create_has_a_session_of_its_own(db: TenantStore, clock: FrozenClock) -> None:
    made = await added(db, kind=ActionKind.CREATE, session_id=None, agent_id=AgentId("a"), payload={"moniker": "m"})
    for _ in range(3):
        clock.advance(3600)
        await fire(db, await get_schedule(db, made.schedule_id))
    actions = await fired(db)
    assert len({action.session_id for action in actions}) == 3
    assert {action.metadata["schedule_id"] for action in actions} == {"s1"}
