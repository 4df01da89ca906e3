"""Steps stored a second: echo sessions with journal, state and messages on, run by a real worker."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from bench.machine import cpu_seconds, emit
from bench.processes import eventually, folder, opened, process, worker_ready
from store import filters
from store.agent_requests import agent_create
from store.agent_state import SessionStatus, count_sessions
from store.agent_steps import journal_of
from store.conversations import create_conversation
from store.database import TenantStore
from store.ids import ConversationId, SessionId
from store.messages import messages_of


async def throughput(sessions: int, steps: int) -> None:
    """Print the figure for so many sessions of so many steps."""
    with folder() as path:
        async with opened(path) as store:
            with process(path, "agents.py") as child:
                await worker_ready(store)
                await _measure(path, store.tenant(), child.pid, sessions, steps)


async def _measure(path: Path, db: TenantStore, pid: int, sessions: int, steps: int) -> None:
    busy = cpu_seconds(pid)
    took = await carried_out(db, sessions, steps)
    busy = cpu_seconds(pid) - busy
    stored = len(await journal_of(db).values("iteration", filters.at_least("iteration", 0)))
    messages = len(await messages_of(db).values("iteration", filters.at_least("iteration", 0)))
    emit(
        "steps_stored_per_s",
        path,
        value=round(stored / took),
        sessions=sessions,
        steps=stored,
        messages=messages,
        seconds=round(took, 2),
        worker_cpu_us_per_step=round(busy / stored * 1e6, 1),
    )


async def carried_out(db: TenantStore, sessions: int, steps: int) -> float:
    """Seconds from the first create until all of so many sessions of so many steps are done."""
    threads = [await create_conversation(db, title=f"bench {number}") for number in range(min(sessions, 10))]
    began = time.perf_counter()
    await asyncio.gather(
        *[_create(db, number, steps, threads[number % len(threads)].conversation_id) for number in range(sessions)]
    )

    async def all_done() -> bool:
        return (await count_sessions(db))[SessionStatus.DONE] == sessions

    await eventually(all_done, 300.0)
    return time.perf_counter() - began


async def _create(db: TenantStore, number: int, steps: int, conversation_id: ConversationId) -> None:
    await agent_create(
        db,
        moniker="echo",
        session_id=SessionId(f"bench-{number}"),
        conversation_id=conversation_id,
        spec={"task": "hello from the well", "config": {"steps": steps}},
    )
