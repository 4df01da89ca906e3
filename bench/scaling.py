"""How the costs grow: with the sessions at work, with the steps in the table, with the workers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from bench.history import fill, newest, step_of
from bench.machine import bytes_in, cpu_seconds, emit, summary_ms
from bench.processes import folder, opened, process, worker_ready
from bench.throughput import carried_out
from store.agent_steps import AgentStep, journal_of
from store.changes import Feed
from store.database import Store
from store.ids import SessionId, step_id
from store.upkeep import Upkeep, UpkeepRules

#: sessions, and how many steps each takes
_SESSIONS = ((1, 400), (10, 300), (100, 200), (500, 60), (1000, 30), (2000, 15))
_STEPS = (0, 10_000, 100_000, 1_000_000)
_WORKERS = (1, 2, 3)
_TIMES = 40
#: several workers share the lanes out among themselves within this time
_SHARED_OUT_S = 8.0


class _Quiet:
    """Upkeep's log, unheard."""

    def debug(self, event: str, **fields: object) -> None: ...

    def warning(self, event: str, **fields: object) -> None:
        raise RuntimeError(f"{event}: {fields}")


async def scaling() -> None:
    """Print one line for each size."""
    for sessions, each in _SESSIONS:
        await _rate("scaling_sessions", sessions, each, workers=1)
    for steps in _STEPS:
        await _table(steps)
    for workers in _WORKERS:
        await _rate("scaling_workers", 500, 100, workers=workers)


async def _rate(figure: str, sessions: int, each: int, *, workers: int) -> None:
    with folder() as path:
        async with opened(path) as store:
            with ExitStack() as stack:
                children = [stack.enter_context(process(path, "agents.py")) for _ in range(workers)]
                await worker_ready(store, workers=workers)
                await asyncio.sleep(_SHARED_OUT_S if workers > 1 else 0)
                busy = sum(cpu_seconds(child.pid) for child in children)
                took = await carried_out(store.tenant(), sessions, each)
                busy = sum(cpu_seconds(child.pid) for child in children) - busy
                stored = sessions * each
        emit(
            figure,
            path,
            workers=workers,
            sessions=sessions,
            steps=stored,
            value=round(stored / took),
            cpu_us_per_step=round(busy / stored * 1e6, 1),
        )


async def _table(steps: int) -> None:
    """What one more step costs, and finding it again, in a table that holds so many."""
    with folder() as path:
        async with opened(path) as store:
            sessions = max(1, steps // 1000)
            each = max(20, min(steps, 1000))
            await fill(store.tenant(), sessions, each)
            await Upkeep(store, UpkeepRules(keep=timedelta(seconds=1)), _Quiet()).once(force=True)
            emit("scaling_steps", path, steps=steps, **await _costs(path, store, sessions, each))


async def _costs(path: Path, store: Store, sessions: int, each: int) -> dict[str, Any]:
    journal = journal_of(store.tenant())
    feed = Feed(journal, "created", await journal.version())
    last = step_of(store.clock.now(), 0, each)
    appends, polls = [], []
    for number in range(_TIMES):
        appends.append(await _seconds(_append(store, _later(last, number))))
        polls.append(await _seconds(feed.poll))
    reads = [await _seconds(newest(store.tenant(), 1 % sessions, each)) for _ in range(_TIMES)] if sessions > 1 else []
    return {
        "append_p50_ms": summary_ms(appends)["p50_ms"],
        "feed_p50_ms": summary_ms(polls)["p50_ms"],
        "newest_20_p50_ms": summary_ms(reads)["p50_ms"] if reads else None,
        "disk_mb": round(bytes_in(path) / 1e6, 1),
    }


def _later(step: AgentStep, number: int) -> AgentStep:
    return replace(step, id=step_id(step.session_id, step.iteration + number), iteration=step.iteration + number)


def _append(store: Store, step: AgentStep) -> Callable[[], Awaitable[Any]]:
    async def append() -> None:
        await journal_of(store.tenant(), SessionId(step.session_id)).append(step)

    return append


async def _seconds(call: Callable[[], Awaitable[Any]]) -> float:
    began = time.perf_counter()
    await call()
    return time.perf_counter() - began
