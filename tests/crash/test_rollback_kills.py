"""A worker that is killed around a rollback's row: the next one ends up where an undisturbed one would."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from store.actions import ActionStatus, WhenBusy, get_action
from store.agent_requests import agent_create, agent_input
from store.agent_state import SessionStatus, find_agent_state
from store.agent_steps import StepFilter, list_agent_steps
from store.database import TenantStore
from store.ids import ActionId, SessionId
from tests.process.kit import forked_worker
from tests.processes import stored
from tests.support import eventually

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(240)]

S = SessionId("s")
#: long enough to be spoken to while a step runs
STEP_S = 3.0


@pytest.mark.parametrize("point", ["rollback.before_row:1", "rollback.after_row:1"])
async def test_a_kill_around_the_row(tmp_path: Path, point: str) -> None:
    async with stored(tmp_path) as db:
        config = {"steps": 1, "delay_s": STEP_S, "wait_for_input": True}
        await agent_create(db, moniker="echo", session_id=S, spec={"task": "hello", "config": config})
        async with forked_worker(tmp_path, env={"STEPWELL_CRASH_AT": point}) as child:
            await _until(db, SessionStatus.WAITING)
            first = await agent_input(db, text="first", session_id=S)
            await _until(db, SessionStatus.RUNNING)
            second = await agent_input(db, text="second", session_id=S, when_busy=WhenBusy.ROLLBACK)
            assert await child.code() == -9
        async with forked_worker(tmp_path) as child:
            await eventually(partial(_processed, db, second.id), 60, 0.05)
            await eventually(partial(_processed, db, first.id), 60, 0.05)
            assert await child.ended() == 0
        ended = await get_action(db, first.id)
        assert (ended.status, ended.error) == (ActionStatus.FAILED, f"rolled back by action {second.id}")
        assert (await get_action(db, second.id)).status is ActionStatus.DONE
        steps = (await list_agent_steps(db, StepFilter(S))).items
        assert [step.iteration for step in steps] == list(range(len(steps)))
        assert [step.notes for step in steps].count("rolled back to iteration 0") == 1
        read = [said["text"] for step in steps for said in (step.guidance or {}).get("inputs", [])]
        assert read == ["second"]


async def _until(db: TenantStore, status: SessionStatus) -> None:
    async def so() -> bool:
        row = await find_agent_state(db, session_id=S)
        return row is not None and row.status is status and row.iteration == 0

    await eventually(so, 60)


async def _processed(db: TenantStore, action_id: ActionId) -> bool:
    return (await get_action(db, action_id)).processed
