"""Agent events: stored as they were emitted, several in a commit, and followed by the change feed."""

from __future__ import annotations

import asyncio

from store.agent_events import AgentEvent, append_event, events_of, running_events
from store.changes import Feed
from store.database import TenantStore
from store.ids import SessionId
from store.testing import START


def an_event(seq: int) -> AgentEvent:
    return AgentEvent(f"e{seq}", START, SessionId("s"), 0, seq, "token", {"text": f"é{seq}"})


async def test_an_event_comes_back_whole(db: TenantStore) -> None:
    await append_event(db, an_event(0))

    assert await events_of(db).find() == [an_event(0)]


async def test_events_at_the_same_time_share_a_commit_and_keep_their_order(db: TenantStore) -> None:
    feed = Feed(events_of(db), "created", await events_of(db).version())
    before = feed.version

    await asyncio.gather(*[append_event(db, an_event(seq)) for seq in range(20)])

    assert [row.item for row in await feed.poll()] == [an_event(seq) for seq in range(20)]
    assert feed.version == before + 1


async def test_what_running_steps_have_told_is_of_one_kind_and_behind_the_stored_ones(db: TenantStore) -> None:
    told = [("s", 0, "insight"), ("s", 1, "insight"), ("s", 1, "token"), ("s", 2, "insight"), ("other", 1, "insight")]
    for seq, (session, iteration, kind) in enumerate(told):
        await append_event(db, AgentEvent(f"e{seq}", START, SessionId(session), iteration, seq, kind, seq))

    found = await running_events(db, SessionId("s"), "insight", after=0)

    assert [event.data for event in found] == [1, 3]
