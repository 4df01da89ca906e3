from __future__ import annotations

from pathlib import Path

import pytest

from store import filters
from store.agent_requests import agent_create
from store.agent_state import SessionStatus, find_agent_state
from store.agent_steps import journal_of
from store.database import TenantStore
from store.ids import SessionId
from store.workers import WorkerStatus
from tests.process.kit import Spawned, Workload, newest_worker, worker
from tests.processes import stored
from tests.runtime.invariants import hold_laws
from tests.support import eventually

pytestmark = pytest.mark.process


async def test_it_carries_out_what_is_in_the_queue(tmp_path: Path) -> None:
    async with stored(tmp_path) as db:
        load = Workload(db)
        await load.begin(3, steps=4)
        async with worker(tmp_path) as child:
            await load.rested()
            await load.end()
            assert await child.ended() == 0
            assert "everything is stored" in child.said
        await hold_laws(db)
        assert (await newest_worker(db)).status is WorkerStatus.STOPPED


async def test_asked_to_end_it_lets_the_running_step_finish_and_the_next_start_goes_on(tmp_path: Path) -> None:
    async with stored(tmp_path) as db:
        await agent_create(
            db,
            moniker="echo",
            session_id=SessionId("s"),
            spec={"task": "hello", "config": {"steps": 3, "delay_s": 0.5}},
        )
        async with worker(tmp_path) as child:
            await eventually(lambda: running(db), 60)
            assert await child.ended() == 0
        row = await find_agent_state(db, session_id=SessionId("s"))
        assert row is not None
        assert row.status is SessionStatus.RUNNING
        assert row.iteration >= 0
        left_at = row.iteration
        async with worker(tmp_path) as child:
            await eventually(lambda: done(db), 60)
            assert await child.ended() == 0
        assert left_at < 2
        await hold_laws(db)


async def test_a_step_longer_than_the_drain_is_cut_and_taken_again(tmp_path: Path) -> None:
    async with stored(tmp_path) as db:
        await agent_create(
            db,
            moniker="echo",
            session_id=SessionId("s"),
            spec={"task": "hello", "config": {"steps": 1, "delay_s": 3600}},
        )
        async with worker(tmp_path, env={"STEPWELL_DRAIN_S": "0.1"}) as child:
            await eventually(lambda: running(db), 60)
            assert await child.ended() == 0
        assert await journal_of(db).find(filters.at_least("iteration", 0)) == []
        row = await find_agent_state(db, session_id=SessionId("s"))
        assert row is not None
        assert row.status is SessionStatus.RUNNING


async def running(db: TenantStore) -> bool:
    row = await find_agent_state(db, session_id=SessionId("s"))
    return row is not None and row.status is SessionStatus.RUNNING


async def done(db: TenantStore) -> bool:
    row = await find_agent_state(db, session_id=SessionId("s"))
    return row is not None and row.status is SessionStatus.DONE


async def test_two_workers_share_a_store_and_one_takes_over_when_the_other_is_killed(tmp_path: Path) -> None:
    async with stored(tmp_path) as db:
        load = Workload(db)
        async with worker(tmp_path) as first, worker(tmp_path) as second:
            await first.ready()
            await second.ready()
            await load.begin(2, steps=30, delay_s=0.05)
            await eventually(lambda: taken(db, 3), 60)
            await first.killed()
            await load.rested()
            await load.end()
            assert await second.ended() == 0
        await hold_laws(db)


async def taken(db: TenantStore, steps: int) -> bool:
    return len(await journal_of(db).values("id", filters.at_least("iteration", 0))) >= steps


async def test_it_ends_when_its_standard_input_closes(tmp_path: Path) -> None:
    async with worker(tmp_path, args=["--until-stdin-closes"]) as child:
        await child.ready()
        assert isinstance(child.running, Spawned)
        stdin = child.running.process.stdin
        assert stdin is not None
        stdin.write(b"words are no end\n")
        stdin.flush()
        stdin.close()
        assert await child.code() == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [("STEPWELL_PROJECTION_S", "soon"), ("STEPWELL_CRASH_AT", "somewhere")],
)
async def test_a_bad_setting_is_named(tmp_path: Path, key: str, value: str) -> None:
    async with worker(tmp_path, env={key: value}) as child:
        assert await child.code() == 2
        assert f"{key}={value!r}" in child.said


async def test_a_store_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    async with worker(tmp_path, env={"STEPWELL_DATA": str(tmp_path / "file")}) as child:
        assert await child.code() == 2
        assert "STEPWELL_DATA" in child.said


async def test_it_logs_json_lines_when_asked(tmp_path: Path) -> None:
    async with worker(tmp_path, env={"STEPWELL_LOG_FORMAT": "json"}) as child:
        await child.ready()
        assert await child.ended() == 0
        assert all(line.startswith("{") and line.endswith("}") for line in child.said.splitlines())
