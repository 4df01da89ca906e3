"""The real programs for tests: started on a folder of their own, and ended by the ids of what was started, no others.

A program's output goes to files, so that nobody has to read a pipe for it to go on. What a test leaves running, `end`
ends: politely at first, then not.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import aiohttp

from store import AgentStep, StepFilter, StoreOptions, TenantStore, list_agent_steps, open_store
from store.clock import SystemClock, SystemIds
from store.ids import SessionId
from store.workers import list_workers
from tests.support import eventually

ROOT = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
START_S = 100.0
END_S = 60.0
STANDARD: Mapping[str, str] = MappingProxyType({})
#: a worker that is killed is known to be lost soon
QUICK: Mapping[str, str] = MappingProxyType({"STEPWELL_HEARTBEAT_S": "0.5"})
TRACEBACK = "Traceback (most recent call last)"

_ADDRESS = re.compile(rf"Stepwell is at http://{re.escape(HOST)}:(\d+) ")


@dataclass
class Program:
    """A running `agents.py` or `app.py`."""

    process: subprocess.Popen[bytes]
    out: Path
    err: Path
    left_behind: list[int] = field(default_factory=list, kw_only=True)

    @property
    def pid(self) -> int:
        return self.process.pid

    def output(self) -> str:
        """What it said so far."""
        return self.out.read_text(errors="replace")

    def errors(self) -> str:
        """What it complained about so far; its log goes there too."""
        return self.err.read_text(errors="replace")

    async def says(self, words: str, *, times: int = 1) -> None:
        """Return once these words stand in its output or its log; fail at once when it ends before."""

        def said() -> bool:
            if (self.output() + self.errors()).count(words) >= times:
                return True
            assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.errors()}"
            return False

        await eventually(said, START_S, 0.05)

    async def ended(self) -> int:
        """Its exit code, once it has ended."""
        await eventually(lambda: self.process.poll() is not None, END_S, 0.05)
        return int(self.process.returncode)

    async def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end; its exit code."""
        self.process.send_signal(how)
        return await self.ended()

    async def kill(self) -> None:
        """`kill -9`. What it started ends by itself, or `end` sees to it."""
        self.left_behind = children_of(self.pid)
        self.process.kill()
        await self.ended()

    def end(self) -> None:
        """Whatever a test left: end it and what it started. Safe to call when nothing is left."""
        started = children_of(self.pid) if self.process.poll() is None else self.left_behind
        try:
            self.process.terminate()
            self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pid in started:
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)


@dataclass
class Dashboard(Program):
    """A running `app.py`."""

    port: int
    folder: Path

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    async def ready(self, *, worker: bool = False) -> None:
        """Return once it answers and, if asked, sees a worker at work."""

        async def check() -> bool:
            assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.errors()}"
            return await answers(self.url, worker=worker)

        await eventually(check, START_S, 0.1)

    async def worker_pid(self) -> int:
        """The process that carries the sessions of this folder now."""
        async with stored(self.folder) as db:
            return (await list_workers(db))[0].pid

    async def restart(self, settings: Mapping[str, str] = STANDARD) -> Dashboard:
        """Start anew on the same folder and port after this one ended, however it ended."""
        return await start_dashboard(self.folder, settings, port=self.port)


async def answers(url: str, *, worker: bool) -> bool:
    """Whether a dashboard is up and, if asked, sees a worker at work."""
    try:
        async with aiohttp.ClientSession() as session, session.get(f"{url}/readyz") as answer:
            return answer.status == 200 and ((await answer.json())["worker"]["alive"] or not worker)
    except (aiohttp.ClientError, TimeoutError):
        return False


def surroundings(folder: Path, **settings: str) -> dict[str, str]:
    """The environment for a program: the data in this folder, and none of the settings of whoever runs the tests."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("STEPWELL_", "OPENAI_"))}
    return {**kept, "STEPWELL_DATA": str(folder / "data"), "STEPWELL_FILES": str(folder), **settings}


def start(folder: Path, *command: str, **settings: str) -> Program:
    """Start a program of the checkout; returns at once."""
    folder.mkdir(parents=True, exist_ok=True)
    number = len(list(folder.glob("*.err")))
    out, err = folder / f"{number}.out", folder / f"{number}.err"
    with out.open("wb") as said, err.open("wb") as complained:
        process = subprocess.Popen(
            [sys.executable, "-u", *command],
            cwd=ROOT,
            env=surroundings(folder, **settings),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=complained,
        )
    return Program(process, out, err)


async def start_worker(folder: Path, settings: Mapping[str, str] = STANDARD) -> Program:
    """Start `agents.py` and wait until it works."""
    program = start(folder, "agents.py", **settings)
    try:
        await program.says("worker ready")
    except BaseException:
        program.end()
        raise
    return program


async def start_dashboard(
    folder: Path, settings: Mapping[str, str] = STANDARD, *, with_worker: bool = False, port: int = 0
) -> Dashboard:
    """Start `app.py` and wait until it answers; port 0 is any free one."""
    options = ["--with-worker"] if with_worker else []
    program = start(folder, "app.py", "--host", HOST, "--port", str(port), *options, **settings)
    try:
        await program.says("Stepwell is at")
        found = _ADDRESS.search(program.output())
        assert found, program.output()
        dashboard = Dashboard(program.process, program.out, program.err, int(found[1]), folder)
        await dashboard.ready(worker=with_worker)
    except BaseException:
        program.end()
        raise
    return dashboard


@asynccontextmanager
async def stored(folder: Path) -> AsyncIterator[TenantStore]:
    """The store that the programs on `folder` share, read from outside: what really is there."""
    store = await open_store(StoreOptions(str(folder / "data")), clock=SystemClock(), ids=SystemIds())
    try:
        yield store.tenant()
    finally:
        await store.close()


async def steps_in(folder: Path, session_id: str) -> list[AgentStep]:
    """All steps of a session as they stand in the store, in order."""
    found: list[AgentStep] = []
    cursor: str | None = None
    async with stored(folder) as db:
        wanted, more = StepFilter(session_id=SessionId(session_id)), True
        while more:
            page = await list_agent_steps(db, wanted, order="asc", limit=500, cursor=cursor)
            found += page.items
            cursor = page.next_cursor
            more = cursor is not None
    return found


def children_of(pid: int) -> list[int]:
    """The processes that a process started and that still run."""
    listed = subprocess.run(["ps", "-A", "-o", "ppid=,pid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listed.splitlines()]
    return [int(row[1]) for row in rows if int(row[0]) == pid and not row[2].startswith("Z")]


def is_running(pid: int) -> bool:
    """Whether a process is there and not just waiting for its parent to look at its exit code."""
    done = subprocess.run(["ps", "-p", str(pid), "-o", "stat="], capture_output=True, text=True)
    return bool(done.stdout.strip()) and not done.stdout.strip().startswith("Z")


async def gone(pid: int) -> None:
    """Return once a process has ended that this one did not start."""
    await eventually(lambda: asyncio.to_thread(lambda: not is_running(pid)), END_S, 0.1)
