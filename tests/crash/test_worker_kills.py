from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest

from store import filters
from store.agent_steps import journal_of
from store.database import TenantStore
from tests.process.kit import Workload, forked_worker
from tests.processes import stored
from tests.runtime.invariants import hold_laws
from tests.support import eventually

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(240)]

STEPS = 2
#: where to kill, and at the how-manieth visit: the first ones are those of a session that is just beginning
COMMITS = [
    "agents.before_commit:1",
    "agents.after_commit:1",
    "conversation_participants.before_commit:1",
    "conversation_participants.after_commit:1",
    "agent_steps.before_commit:1",
    "agent_steps.after_commit:1",
    "agent_steps.before_commit:3",
    "agent_steps.after_commit:3",
    "queue.before_commit:1",
    "queue.after_commit:2",
]
PROJECTIONS = [
    "projector.before_flush:1",
    "projector.between_projections:1",
    "projector.after_flush:1",
    "projector.before_flush:3",
    "projector.between_projections:3",
    "agent_state.before_commit:1",
    "agent_state.after_commit:2",
    "conversation_messages.before_commit:1",
    "conversation_messages.after_commit:1",
    "session_cursors.before_commit:2",
    "session_cursors.after_commit:2",
    "records.before_commit:1",
    "records.after_commit:1",
    "workers.before_commit:1",
    "workers.after_commit:2",
]
UPKEEP = ["upkeep.before_compact:1", "upkeep.after_compact:1", "upkeep.before_compact:2", "upkeep.after_compact:3"]


@pytest.mark.parametrize("points", [COMMITS, PROJECTIONS], ids=["commits", "projections"])
async def test_a_kill_at_any_commit_loses_nothing(tmp_path: Path, points: list[str]) -> None:
    async with stored(tmp_path) as db:
        load = Workload(db)
        for point in points:
            await load.begin(2, STEPS)
            await load.tell_jokes(STEPS)
            async with forked_worker(tmp_path, env={"STEPWELL_CRASH_AT": point}) as child:
                assert await child.code() == -9, point
        await _goes_on_to_the_end(tmp_path, db, load)


async def test_a_kill_in_upkeep_loses_nothing(tmp_path: Path) -> None:
    async with stored(tmp_path) as db:
        load = Workload(db)
        for point in UPKEEP:
            await load.begin(1, steps=60)
            async with forked_worker(
                tmp_path, env={"STEPWELL_CRASH_AT": point, "STEPWELL_HEARTBEAT_S": "0.01"}
            ) as child:
                assert await child.code() == -9, point
        await _goes_on_to_the_end(tmp_path, db, load, steps=60)


async def test_ten_kills_at_any_moment_lose_nothing(tmp_path: Path) -> None:
    chance = random.Random(7)
    async with stored(tmp_path) as db:
        load = Workload(db)
        for _ in range(10):
            await load.begin(2, STEPS, delay_s=0.01)
            await load.tell_jokes(STEPS)
            seen = len(await journal_of(db).values("id", filters.at_least("iteration", 0)))
            more = chance.randint(0, 5)
            async with forked_worker(tmp_path) as child:
                await child.ready("lanes taken")
                await eventually(partial(_taken, db, seen + more), 60, chance.uniform(0.001, 0.05))
                await child.killed()
        await _goes_on_to_the_end(tmp_path, db, load)


async def _taken(db: TenantStore, steps: int) -> bool:
    return len(await journal_of(db).values("id", filters.at_least("iteration", 0))) >= steps


async def _goes_on_to_the_end(folder: Path, db: TenantStore, load: Workload, steps: int = STEPS) -> None:
    """The next worker finishes everything, and the store shows no trace of the deaths."""
    async with forked_worker(folder) as child:
        await load.rested()
        await load.end()
        assert await child.ended() == 0
    await hold_laws(db)
    taken = [(step.session_id, step.text) for step in await journal_of(db).find()]
    for name in load.sessions:
        said = [text for session_id, text in taken if session_id == name]
        assert sorted(str(text) for text in said) == sorted(["hello"] * (len(said) - 1) + [f"to {name}"])
        assert len(said) in (steps, steps + 1)
    for name in load.jokes:
        assert len([text for session_id, text in taken if session_id == name]) == steps
