"""Stepwell: a real worker as a child process, the store opened by this one as a web process would.

Every step is committed before the next one of its session runs. A commit outlives a killed process, not a power cut.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from bench.history import fill, newest
from bench.machine import bytes_in, summary_ms
from bench.peers.starts import start_answer
from bench.peers.work import Answer, Figure, Work, answer_one
from bench.processes import eventually, opened, process, worker_ready
from store import filters
from store.actions import ActionStatus, count_actions
from store.agent_requests import agent_create, agent_input
from store.agent_state import SessionStatus, count_sessions
from store.agent_steps import StepFilter, journal_of, list_agent_steps
from store.clock import SystemClock
from store.database import Store, TenantStore
from store.ids import SessionId
from store.upkeep import Upkeep, UpkeepRules

_DEADLINE_S = 600.0
_WARM_UP = 5
_KEEP = timedelta(seconds=0.5)
#: actions enqueued as `create` (a session each) or as `input` (turns of sessions that wait)
_ACTION = os.environ.get("BENCH_STEPWELL_ACTION", "create")
_INPUT_SESSIONS = 500
#: whether the newest steps of one session are read `again` and again, as of the peers, or of each session `first`
_HISTORY = os.environ.get("BENCH_STEPWELL_HISTORY", "again")


@asynccontextmanager
async def _served(path: Path, program: str = "agents.py", *arguments: str) -> AsyncIterator[TenantStore]:
    async with opened(path) as store:
        with process(path, program, *arguments):
            await worker_ready(store)
            yield store.tenant()


def _async(task: Callable[[Work], Coroutine[Any, Any, Answer]]) -> Callable[[Work], Answer]:
    return lambda work: asyncio.run(task(work))


async def _all_in(db: TenantStore, status: SessionStatus, sessions: int) -> None:
    async def are() -> bool:
        return (await count_sessions(db))[status] == sessions

    await eventually(are, _DEADLINE_S)


async def steps(work: Work) -> Answer:
    """From the first create until every session is stored as done."""
    async with _served(work.folder) as db:
        began = time.perf_counter()
        spec = {"task": "hello from the well", "config": {"steps": work.steps}}
        await asyncio.gather(*[agent_create(db, moniker="echo", spec=spec) for _ in range(work.sessions)])
        await _all_in(db, SessionStatus.DONE, work.sessions)
        took = time.perf_counter() - began
        stored = len(await journal_of(db).values("iteration", filters.at_least("iteration", 0)))
    if stored != work.sessions * work.steps:
        raise RuntimeError(f"{stored} steps are stored, not {work.sessions * work.steps}")
    return {"value": stored / took, "seconds": took}


async def actions(work: Work) -> Answer:
    """Tiny actions enqueued by this process; each is done when its row says so, with its step and state stored."""
    async with _served(work.folder) as db:
        sessions = await _waiting_sessions(db, min(_INPUT_SESSIONS, work.actions)) if _ACTION == "input" else []
        began = time.perf_counter()
        if sessions:
            chosen = [sessions[number % len(sessions)] for number in range(work.actions)]
            await asyncio.gather(*[agent_input(db, text="hello", session_id=session_id) for session_id in chosen])
        else:
            spec = {"task": "hello", "config": {"steps": 1}}
            await asyncio.gather(*[agent_create(db, moniker="echo", spec=spec) for _ in range(work.actions)])
        enqueued = time.perf_counter()

        async def all_done() -> bool:
            return (await count_actions(db))[ActionStatus.DONE] == work.actions + len(sessions)

        await eventually(all_done, _DEADLINE_S)
        took = time.perf_counter() - began
    return {"value": work.actions / took, "seconds": took, "enqueue_per_s": work.actions / (enqueued - began)}


async def _waiting_sessions(db: TenantStore, count: int) -> list[SessionId]:
    spec = {"task": "hello", "config": {"wait_for_input": True}}
    made = await asyncio.gather(*[agent_create(db, moniker="echo", spec=spec) for _ in range(count)])
    await _all_in(db, SessionStatus.WAITING, count)
    await eventually(lambda: _done(db, count), _DEADLINE_S)
    return [action.session_id for action in made if action.session_id is not None]


async def _done(db: TenantStore, count: int) -> bool:
    return (await count_actions(db))[ActionStatus.DONE] == count


async def start(work: Work) -> Answer:
    """From the call that enqueues until the step begins: the step's own time stamp less its duration."""
    async with _served(work.folder) as db:
        sessions = await _waiting_sessions(db, 1) if _ACTION == "input" else []
        await _starts(db, sessions, _WARM_UP, work.paced_gap_s)
        paced = await _starts(db, sessions, work.paced, work.paced_gap_s)
        idle = await _starts(db, sessions, work.idle, work.idle_gap_s)
    return start_answer(paced, idle)


async def _starts(db: TenantStore, sessions: list[SessionId], count: int, gap_s: float) -> list[float]:
    asked = {}
    for _ in range(count):
        moment = db.clock.now()
        action = (
            await agent_input(db, text="hello", session_id=sessions[0])
            if sessions
            else await agent_create(db, moniker="echo", spec={"task": "hello"})
        )
        asked[action.id] = (moment, action.session_id)
        await asyncio.sleep(gap_s)
    return [await _began_after(db, session_id, action_id, moment) for action_id, (moment, session_id) in asked.items()]


async def _began_after(db: TenantStore, session_id: Any, action_id: str, moment: Any) -> float:
    found: list[float] = []

    async def stepped() -> bool:
        page = await list_agent_steps(db, StepFilter(session_id=session_id), order="desc", limit=1000)
        for step in page.items:
            if step.action_id == action_id:
                began = step.created_at - timedelta(milliseconds=step.latency_ms)
                found.append((began - moment).total_seconds())
        return bool(found)

    await eventually(stepped, 60.0)
    return found[-1]


async def disk(work: Work) -> Answer:
    """The largest that the folder is while a session's state grows, and what it is after upkeep."""
    largest = 0
    async with opened(work.folder) as store:
        with process(work.folder, "-m", "bench.peers.grower"):
            await worker_ready(store)
            config = {"steps": work.grow_steps, "size": work.grow_bytes}
            await agent_create(store.tenant(), moniker="grower", spec={"task": "", "config": config})

            async def done() -> bool:
                nonlocal largest
                largest = max(largest, bytes_in(work.folder))
                return (await count_sessions(store.tenant()))[SessionStatus.DONE] == 1

            await eventually(done, _DEADLINE_S)
        stopped = bytes_in(work.folder)
        await _keep_up(store)
    return {"value": bytes_in(work.folder), "largest": largest, "before_upkeep": stopped}


class _Heard:
    """Upkeep's log: what goes wrong ends the measurement."""

    def debug(self, event: str, **fields: object) -> None: ...

    def warning(self, event: str, **fields: object) -> None:
        raise RuntimeError(f"{event}: {fields}")


async def _keep_up(store: Store) -> None:
    """Two turns of upkeep on every table: the first merges, the second drops what that left behind."""
    upkeep = Upkeep(store, UpkeepRules(keep=_KEEP), _Heard())
    for _ in range(2):
        await upkeep.once(force=True)
        await asyncio.sleep(2 * _KEEP.total_seconds())
    await upkeep.once(force=True)


async def history(work: Work) -> Answer:
    """The newest 20 steps of one session out of a million steps in a thousand sessions, while nothing is stored."""
    sessions, each = max(1, work.our_history_steps // 1000), min(1000, work.our_history_steps)
    filled = work.folder / "filled"
    async with opened(work.folder) as store:
        db = store.tenant()
        if not filled.exists():
            await fill(db, sessions, each)
            await Upkeep(store, UpkeepRules(), _Heard()).once(force=True)
            filled.touch()
        taken = []
        for number in range(work.history_reads):
            asked = number * 37 % sessions if _HISTORY == "first" else 7 % sessions
            began = SystemClock().monotonic()
            await newest(db, asked, each)()
            taken.append(SystemClock().monotonic() - began)
    return {"value": summary_ms(taken)["p50_ms"], **summary_ms(taken)}


if __name__ == "__main__":
    answer_one(
        {
            Figure.STEPS: _async(steps),
            Figure.ACTIONS: _async(actions),
            Figure.START: _async(start),
            Figure.DISK: _async(disk),
            Figure.HISTORY: _async(history),
        }
    )
