"""A worker that is killed while it carries a fork out: the next one leaves exactly one session, exactly as asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.agent_requests import agent_create, agent_fork
from store.agent_state import SessionStatus, find_agent_state
from store.agent_steps import journal_of, state_at
from store.database import TenantStore
from store.ids import AgentId, SessionId
from tests.process.kit import forked_worker
from tests.processes import stored
from tests.runtime.invariants import hold_laws
from tests.support import eventually

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

SOURCE = SessionId("source")
POINTS = [
    "agents.before_commit:1",
    "agent_steps.before_commit:1",
    "agent_steps.after_commit:1",
    "projector.before_flush:1",
    "agent_state.before_commit:1",
    "agent_state.after_commit:1",
    "queue.before_commit:1",
    "queue.after_commit:1",
]


async def test_a_kill_at_any_write_of_a_fork_leaves_one_session(tmp_path: Path) -> None:
    async with stored(tmp_path) as db:
        await agent_create(db, moniker="echo", session_id=SOURCE, spec={"task": "hello", "config": {"steps": 4}})
        async with forked_worker(tmp_path) as child:
            await eventually(lambda: all_done(db, [SOURCE]), 30)
            assert await child.ended() == 0
        expected = await state_at(db, SOURCE, 1)
        forks = [SessionId(f"fork-{number}") for number in range(len(POINTS))]
        for fork, point in zip(forks, POINTS, strict=True):
            await ask(db, fork, f"agent-of-{fork}")
            async with forked_worker(tmp_path, env={"STEPWELL_CRASH_AT": point}) as child:
                assert await child.code() == -9, point
        async with forked_worker(tmp_path) as child:
            await eventually(lambda: all_done(db, forks), 30)
            assert await child.ended() == 0
        await hold_laws(db)
        ids = [str(value) for value in (await journal_of(db).values("id")).to_pylist()]
        for fork in forks:
            assert await state_at(db, fork, 0) == expected
            assert sorted(name for name in ids if name.startswith(f"{fork}:")) == [f"{fork}:{at}" for at in range(3)]


async def ask(db: TenantStore, session_id: SessionId, agent_id: str) -> None:
    """Ask for a fork behind the second of the source's four steps."""
    spec = {"moniker": "echo", "task": "hello", "config": {"steps": 4}}
    await agent_fork(db, source_id=SOURCE, iteration=1, agent_id=AgentId(agent_id), session_id=session_id, spec=spec)


async def all_done(db: TenantStore, session_ids: list[SessionId]) -> bool:
    rows = [await find_agent_state(db, session_id=session_id) for session_id in session_ids]
    return all(row is not None and row.status is SessionStatus.DONE for row in rows)
