"""DBOS on SQLite. Its worker is this file as a child process; the queue's client is the process that measures.

Promises a step's result before the next step runs, as Stepwell does. With WAL and synchronous=NORMAL a commit outlives
a killed process and not a power cut, which is what Stepwell promises without STEPWELL_FSYNC.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy
from dbos import DBOS, DBOSClient
from sqlalchemy import event

from bench.machine import bytes_in, summary_ms
from bench.peers.starts import timed_starts
from bench.peers.work import Answer, Figure, Work, answer_one, growth, wait_until

_ROOT = Path(__file__).resolve().parents[2]
_QUEUE = "bench"
#: what the environment may choose: journal mode, threads in place of async workflows, the queue's polling interval
_WAL = os.environ.get("BENCH_DBOS_WAL", "1") == "1"
_THREADS = os.environ.get("BENCH_DBOS_THREADS", "0") == "1"
_POLL_S = float(os.environ.get("BENCH_DBOS_POLL_S", "0.1"))


@dataclass(frozen=True, slots=True)
class Program:
    """The workflows that are timed."""

    run: Any
    run_async: Any
    grow: Any


def program(folder: Path) -> Program:
    """A DBOS application on the database in `folder`, with its workflows; not launched yet."""
    starts = folder / "starts"
    DBOS(config={"name": "bench", "system_database_url": _url(folder), "log_level": "ERROR"})

    @DBOS.step(name="step")
    def step(value: Any) -> Any:
        return value

    @DBOS.step(name="step_async")
    async def step_async(value: Any) -> Any:
        return value

    @DBOS.workflow(name="run")
    def run(steps: int) -> int:
        for number in range(steps):
            step({"count": number, "text": "hello from the well"})
        return steps

    @DBOS.workflow(name="run_async")
    async def run_async(steps: int) -> int:
        for number in range(steps):
            await step_async({"count": number, "text": "hello from the well"})
        return steps

    @DBOS.workflow(name="grow")
    def grow(steps: int, size: int) -> int:
        log: list[str] = []
        for number in range(steps):
            log = step([*log, growth(number, size)])
        return len(log)

    @DBOS.workflow(name="one")
    def one(number: int) -> Any:
        began = time.time()
        with starts.open("a") as file:
            file.write(f"{number} {began}\n")
        return step(number)

    return Program(run, run_async, grow)


def _url(folder: Path) -> str:
    return f"sqlite:///{folder}/dbos.sqlite"


def _set_wal() -> None:
    def prepare(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")

    event.listen(sqlalchemy.engine.Engine, "connect", prepare)


@contextmanager
def _launched(folder: Path) -> Iterator[Program]:
    made = program(folder)
    if _WAL:
        _set_wal()
    DBOS.launch()
    DBOS.register_queue(_QUEUE, polling_interval_sec=_POLL_S)
    try:
        yield made
    finally:
        DBOS.destroy()


@contextmanager
def _worker(folder: Path) -> Iterator[DBOSClient]:
    """A client in this process, the application in another."""
    ready = folder / "ready"
    child = subprocess.Popen([sys.executable, "-m", "bench.peers.dbos_side", "worker", str(folder)], cwd=_ROOT)
    try:
        wait_until(lambda: ready.exists() or child.poll() is not None, 60)
        if _WAL:
            _set_wal()
        client = DBOSClient(system_database_url=_url(folder))
        try:
            yield client
        finally:
            client.destroy()
    finally:
        child.terminate()
        child.wait(30)


def work_for(folder: Path) -> None:
    """The worker process: serve the queue until terminated."""
    with _launched(folder):
        (folder / "ready").touch()
        while True:
            time.sleep(60)


def steps(work: Work) -> Answer:
    """All sessions at once, as async workflows or in DBOS's own pool of threads."""
    with _launched(work.folder) as made:

        def in_threads() -> float:
            began = time.perf_counter()
            for handle in [DBOS.start_workflow(made.run, work.steps) for _ in range(work.sessions)]:
                handle.get_result()
            return time.perf_counter() - began

        async def at_once() -> float:
            began = time.perf_counter()
            handles = [await DBOS.start_workflow_async(made.run_async, work.steps) for _ in range(work.sessions)]
            await asyncio.gather(*[handle.get_result(polling_interval_sec=0.1) for handle in handles])
            return time.perf_counter() - began

        took = in_threads() if _THREADS else asyncio.run(at_once())
    return {"value": work.sessions * work.steps / took, "seconds": took}


def actions(work: Work) -> Answer:
    """Workflows of one step, enqueued by this process and carried out by the worker."""
    with _worker(work.folder) as client:
        began = time.perf_counter()
        for number in range(work.actions):
            client.enqueue({"queue_name": _QUEUE, "workflow_name": "one"}, number)
        enqueued = time.perf_counter()
        wait_until(lambda: _succeeded(work.folder) == work.actions, 600, 0.05)
        took = time.perf_counter() - began
    return {"value": work.actions / took, "seconds": took, "enqueue_per_s": work.actions / (enqueued - began)}


def _succeeded(folder: Path) -> int:
    engine = sqlalchemy.create_engine(_url(folder))
    with engine.connect() as connection:
        asked = sqlalchemy.text("select count(*) from workflow_status where status = 'SUCCESS'")
        found = int(connection.execute(asked).scalar_one())
    engine.dispose()
    return found


def start(work: Work) -> Answer:
    """From enqueue to the first line of the workflow in the other process."""
    with _worker(work.folder) as client:

        def enqueue(number: int) -> None:
            client.enqueue({"queue_name": _QUEUE, "workflow_name": "one"}, number)

        return timed_starts(work, enqueue)


def disk(work: Work) -> Answer:
    """One workflow whose steps return a state that grows."""
    with _launched(work.folder) as made:
        made.grow(work.grow_steps, work.grow_bytes)
    return {"value": bytes_in(work.folder)}


def history(work: Work) -> Answer:
    """The last 20 steps of a workflow, by offset."""
    workflow_id = work.folder / "workflow-id"
    with _launched(work.folder) as made:
        if not workflow_id.exists():
            handle = DBOS.start_workflow(made.grow, work.history_steps, 1)
            handle.get_result()
            workflow_id.write_text(handle.get_workflow_id())
    name, offset = workflow_id.read_text(), work.history_steps - 20
    client = DBOSClient(system_database_url=_url(work.folder))
    taken = []
    for _ in range(work.history_reads):
        began = time.perf_counter()
        found = client.list_workflow_steps(name, limit=20, offset=offset)
        taken.append(time.perf_counter() - began)
        if len(found) != 20:
            raise RuntimeError(f"{len(found)} steps were found, not 20")
    client.destroy()
    return {"value": summary_ms(taken)["p50_ms"], **summary_ms(taken)}


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        work_for(Path(sys.argv[2]))
    else:
        answer_one(
            {
                Figure.STEPS: steps,
                Figure.ACTIONS: actions,
                Figure.START: start,
                Figure.DISK: disk,
                Figure.HISTORY: history,
            }
        )
