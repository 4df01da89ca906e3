"""The real programs on a disk that is full, fails or is slow: nothing is accepted that is not stored, all goes on."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.processes import QUICK, Dashboard, start_dashboard, steps_in
from tests.remote import Api
from tests.support import eventually

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.xdist_group("bad disk")]
PATIENCE_S = 60.0


def program(name: str, why: str) -> str:
    """A program that a test cannot do without; skipped aloud where it is not."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"NO {name.upper()}: {why}")
    return found


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MB in memory."""
    place = tmp_path / "small"
    place.mkdir()
    mount = [program("mount", "no small disk can be made"), "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"NO SMALL DISK (mounting takes root): {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


async def posted(api: Api) -> tuple[int, Any]:
    """The answer to a new agent."""
    body = {"moniker": "echo", "task": "x", "config": {"steps": 1}}
    async with aiohttp.ClientSession() as session, session.post(f"{api.url}/api/agents", json=body) as answer:
        return answer.status, await answer.json()


async def is_ready(api: Api) -> bool:
    async with aiohttp.ClientSession() as session, session.get(f"{api.url}/readyz") as answer:
        return answer.status == 200


def fill(place: Path) -> Path:
    """Take all the space of a file system."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 12))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
    return filler


async def works_again(api: Api, folder: Path, session_id: str, waited_for: int) -> None:
    """Without a restart: ready, new work is accepted and done, and the session that waited has no gap."""
    await eventually(lambda: is_ready(api), PATIENCE_S, 0.1)
    await api.has_steps(session_id, waited_for)

    async def accepted() -> bool:
        return (await posted(api))[0] == 202

    await eventually(accepted, PATIENCE_S, 0.2)
    done = await api.start("echo", task="after", config={"steps": 2})
    await api.has_steps(done, 2)
    steps = await steps_in(folder, session_id)
    assert [step.iteration for step in steps] == list(range(len(steps)))


async def test_a_full_disk_refuses_and_goes_on_once_there_is_space(small_disk: Path) -> None:
    dashboard = await start_dashboard(small_disk, QUICK, with_worker=True)
    try:
        api = Api(dashboard.url)
        session_id = await api.start("echo", task="x", config={"steps": 100_000, "delay_s": 0.05})
        await api.has_steps(session_id, 3)

        filler = fill(small_disk)

        answers = [await posted(api) for _ in range(3)]
        full = [(status, body) for status, body in answers if status != 202]
        assert full, answers
        for status, problem in full:
            assert status in (503, 507)
            assert problem["status"] == status
            assert "space" in problem["detail"]
        assert not await is_ready(api)

        had = len(await api.steps(session_id))
        filler.unlink()
        await works_again(api, small_disk, session_id, had + 5)
        for status, body in answers:
            if status == 202:
                await api.has_steps(body["session_id"], 1)
    finally:
        dashboard.end()


@pytest.fixture
def shim(tmp_path: Path) -> Path:
    """The library that makes the disk bad on demand."""
    library = tmp_path / "faulty_disk.so"
    compiler = program("gcc", "the bad disk is a small C library")
    source = Path(__file__).with_name("faulty_disk.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


@pytest.fixture
async def on_bad_disk(tmp_path: Path, shim: Path) -> AsyncIterator[Dashboard]:
    """A dashboard and a worker whose disk is good until `tmp_path/switch` says otherwise."""
    folder = tmp_path / "run"
    faults = {"LD_PRELOAD": str(shim), "FAULTY_DISK": str(tmp_path / "switch"), "FAULTY_FOLDER": str(folder / "data")}
    dashboard = await start_dashboard(folder, {**QUICK, **faults, "STEPWELL_FSYNC": "1"}, with_worker=True)
    yield dashboard
    dashboard.end()


def turn(tmp_path: Path, how: str) -> None:
    """Make the disk bad at once."""
    fresh = tmp_path / "switch.new"
    fresh.write_text(how)
    os.replace(fresh, tmp_path / "switch")


async def test_a_failing_disk_is_an_error_and_leaves_no_half_row(tmp_path: Path, on_bad_disk: Dashboard) -> None:
    api = Api(on_bad_disk.url)
    session_id = await api.start("echo", task="x", config={"steps": 100_000, "delay_s": 0.05})
    await api.has_steps(session_id, 3)

    turn(tmp_path, "eio")
    status, problem = await posted(api)
    assert status == 503, problem
    assert "error" in problem["detail"].lower()
    assert not await is_ready(api)
    had = len(await api.steps(session_id))

    (tmp_path / "switch").unlink()
    await works_again(api, on_bad_disk.folder, session_id, had + 5)


async def test_a_slow_disk_is_only_slow(tmp_path: Path, on_bad_disk: Dashboard) -> None:
    api = Api(on_bad_disk.url)
    session_id = await api.start("echo", task="x", config={"steps": 4})
    turn(tmp_path, "slow")

    slow = await asyncio.wait_for(posted(api), PATIENCE_S)
    assert slow[0] in (202, 503)  # half a second for each of some ten calls is about the patience of a request

    (tmp_path / "switch").unlink()
    await works_again(api, on_bad_disk.folder, session_id, 4)
