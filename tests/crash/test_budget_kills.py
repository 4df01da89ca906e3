"""A worker under a budget that is killed at any commit: its session stops at the limit all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.calls import PAID_KINDS
from store import filters
from store.agent_requests import agent_create, agent_resume_action
from store.agent_state import AgentState, SessionStatus, find_agent_state
from store.budgets import Scope, put_budget
from store.database import TenantStore
from store.ids import SessionId
from store.limits import Limits
from store.records import records_of
from store.spending import spent_by_call, spent_of
from tests.process.kit import forked_worker
from tests.processes import stored
from tests.runtime.invariants import hold_laws
from tests.support import eventually

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(240)]

S = SessionId("s")
GOVERNANCE = Path(__file__).parents[2] / "runtime/guard/data/governance.yaml"
LIMIT = 1_500
POINTS = [
    "records.before_commit:2",
    "records.after_commit:1",
    "agent_steps.before_commit:2",
    "agent_state.before_commit:2",
]


async def paused(db: TenantStore) -> AgentState:
    """The session's row, once it is paused."""

    async def so() -> bool:
        row = await find_agent_state(db, session_id=S)
        return row is not None and row.status is SessionStatus.PAUSED

    await eventually(so, 60, 0.05)
    row = await find_agent_state(db, session_id=S)
    assert row is not None
    return row


async def calls_of(db: TenantStore) -> list[int]:
    """The tokens of each call that is stored and asked a model, in order."""
    rows = await records_of(db).created_since(0, filters.one_of("kind", PAID_KINDS))
    return [used for row in rows if (used := spent_by_call(row.item.usage).tokens)]


@pytest.mark.parametrize("rules", [{}, {"STEPWELL_GOVERNANCE": str(GOVERNANCE)}], ids=["alone", "with a judge"])
async def test_a_killed_worker_stops_at_most_one_call_over(tmp_path: Path, rules: dict[str, str]) -> None:
    async with stored(tmp_path) as db:
        await agent_create(
            db,
            moniker="joke",
            session_id=S,
            spec={"task": "wells", "config": {"interval_s": 0}, "budget": {"tokens": LIMIT}},
        )
        for point in POINTS:
            async with forked_worker(tmp_path, env={**rules, "STEPWELL_CRASH_AT": point}) as child:
                assert await child.code() == -9, point
        async with forked_worker(tmp_path, env=rules) as child:
            row = await paused(db)
            await child.killed()
        used = await calls_of(db)
        assert sum(used[:-1]) < LIMIT <= sum(used)
        assert spent_of(row.usage).tokens == sum(used)

        # A resume without a raise, and a kill as soon as it is carried out: no call.
        await agent_resume_action(db, session_id=S)
        async with forked_worker(tmp_path, env={**rules, "STEPWELL_CRASH_AT": "queue.after_commit:1"}) as child:
            assert await child.code() == -9
        assert await calls_of(db) == used

        # A raise while nobody runs.
        await put_budget(db, Scope(f"session:{S}"), Limits(tokens=2 * LIMIT))
        async with forked_worker(tmp_path, env=rules) as child:

            async def went_on() -> bool:
                return sum(await calls_of(db)) >= 2 * LIMIT

            await eventually(went_on, 60, 0.05)
            await paused(db)
            assert await child.ended() == 0
        used = await calls_of(db)
        assert sum(used[:-1]) < 2 * LIMIT <= sum(used)
        await hold_laws(db)
