from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from runtime.guests import Guests
from runtime.ownership import SoleOwner
from runtime.projector import Projector
from runtime.session import LiveSession, new_session
from runtime.spec import read_spec
from runtime.testing import LeapClock
from store.actions import ActionKind
from store.agent_state import SessionStatus, find_agent_state
from store.agent_steps import AgentStep, StepStatus, journal_of
from store.clock import SystemIds
from store.crashpoints import no_crash
from store.database import Store, open_store
from store.enqueueing import NewAction, enqueue
from store.ids import AgentId, ConversationId, SessionId, step_id
from store.messages import list_messages, messages_of
from store.options import StoreOptions
from tests.support import eventually

THREAD = ConversationId("t")


class Bench:
    """A projector on a real store, and what its crash points call."""

    def __init__(self) -> None:
        self.visited: list[str] = []
        self.at: dict[str, Any] = {}

    def visit(self, point: str) -> None:
        self.visited.append(point)
        self.at.get(point, no_crash)(point)

    async def session(self, store: Store, name: str = "s") -> LiveSession:
        """A new session of the thread."""
        new = NewAction(
            kind=ActionKind.CREATE,
            agent_id=AgentId("a"),
            session_id=SessionId(name),
            conversation_id=THREAD,
            payload={"moniker": "m"},
        )
        create = await enqueue(store.tenant(), new)
        return new_session(create, read_spec(create.payload, create.id), "1", owner="w", epoch=1)


@asynccontextmanager
async def bench(folder: Path, interval_s: float = 0.0) -> AsyncIterator[tuple[Bench, Store, Projector]]:
    desk = Bench()
    options = StoreOptions(str(folder), patience_s=0.1)
    store = await open_store(options, clock=LeapClock(), ids=SystemIds(), crash_point=desk.visit)
    projector = Projector(
        store.tenant(),
        Guests(store.tenant()),
        SoleOwner("w", 1),
        interval_s=interval_s,
        watermark=0,
        crash_point=desk.visit,
    )
    try:
        yield desk, store, projector
    finally:
        await store.close()


def step_of(store: Store, session: LiveSession) -> AgentStep:
    return AgentStep(
        id=step_id(session.session_id, session.steps),
        created_at=store.clock.now(),
        agent_id=session.identity.agent_id,
        session_id=session.session_id,
        action_id=None,
        iteration=session.steps,
        step_token=str(session.steps),
        next_step_token=str(session.steps + 1),
        status=StepStatus.RUNNING,
        text=f"step {session.steps}",
        data=None,
        state={"n": session.steps},
        guidance=None,
        notes=None,
        wait=None,
        latency_ms=0.0,
        error=None,
        usage={},
        epoch=1,
    )


async def message_ids(store: Store) -> list[str]:
    return [message.message_id for message in (await list_messages(store.tenant(), THREAD)).items]


async def test_a_committed_step_is_folded_in_before_its_caller_goes_on(tmp_path: Path) -> None:
    async with bench(tmp_path) as (_, store, projector):
        session = await Bench().session(store)
        await projector.commit(session, step_of(store, session))
        assert (session.iteration, session.context, session.status) == (0, {"n": 0}, SessionStatus.RUNNING)


async def test_the_watermark_moves_when_everything_below_it_is_stored(tmp_path: Path) -> None:
    async with bench(tmp_path) as (_, store, projector):
        session = await Bench().session(store)
        await projector.commit(session, step_of(store, session))
        reached = await journal_of(store.tenant()).version()
        assert projector.watermark == 0
        await projector.flush()
        assert projector.watermark == reached
        assert await message_ids(store) == ["s:0"]
        row = await find_agent_state(store.tenant(), session_id=SessionId("s"))
        assert row is not None
        assert (row.iteration, row.context) == (0, {"n": 0})


async def test_a_step_committed_during_a_flush_waits_for_the_next_one(tmp_path: Path) -> None:
    async with bench(tmp_path) as (_, store, projector):
        session = await Bench().session(store)
        await projector.commit(session, step_of(store, session))
        first = await journal_of(store.tenant()).version()
        async with store.tables["conversation_messages"]._locks.commit.held():
            flushing = asyncio.create_task(projector.flush())
            await projector.commit(session, step_of(store, session))
        await flushing
        assert projector.watermark == first
        await projector.flush()
        assert projector.watermark > first
        assert await message_ids(store) == ["s:0", "s:1"]


async def test_many_sessions_share_a_flush(tmp_path: Path) -> None:
    async with bench(tmp_path) as (desk, store, projector):
        sessions = [await Bench().session(store, f"s{number}") for number in range(20)]
        await asyncio.gather(*[projector.commit(session, step_of(store, session)) for session in sessions])
        desk.visited.clear()
        await projector.flush()
        assert desk.visited.count("agent_state.before_commit") == 1
        assert desk.visited.count("conversation_messages.before_commit") == 1


async def test_who_waits_for_a_row_is_told_when_it_is_stored(tmp_path: Path) -> None:
    async with bench(tmp_path) as (_, store, projector):
        session = await Bench().session(store)
        waiting = asyncio.create_task(projector.stored(session))
        await asyncio.sleep(0)
        session.enter(SessionStatus.PAUSED, "paused", store.clock.now())
        await projector.flush()
        await waiting
        row = await find_agent_state(store.tenant(), session_id=SessionId("s"))
        assert row is not None
        assert row.status is SessionStatus.PAUSED


async def test_a_flush_that_fails_tells_those_who_wait_and_keeps_what_it_had(tmp_path: Path) -> None:
    def fail(_: str) -> None:
        raise OSError("no space left")

    async with bench(tmp_path) as (desk, store, projector):
        session = await Bench().session(store)
        await projector.commit(session, step_of(store, session))
        waiting = asyncio.create_task(projector.stored(session))
        await asyncio.sleep(0)
        desk.at["projector.between_projections"] = fail
        with pytest.raises(OSError, match="no space left"):
            await projector.flush()
        with pytest.raises(OSError, match="no space left"):
            await waiting
        assert projector.watermark == 0
        desk.at.clear()
        await projector.flush()
        assert projector.watermark > 0


async def test_ending_the_loop_in_the_middle_of_a_flush_stores_each_message_once(tmp_path: Path) -> None:
    async with bench(tmp_path) as (desk, store, projector):
        session = await Bench().session(store)
        await projector.commit(session, step_of(store, session))
        running = asyncio.create_task(projector.run())
        desk.at["conversation_messages.before_commit"] = lambda _: running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
        await projector.flush()
        stored = (await messages_of(store.tenant()).values("message_id")).to_pylist()
        assert stored == ["s:0"]
        assert projector.watermark > 0


async def test_the_loop_flushes_when_there_is_something(tmp_path: Path) -> None:
    async with bench(tmp_path) as (desk, store, projector):
        session = await Bench().session(store)
        running = asyncio.create_task(projector.run())
        await projector.commit(session, step_of(store, session))
        await eventually(lambda: projector.watermark > 0)
        await projector.stored(session)
        flushes = desk.visited.count("projector.before_flush")
        version = await journal_of(store.tenant()).version()
        for _ in range(50):
            await asyncio.sleep(0)
        assert desk.visited.count("projector.before_flush") == flushes
        assert await journal_of(store.tenant()).version() == version
        running.cancel()
        await asyncio.wait([running])


async def test_a_crash_point_stands_before_between_and_after(tmp_path: Path) -> None:
    async with bench(tmp_path) as (desk, store, projector):
        session = await Bench().session(store)
        await projector.commit(session, step_of(store, session))
        desk.visited.clear()
        await projector.flush()
        points = [point for point in desk.visited if "cursor" not in point]
        assert points == [
            "projector.before_flush",
            "conversation_messages.before_commit",
            "conversation_messages.after_commit",
            "projector.between_projections",
            "agent_state.before_commit",
            "agent_state.after_commit",
            "projector.after_flush",
        ]
