"""From enqueue to start, for contenders whose worker notes in a file when each action began."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from bench.machine import summary_ms
from bench.peers.work import Answer, Work, wait_until

_WARM_UP = 5
_DEADLINE_S = 120.0


def timed_starts(work: Work, enqueue: Callable[[int], object]) -> Answer:
    """Enqueue one action after the other and compare with the moments in `starts`, lines of `<number> <time>`."""
    _series(work, enqueue, 0, _WARM_UP, work.paced_gap_s)
    paced = _series(work, enqueue, _WARM_UP, work.paced, work.paced_gap_s)
    idle = _series(work, enqueue, _WARM_UP + work.paced, work.idle, work.idle_gap_s)
    return start_answer(paced, idle)


def start_answer(paced: list[float], idle: list[float]) -> Answer:
    """The answer of everyone who is asked how soon actions start; the seconds are given, one an action."""
    return {"value": summary_ms(paced)["p50_ms"], "paced": summary_ms(paced), "idle": summary_ms(idle)}


def _series(work: Work, enqueue: Callable[[int], object], first: int, count: int, gap_s: float) -> list[float]:
    asked: dict[int, float] = {}
    for number in range(first, first + count):
        asked[number] = time.time()
        enqueue(number)
        time.sleep(gap_s)
    file = work.folder / "starts"
    wait_until(lambda: asked.keys() <= _noted(file).keys(), _DEADLINE_S)
    noted = _noted(file)
    return [noted[number] - moment for number, moment in asked.items()]


def _noted(file: Path) -> dict[int, float]:
    """The lines that are whole."""
    lines = file.read_text().split("\n")[:-1] if file.exists() else []
    return {int(number): float(moment) for number, moment in (line.split() for line in lines)}
