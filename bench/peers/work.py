"""The work that everybody is given, and the answer that everybody gives. Imports nothing of any contender."""

from __future__ import annotations

import dataclasses
import hashlib
import sys
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson


class Figure(StrEnum):
    """What is timed."""

    STEPS = "steps"  # stored steps a second, many sessions at once, small state
    ACTIONS = "actions"  # tiny actions enqueued by one process, done by another
    START = "start"  # from enqueue to start across processes, one action after the other
    DISK = "disk"  # bytes on disk after steps that each add to the state
    HISTORY = "history"  # the newest 20 steps of a session


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """How much of it, and where. `folder` is the contender's own; it is kept between the rounds of one run."""

    folder: Path
    sessions: int = 500
    steps: int = 40
    actions: int = 2000
    paced: int = 100
    paced_gap_s: float = 0.05
    idle: int = 8
    idle_gap_s: float = 1.5
    grow_steps: int = 500
    grow_bytes: int = 1024
    history_steps: int = 500
    history_reads: int = 50
    our_history_steps: int = 1_000_000


Answer = dict[str, Any]
Task = Callable[[Work], Answer]


def answer_one(tasks: Mapping[Figure, Task]) -> None:
    """Do the task that the command line names (`<figure> <work as JSON>`) and print the answer as the last line."""
    figure, given = Figure(sys.argv[1]), orjson.loads(sys.argv[2])
    work = Work(**{**given, "folder": Path(given["folder"])})
    print(orjson.dumps(tasks[figure](work)).decode(), flush=True)


def as_argument(work: Work) -> str:
    """`work` for a command line."""
    return orjson.dumps({**dataclasses.asdict(work), "folder": str(work.folder)}).decode()


def growth(step: int, size: int) -> str:
    """What step number `step` adds to the state: `size` characters that look random and are the same for everyone."""
    blocks = -(-size // 64)
    return "".join(hashlib.sha256(b"%d/%d" % (step, block)).hexdigest() for block in range(blocks))[:size]


def wait_until(holds: Callable[[], bool], deadline_s: float, every_s: float = 0.02) -> None:
    """Return when `holds`; raises TimeoutError after `deadline_s` seconds."""
    end = time.monotonic() + deadline_s
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"not done within {deadline_s:g} s")
        time.sleep(every_s)
