from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from monikers.catalogue import Catalogue
from runtime import registry as module
from runtime.context import Services
from runtime.contract import MonikerInputError, StepFrame, StepOut, WaitForInput, WaitUntil
from runtime.errors import RefusedError
from runtime.guests import Guests
from runtime.ownership import SoleOwner
from runtime.projector import Projector
from runtime.registry import Registry
from runtime.session import LiveSession, new_session
from runtime.slots import Slots
from runtime.spec import read_spec
from runtime.testing import FakeFiles, ScriptedModel
from store.actions import Action, ActionKind
from store.agent_state import SessionStatus, upsert_agent_state
from store.crashpoints import no_crash
from store.database import TenantStore
from store.enqueueing import NewAction, enqueue
from store.ids import AgentId, SessionId
from store.lanes import lanes_of
from tests.runtime.kit import Gate, KeptLog, moniker, opened, out
from tests.support import eventually

S, A = SessionId("s"), AgentId("a")


class Bench:
    """A registry with a projector that runs."""

    def __init__(self, db: TenantStore) -> None:
        self.db = db
        self.log = KeptLog()
        self.gate = Gate()
        self.asleep: list[tuple[SessionId, datetime]] = []
        self.projector = Projector(db, Guests(db), SoleOwner("w", 1), interval_s=0.0, watermark=0, crash_point=no_crash)
        names = {"waits": WaitForInput(), "sleeps": None, "hangs": None, "ends": None}
        self.registry = Registry(
            Services(db, ScriptedModel(), FakeFiles(), db.clock, self.log),
            self.projector,
            Catalogue.of(*[moniker(name, self._step) for name in names]),
            SoleOwner("w", 1),
            hold_s=30,
            sleep=lambda session_id, moment: self.asleep.append((session_id, moment)),
            slots=Slots(),
        )

    async def _step(self, ctx: Any, frame: StepFrame) -> StepOut:
        match ctx._session.spec.moniker:
            case "sleeps":
                return out(frame, wait=WaitUntil(time=ctx.clock.now() + timedelta(days=1)))
            case "hangs":
                await self.gate.passing()
                return out(frame)
            case "ends":
                return out(frame, done=True)
            case _:
                return out(frame, wait=WaitForInput())

    async def create(self, name: str = "waits", session: str = "s", agent: str = "a") -> Action:
        new = NewAction(
            kind=ActionKind.CREATE,
            agent_id=AgentId(agent),
            session_id=SessionId(session),
            payload={"moniker": name},
        )
        return await enqueue(self.db, new)

    async def session(self, name: str = "waits", session: str = "s") -> LiveSession:
        action = await self.create(name, session)
        return new_session(action, read_spec(action.payload, action.id), "1", owner="w", epoch=1)

    async def out_of_memory(self) -> None:
        """Return when no session is in memory."""
        await eventually(lambda: not self.registry.SESSIONS)


EVERYWHERE = {lane for name in ("waits", "hangs") for lane in lanes_of(name)}


@asynccontextmanager
async def bench(folder: Path) -> AsyncIterator[Bench]:
    async with opened(folder) as store:
        desk = Bench(store.tenant())
        projecting = asyncio.create_task(desk.projector.run())
        yield desk
        projecting.cancel()
        await asyncio.wait([projecting])


async def test_a_session_is_in_memory_while_it_runs(tmp_path: Path) -> None:
    async with bench(tmp_path) as desk:
        session = await desk.session("hangs")
        runner = desk.registry.start(session, reopened=False)
        assert {S: runner} == desk.registry.SESSIONS
        assert await desk.registry.open(S) is runner
        await runner.stop_within(0.01)
        assert desk.registry.SESSIONS == {}


async def test_one_that_rests_is_opened_again_from_its_row(tmp_path: Path) -> None:
    async with bench(tmp_path) as desk:
        desk.registry.start(await desk.session(), reopened=False)
        await desk.out_of_memory()
        async with desk.registry.lane(S):
            runner = await desk.registry.open(S)
        assert (runner.session.status, runner.session.iteration) == (SessionStatus.WAITING, 0)
        await desk.out_of_memory()


async def test_a_sleeping_one_is_handed_to_the_sleepers(tmp_path: Path) -> None:
    async with bench(tmp_path) as desk:
        session = await desk.session("sleeps")
        desk.registry.start(session, reopened=False)
        await desk.out_of_memory()
        assert desk.asleep == [(S, session.wake_at)]


async def test_an_unknown_session_is_refused(tmp_path: Path) -> None:
    async with bench(tmp_path) as desk:
        with pytest.raises(RefusedError, match="there is no session 's'"):
            await desk.registry.open(S)


async def test_a_moniker_that_is_not_known_is_the_callers_to_explain(tmp_path: Path) -> None:
    async with bench(tmp_path) as desk:
        with pytest.raises(MonikerInputError, match="no moniker 'gone'"):
            desk.registry.start(await desk.session("gone"), reopened=False)
        assert desk.registry.SESSIONS == {}


async def test_lanes_are_first_come_first_served_and_leave_nothing_behind(tmp_path: Path) -> None:
    order: list[int] = []

    async def use(desk: Bench, number: int) -> None:
        async with desk.registry.lane(S):
            order.append(number)
            await asyncio.sleep(0)
            order.append(number)

    async with bench(tmp_path) as desk:
        await asyncio.gather(*[use(desk, number) for number in range(4)])
        assert order == [0, 0, 1, 1, 2, 2, 3, 3]
        waiting = asyncio.create_task(use(desk, 9))
        async with desk.registry.lane(S):
            await asyncio.sleep(0)
            waiting.cancel()
        await asyncio.wait([waiting])
        assert desk.registry._lanes == {}


async def test_lanes_of_two_sessions_do_not_wait_for_each_other(tmp_path: Path) -> None:
    async with bench(tmp_path) as desk, desk.registry.lane(S), desk.registry.lane(SessionId("t")):
        assert len(desk.registry._lanes) == 2


async def test_the_latest_session_of_an_agent_is_remembered_or_read(tmp_path: Path) -> None:
    async with bench(tmp_path) as desk:
        with pytest.raises(RefusedError, match="agent 'a' has no session"):
            await desk.registry.latest_session(A)
        for name in ("old", "new"):
            session = await desk.session("waits", name)
            await upsert_agent_state(desk.db, [session.snapshot()])
        assert await desk.registry.latest_session(A) == "new"
        desk.registry.remember_latest(A, SessionId("newer"))
        assert await desk.registry.latest_session(A) == "newer"


async def test_a_refused_create_takes_back_only_its_own_note(tmp_path: Path) -> None:
    async with bench(tmp_path) as desk:
        desk.registry.remember_latest(A, SessionId("other"))
        desk.registry.forget_latest(await desk.create())
        assert desk.registry.AGENT_LATEST == {A: "other"}
        desk.registry.remember_latest(A, S)
        desk.registry.forget_latest(await desk.create())
        assert desk.registry.AGENT_LATEST == {}


async def test_so_many_agents_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_LATEST", 2)
    async with bench(tmp_path) as desk:
        for agent in "abac":
            desk.registry.remember_latest(AgentId(agent), SessionId(f"of {agent}"))
        assert list(desk.registry.AGENT_LATEST) == ["a", "c"]


async def test_draining_lets_steps_finish(tmp_path: Path) -> None:
    async with bench(tmp_path) as desk:
        session = await desk.session("hangs")
        desk.registry.start(session, reopened=False)
        await desk.gate.reached.wait()
        draining = asyncio.create_task(desk.registry.drain_lanes(EVERYWHERE, grace_s=30))
        desk.gate.open()
        await draining
        assert (session.iteration, session.status, desk.registry.SESSIONS) == (0, SessionStatus.RUNNING, {})


async def test_draining_cuts_a_step_that_takes_too_long(tmp_path: Path) -> None:
    async with bench(tmp_path) as desk:
        session = await desk.session("hangs")
        desk.registry.start(session, reopened=False)
        await desk.gate.reached.wait()
        await desk.registry.drain_lanes(EVERYWHERE, grace_s=0.01)
        assert (session.iteration, session.status, desk.registry.SESSIONS) == (-1, SessionStatus.RUNNING, {})


async def test_draining_nothing_is_done_at_once(tmp_path: Path) -> None:
    async with bench(tmp_path) as desk:
        await desk.registry.drain_lanes(EVERYWHERE, grace_s=30)


async def test_rows_that_are_asked_for_together_are_read_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    read = module.get_agent_states  # type: ignore[attr-defined]

    async def counting(db: TenantStore, session_ids: Any) -> Any:
        reads.append(len(session_ids))
        return await read(db, session_ids)

    monkeypatch.setattr(module, "get_agent_states", counting)
    async with bench(tmp_path) as desk:
        found = await asyncio.gather(*[desk.registry.row(SessionId(f"s{number}")) for number in range(50)])
        assert found == [None] * 50
        assert reads == [50]
