"""What is over: only what ended for good, long ago, and where nothing is asked, said or planned."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta
from typing import Any

import pytest

from store.actions import ActionKind
from store.agent_state import SessionStatus, upsert_agent_state
from store.database import Store, TenantStore
from store.enqueueing import NewAction, enqueue
from store.finished import conversation_ids, finished_sessions, idle_conversations, session_ids
from store.ids import ConversationId, ScheduleId, TenantId
from store.messages import post_message
from store.schedules import add_schedule, enable_schedule
from store.testing import START, FrozenClock
from store.timetable import Rule
from tests.store.rows import a_state

DONE, STOPPED = SessionStatus.DONE, SessionStatus.STOPPED
LIMIT = START + timedelta(days=30)


async def sessions(db: TenantStore, **rows: tuple[SessionStatus, datetime]) -> None:
    """Sessions by name, each in the conversation "c"."""
    await upsert_agent_state(
        db,
        [
            dataclasses.replace(a_state(name, conversation_id=ConversationId("c"), status=status), updated_at=at)
            for name, (status, at) in rows.items()
        ],
    )


async def test_a_session_is_finished_when_it_ended_for_good_before(db: TenantStore, store: Store) -> None:
    await sessions(db, **{status.value: (status, START) for status in SessionStatus}, late=(DONE, LIMIT))
    await sessions(store.tenant(TenantId("other")), waiting=(DONE, START))
    named = [status.value for status in SessionStatus] + ["late", "unknown"]
    assert await finished_sessions(db, named, LIMIT) == {"done", "stopped"}
    assert await finished_sessions(db, ["done", "unknown"], LIMIT) == {"done"}
    assert await finished_sessions(db, [], LIMIT) == set()
    assert (await session_ids(db), await conversation_ids(db)) == ({*named[:-1]}, {"c"})


async def idle(db: TenantStore) -> bool:
    """Whether nothing happens in the conversation."""
    return await idle_conversations(db, ["c", "unknown"], LIMIT) == {"c"}


async def test_a_conversation_is_idle_when_all_its_sessions_are_finished(db: TenantStore) -> None:
    assert not await idle(db)
    await sessions(db, a=(DONE, START), b=(STOPPED, START))
    assert await idle(db)
    for status in set(SessionStatus) - {DONE, STOPPED}:
        await sessions(db, b=(status, START))
        assert not await idle(db), status
    await sessions(db, b=(DONE, LIMIT))
    assert not await idle(db)


async def test_what_is_asked_said_or_planned_in_it_keeps_it(db: TenantStore, clock: FrozenClock) -> None:
    await sessions(db, a=(DONE, START))
    await post_message(db, ConversationId("c"), text="long ago")
    assert await idle(db)
    created: dict[str, Any] = {"kind": ActionKind.CREATE, "payload": {"moniker": "echo"}}
    plan = ScheduleId("plan")
    await add_schedule(db, rule=Rule(every_s=60), schedule_id=plan, conversation_id=ConversationId("c"), **created)
    assert not await idle(db)
    await enable_schedule(db, plan, enabled=False)
    assert await idle(db)
    clock.advance(31 * 86_400)
    await post_message(db, ConversationId("c"), text="lately")
    assert not await idle(db)


async def test_an_open_action_keeps_it(db: TenantStore) -> None:
    await sessions(db, a=(DONE, START))
    await enqueue(db, NewAction(kind=ActionKind.CREATE, conversation_id=ConversationId("c")))
    assert not await idle(db)


@pytest.mark.parametrize("count", [1_200])
async def test_many_are_asked_about_at_once(db: TenantStore, count: int) -> None:
    await sessions(db, **{f"s{n}": (DONE, START) for n in range(count)})
    assert len(await finished_sessions(db, [f"s{n}" for n in range(count)], LIMIT)) == count
