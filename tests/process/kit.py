"""`agents.py` as a child process on a temporary store, and work for it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Protocol

import agents
from store.actions import list_open_actions
from store.agent_requests import agent_create, agent_destroy_action, agent_input
from store.agent_state import SessionStatus, states_of
from store.conversations import create_conversation
from store.database import TenantStore
from store.ids import AgentId, SessionId
from store.workers import Worker, WorkerStatus, list_workers
from tests.processes import ROOT, START_S, surroundings
from tests.support import eventually

QUICK = {
    "STEPWELL_LOG_LEVEL": "info",
    "STEPWELL_PROJECTION_S": "0.02",
    "STEPWELL_HEARTBEAT_S": "0.1",
    "STEPWELL_STOP_GRACE_S": "0.2",
    "STEPWELL_DRAIN_S": "10",
    "STEPWELL_MODEL": "offline",
}


class Running(Protocol):
    """What a child process is to the test that started it."""

    def code(self) -> int | None:
        """Its exit code; None while it runs. The number of the signal, negated, when it was killed."""

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""


@dataclass(frozen=True, slots=True)
class Spawned:
    """A program started as a user starts it."""

    process: subprocess.Popen[bytes]

    def code(self) -> int | None:
        return self.process.poll()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


@dataclass(frozen=True, slots=True)
class Forked:
    """The same program forked off a process that has imported it already: seconds faster where many are killed."""

    process: ForkServerProcess

    def code(self) -> int | None:
        return self.process.exitcode

    def signal(self, number: signal.Signals) -> None:
        if self.process.pid is not None and self.process.exitcode is None:
            os.kill(self.process.pid, number)


class Child:
    """A running worker; its standard error is kept in a file."""

    def __init__(self, running: Running, said: Path) -> None:
        self.running = running
        self._said = said

    @property
    def said(self) -> str:
        """Its standard error so far."""
        return self._said.read_text()

    async def ready(self, word: str = "worker ready") -> None:
        """Return when it has said a word; fail when it ended instead."""
        await eventually(lambda: word in self.said or self.running.code() is not None, START_S)
        assert word in self.said, self.said

    async def code(self) -> int:
        """Its exit code, once it has ended."""
        await eventually(lambda: self.running.code() is not None, START_S)
        return self.running.code() or 0

    async def killed(self) -> None:
        """Kill it with no chance to tidy up."""
        self.running.signal(signal.SIGKILL)
        await self.code()

    async def ended(self) -> int:
        """Ask it to end and return its exit code."""
        self.running.signal(signal.SIGTERM)
        return await self.code()

    def clean(self) -> None:
        """Fail when it spoke of an error that nobody handled."""
        for word in ("Traceback", "never retrieved", "was destroyed", "[error", "Warning:"):
            assert word not in self.said, self.said


@asynccontextmanager
async def worker(
    folder: Path, *, args: Sequence[str] = (), env: Mapping[str, str] | None = None
) -> AsyncIterator[Child]:
    """A worker on the store in `folder`; it is killed at the end if it still runs, and must have been clean."""
    said = _new_file(folder)
    process = _spawn(folder, said, args, _environment(folder, env))
    try:
        yield Child(Spawned(process), said)
    finally:
        process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
    Child(Spawned(process), said).clean()


@asynccontextmanager
async def forked_worker(folder: Path, *, env: Mapping[str, str] | None = None) -> AsyncIterator[Child]:
    """A `worker` that need not import anything."""
    said = _new_file(folder)
    process = FORKS.Process(target=_be_worker, args=(str(said), _environment(folder, env)))
    process.start()
    try:
        yield Child(Forked(process), said)
    finally:
        process.kill()
        process.join()
    Child(Forked(process), said).clean()


def _be_worker(said: str, env: dict[str, str]) -> None:
    os.environ.update(env)
    with Path(said).open("ab", buffering=0) as file:
        os.dup2(file.fileno(), 2)
    agents.main([], prog_name="agents.py")


FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["agents"])


def _environment(folder: Path, env: Mapping[str, str] | None) -> dict[str, str]:
    return {**surroundings(folder), **QUICK, "PYTHONPATH": str(ROOT), **(env or {})}


def _new_file(folder: Path) -> Path:
    file = folder / f"{len(list(folder.glob('*.said')))}.said"
    file.touch()
    return file


def _spawn(folder: Path, said: Path, args: Sequence[str], env: dict[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(ROOT / "agents.py"), *args]
    with said.open("ab") as file:
        return subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.PIPE, stderr=file)


class Workload:
    """Sessions that are spoken to: each echoes so many steps in a thread and then waits for input."""

    def __init__(self, db: TenantStore) -> None:
        self.db = db
        self.sessions: list[SessionId] = []
        self.jokes: list[SessionId] = []

    async def begin(self, sessions: int, steps: int, *, delay_s: float = 0.0) -> None:
        """Create more sessions, of a new agent and in a new thread, and say something to each."""
        first = len(self.sessions)
        thread = (await create_conversation(self.db)).conversation_id
        names = [SessionId(f"s{number}") for number in range(first, first + sessions)]
        self.sessions += names
        for name in names:
            await agent_create(
                self.db,
                moniker="echo",
                agent_id=AgentId(f"agent {first}"),
                session_id=name,
                conversation_id=thread,
                spec={"task": "hello", "config": {"steps": steps, "delay_s": delay_s, "wait_for_input": True}},
                idempotency_key=f"create {name}",
            )
            await agent_input(self.db, text=f"to {name}", session_id=name, idempotency_key=f"say {name}")

    async def tell_jokes(self, steps: int) -> None:
        """Create a session that calls the model at each step and pulls what is said in its thread."""
        thread = (await create_conversation(self.db)).conversation_id
        self.jokes.append(SessionId(f"joke {len(self.jokes)}"))
        await agent_create(
            self.db,
            moniker="joke",
            session_id=self.jokes[-1],
            conversation_id=thread,
            spec={"task": "wells", "config": {"interval_s": 0}, "max_steps": steps, "delivery": "pull"},
        )

    async def rested(self, deadline_s: float = 60) -> None:
        """Return when every action is processed, every echo waits and every joke is told."""
        wanted = {**dict.fromkeys(self.sessions, SessionStatus.WAITING)}
        wanted.update(dict.fromkeys(self.jokes, SessionStatus.STOPPED))

        async def so() -> bool:
            states = {state.session_id: state.status for state in await states_of(self.db).find()}
            return states == wanted and not await list_open_actions(self.db)

        await eventually(so, deadline_s, 0.05)

    async def end(self) -> None:
        """Destroy every echo and return when all is done."""
        for name in self.sessions:
            await agent_destroy_action(self.db, session_id=name)

        async def so() -> bool:
            return not await list_open_actions(self.db)

        await eventually(so, 60, 0.05)


async def newest_worker(db: TenantStore) -> Worker:
    """The worker that started last."""
    return (await list_workers(db))[0]


async def beaten(db: TenantStore, status: WorkerStatus = WorkerStatus.RUNNING) -> bool:
    """Whether the newest worker has this status."""
    workers = await list_workers(db)
    return bool(workers) and workers[0].status is status
