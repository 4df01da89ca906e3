"""huey on SQLite (WAL is its default). Its consumer is this file as a child process.

A task is handed out once and is gone from the queue while it runs: one whose consumer is killed is lost unless the
application asks for more. With fsync a stored task outlives a power cut; without it a killed process only.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huey import SqliteHuey

from bench.peers.starts import timed_starts
from bench.peers.work import Answer, Figure, Work, answer_one, wait_until

_ROOT = Path(__file__).resolve().parents[2]
#: "1" and "0" set huey's option; empty leaves it to huey, which leaves it to SQLite
_FSYNC = {"1": True, "0": False}.get(os.environ.get("BENCH_HUEY_FSYNC", ""))
_WORKERS = 2


@dataclass(frozen=True, slots=True)
class Program:
    """The queue and its task."""

    queue: Any
    one: Any


def program(folder: Path) -> Program:
    """The application on the database in `folder`."""
    queue = SqliteHuey("bench", filename=str(folder / "huey.sqlite"), fsync=_FSYNC, results=True)
    starts = folder / "starts"

    @queue.task()
    def one(number: int) -> int:
        began = time.time()
        with starts.open("a") as file:
            file.write(f"{number} {began}\n")
        return number

    return Program(queue, one)


def work_for(folder: Path) -> None:
    """The consumer's process: serve the queue until terminated."""
    logging.disable(logging.CRITICAL)
    consumer = program(folder).queue.create_consumer(workers=_WORKERS, periodic=False)
    (folder / "ready").touch()
    consumer.run()


@contextmanager
def _consumer(folder: Path) -> Iterator[Program]:
    ready = folder / "ready"
    child = subprocess.Popen([sys.executable, "-m", "bench.peers.huey_side", "worker", str(folder)], cwd=_ROOT)
    try:
        wait_until(lambda: ready.exists() or child.poll() is not None, 60)
        yield program(folder)
    finally:
        child.terminate()
        child.wait(30)


def actions(work: Work) -> Answer:
    """Tasks enqueued by this process and carried out by the consumer, their results stored."""
    with _consumer(work.folder) as made:
        began = time.perf_counter()
        for number in range(work.actions):
            made.one(number)
        enqueued = time.perf_counter()
        wait_until(lambda: made.queue.storage.result_store_size() == work.actions, 600)
        took = time.perf_counter() - began
    return {"value": work.actions / took, "seconds": took, "enqueue_per_s": work.actions / (enqueued - began)}


def start(work: Work) -> Answer:
    """From enqueue to the first line of the task in the other process."""
    with _consumer(work.folder) as made:
        return timed_starts(work, lambda number: made.one(number))


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        work_for(Path(sys.argv[2]))
    else:
        answer_one({Figure.ACTIONS: actions, Figure.START: start})
