"""The commands that look after a store, as a user starts them: what they print, and their exit codes."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import agents
from runtime.tools.workspace.scopes import folder_name
from store import filters
from store.agent_state import find_agent_state, states_of
from store.agent_steps import StepFilter, journal_of, list_agent_steps
from store.database import TenantStore
from store.ids import SessionId
from store.workers import WorkerStatus
from tests.process.kit import FORKS, Workload, beaten, forked_worker
from tests.processes import ROOT, stored, surroundings
from tests.support import eventually

pytestmark = pytest.mark.process
STEPS = 6


async def agents_py(folder: Path, *arguments: str, code: int = 0, **settings: str) -> str:
    """What `agents.py` printed, its errors too; it must end with `code`."""
    said = _new_file(folder)
    child = FORKS.Process(target=_be_agents, args=(arguments, surroundings(folder, **settings), str(folder), str(said)))
    child.start()
    await eventually(lambda: child.exitcode is not None, 100, 0.02)
    assert child.exitcode == code, said.read_text()
    assert "Traceback" not in said.read_text()
    return said.read_text()


def _new_file(folder: Path) -> Path:
    file = folder / f"{len(list(folder.glob('*.said')))}.said"
    file.touch()
    return file


def _be_agents(arguments: Sequence[str], env: dict[str, str], folder: str, said: str) -> None:
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    with Path(said).open("ab", buffering=0) as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
    agents.main(list(arguments), prog_name="agents.py")


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[TenantStore]:
    """A store on which a worker has come and gone."""
    async with stored(tmp_path) as db:
        load = Workload(db)
        await load.begin(2, steps=STEPS)
        async with forked_worker(tmp_path) as child:
            await load.rested()
            await load.end()
            assert await child.ended() == 0
        yield db


async def test_upkeep_by_hand_deletes_merges_and_shows_before_and_after(db: TenantStore, tmp_path: Path) -> None:
    rows = await journal_of(db).find()
    steps = [row for row in rows if row.iteration >= 0]  # the others are fences

    said = await agents_py(tmp_path, "upkeep", "--now", STEPWELL_KEEP_STEPS_COUNT="2")

    (line,) = [line.split() for line in said.splitlines() if line.split()[:1] == ["agent_steps"]]
    deleted = len(steps) - 4
    assert line[1:5] == [str(len(rows)), ">", str(len(rows) - deleted), str(deleted)]
    assert (int(line[-3]) > 1, line[-1]) == (True, "1")
    left = await list_agent_steps(db, StepFilter(SessionId("s0")), order="desc")
    assert len(left.items) == 2
    assert await agents_py(tmp_path, "check") == "clean\n"


async def test_upkeep_works_beside_a_worker_but_not_with_now(db: TenantStore, tmp_path: Path) -> None:
    async with forked_worker(tmp_path) as child:
        await child.ready()
        assert "agent_steps" in await agents_py(tmp_path, "upkeep")
        assert "stop it, or leave --now out" in await agents_py(tmp_path, "upkeep", "--now", code=2)
        assert await child.ended() == 0


def _files_of(folder: Path, *sessions: str) -> Path:
    """Give sessions a file each; the folder that their workspaces are in."""
    private = folder / "data" / "workspaces" / "private"
    for name in sessions:
        (private / folder_name(name)).mkdir(parents=True)
        (private / folder_name(name) / "plan.md").write_text("kept")
    return private


async def test_upkeep_removes_the_files_of_sessions_that_ended_long_enough_ago(db: TenantStore, tmp_path: Path) -> None:
    private = _files_of(tmp_path, "s0", "s1", "nobody")
    assert "removed" not in await agents_py(tmp_path, "upkeep")
    assert len(os.listdir(private)) == 3
    said = await agents_py(tmp_path, "upkeep", STEPWELL_KEEP_WORKSPACES_DAYS="0.0000001")
    assert "2 workspaces of ended sessions removed" in said
    assert os.listdir(private) == [folder_name("nobody")]


async def test_a_worker_removes_them_too(db: TenantStore, tmp_path: Path) -> None:
    private = _files_of(tmp_path, "s0", "nobody")
    async with forked_worker(tmp_path, env={"STEPWELL_KEEP_WORKSPACES_DAYS": "0.0000001"}) as child:
        await eventually(lambda: os.listdir(private) == [folder_name("nobody")], 60)
        assert await child.ended() == 0


async def test_export_gives_each_table_a_file_and_replaces_nothing(db: TenantStore, tmp_path: Path) -> None:
    said = await agents_py(tmp_path, "export", "--to", "out", "--tables", "agent_steps, queue")

    found = pq.read_table(tmp_path / "out" / "agent_steps.parquet")
    assert sorted(found.column("id").to_pylist()) == sorted(step.id for step in await journal_of(db).find())
    assert f"{found.num_rows}  agent_steps.parquet" in said
    assert "replaces nothing" in await agents_py(tmp_path, "export", "--to", "out", code=2)
    wrong = await agents_py(tmp_path, "export", "--to", "other", "--since", "yesterday", code=2)
    assert "--since 'yesterday' is no ISO 8601 time" in wrong


async def test_export_of_one_session_as_lines(db: TenantStore, tmp_path: Path) -> None:
    await agents_py(tmp_path, "export", "--to", "out", "--format", "jsonl", "--session", "s1", "--since", "2020-01-01")

    rows = [json.loads(line) for line in (tmp_path / "out" / "agent_steps.jsonl").read_text().splitlines()]
    assert {row["session_id"] for row in rows} == {"s1"}
    assert len(rows) == len((await list_agent_steps(db, StepFilter(SessionId("s1")))).items)


async def test_an_export_that_is_killed_leaves_no_folder_of_that_name(db: TenantStore, tmp_path: Path) -> None:
    program = [sys.executable, str(ROOT / "agents.py"), "export", "--to", "out"]
    child = await asyncio.create_subprocess_exec(*program, cwd=tmp_path, env=surroundings(tmp_path))
    await eventually(lambda: bool(list(tmp_path.glob(".out.*.part"))) or child.returncode is not None, 60, 0.0005)
    if child.returncode is None:
        child.kill()
    await child.wait()

    # Then there is a whole export or none
    assert not (tmp_path / "out").exists() or (tmp_path / "out" / "export.json").exists()


async def test_check_finds_and_repairs(db: TenantStore, tmp_path: Path) -> None:
    assert await agents_py(tmp_path, "check") == "clean\n"
    await states_of(db).delete(filters.equals("session_id", "s0"))

    said = await agents_py(tmp_path, "check", code=1)
    assert said == (
        "wrong: agent_state s0: it has steps and no row\n"
        "    cure: fold the journal into it (--repair does it)\n"
        "1 found\n"
    )
    found = json.loads(await agents_py(tmp_path, "check", "--json", code=1))
    assert (found["clean"], found["findings"][0]["kind"]) == (False, "state_missing")

    said = await agents_py(tmp_path, "check", "--repair")
    assert "mended: the row was made again from its create" in said
    row = await find_agent_state(db, session_id=SessionId("s0"))
    assert row is not None
    assert row.iteration + 1 == len((await list_agent_steps(db, StepFilter(SessionId("s0")))).items)
    assert await agents_py(tmp_path, "check") == "clean\n"


async def test_what_cannot_be_mended_is_left_and_said(db: TenantStore, tmp_path: Path) -> None:
    await journal_of(db).delete(filters.equals("id", "s0:1"))

    said = await agents_py(tmp_path, "check", "--repair", code=1)

    assert "lost: agent_steps s0:1: the session's steps jump from 0 to 2" in said


async def test_repair_is_refused_beside_a_worker_and_check_is_not(db: TenantStore, tmp_path: Path) -> None:
    async with forked_worker(tmp_path) as child:
        await child.ready()
        await eventually(lambda: beaten(db, WorkerStatus.RUNNING))
        assert await agents_py(tmp_path, "check") == "clean\n"
        assert "is at work; stop it" in await agents_py(tmp_path, "check", "--repair", code=2)
        assert await child.ended() == 0


@pytest.mark.parametrize("command", [["upkeep"], ["export", "--to", "out"], ["check"], ["check", "--repair"]])
async def test_where_no_store_is_a_command_says_so_and_makes_none(tmp_path: Path, command: list[str]) -> None:
    assert "there is no store in" in await agents_py(tmp_path, *command, code=2)
    assert [Path(name).suffix for name in os.listdir(tmp_path)] == [".said"]
