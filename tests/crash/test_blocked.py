"""A moniker that blocks the event loop of one of two workers: it is named, and the other worker goes on."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import agents
from monikers.catalogue import Catalogue
from monikers.echo import ECHO
from runtime.contract import StepFrame, StepOut
from store.agent_requests import agent_create
from store.agent_state import SessionStatus, find_agent_state
from store.agent_steps import StepFilter, list_agent_steps
from store.ids import SessionId
from store.lanes import lane_of
from store.leases import list_leases
from tests.process.kit import FORKS, Child, Forked, _environment, _new_file
from tests.processes import stored
from tests.runtime.kit import moniker, out
from tests.support import eventually

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(120)]

ENV = {"STEPWELL_LEASE_S": "2", "STEPWELL_HEARTBEAT_S": "0.3", "STEPWELL_DRAIN_S": "1"}
BLOCKED_S = 8.0


async def blocks(ctx: Any, frame: StepFrame) -> StepOut:
    """Hold the whole event loop, once for each file that says so."""
    by = str(os.getpid())
    try:
        os.unlink(os.environ["BLOCK"])
    except FileNotFoundError:
        return out(frame, text=by, done=True)
    threading.Event().wait(BLOCKED_S)
    return out(frame, text=by, done=True)


def _be_worker(said: str, env: dict[str, str]) -> None:
    os.environ.update(env)
    with Path(said).open("ab", buffering=0) as file:
        os.dup2(file.fileno(), 2)
    setattr(agents, "catalogue", lambda: Catalogue.of(ECHO, moniker("blocks", blocks)))  # noqa: B010
    agents.main([], prog_name="agents.py")


@contextmanager
def worker(folder: Path) -> Iterator[Child]:
    said = _new_file(folder)
    env = _environment(folder, {**ENV, "BLOCK": str(folder / "block")})
    process = FORKS.Process(target=_be_worker, args=(str(said), env))
    process.start()
    try:
        yield Child(Forked(process), said)
    finally:
        process.kill()
        process.join()


async def test_a_worker_whose_loop_is_blocked_is_named_and_replaced(tmp_path: Path) -> None:
    (tmp_path / "block").touch()
    async with stored(tmp_path) as db:
        with worker(tmp_path) as one, worker(tmp_path) as two:

            async def owners(moniker: str) -> list[str | None]:
                return [lease.owner for lane, lease in (await list_leases(db)).items() if lane.startswith(moniker)]

            async def shared() -> bool:
                found = await owners("echo/")
                return None not in found and len(set(found)) == 2

            await eventually(shared, 40)
            config = {"text": "tick", "steps": 40, "delay_s": 0.1}
            names = [SessionId(f"s{number}") for number in range(8)]
            for name in names:
                await agent_create(db, moniker="echo", session_id=name, spec={"task": "t", "config": config})
            await agent_create(db, moniker="blocks", session_id=SessionId("b"), spec={})
            owner = (await list_leases(db))[lane_of("blocks", "b")].owner
            stuck, free = (one, two) if str(owner) in one.said else (two, one)
            await eventually(lambda: "stands still" in stuck.said, 20)
            assert "session b (blocks)" in stuck.said
            assert "stands still" not in free.said

            async def ended(name: SessionId) -> bool:
                row = await find_agent_state(db, session_id=name)
                return row is not None and row.status is SessionStatus.DONE

            async def only_the_free_one() -> bool:
                return owner not in await owners("echo/")

            await eventually(only_the_free_one, 20)
            await eventually(lambda: ended(SessionId("b")), 20)
            for name in names:
                await eventually(lambda name=name: ended(name), 40)  # type: ignore[misc]
                steps = (await list_agent_steps(db, StepFilter(session_id=name))).items
                assert [step.iteration for step in steps] == list(range(40))
            await eventually(lambda: "goes on after it stood still" in stuck.said, 30)
            await eventually(shared, 40)  # it has a share again
            (step,) = (await list_agent_steps(db, StepFilter(session_id=SessionId("b")))).items
            assert step.text == str(free.running.process.pid)  # type: ignore[attr-defined]
