"""What 10,000 waiting sessions cost the worker in memory."""

from __future__ import annotations

import asyncio

from bench.machine import emit, resident_mb
from bench.processes import eventually, folder, opened, process, worker_ready
from store.agent_requests import agent_create
from store.agent_state import SessionStatus, count_sessions
from store.ids import AgentId

_PART = 1000


async def waiting(sessions: int) -> None:
    """Print the figure: the worker's resident memory with so many waiting sessions, above the idle worker's."""
    with folder() as path:
        async with opened(path) as store:
            with process(path, "agents.py") as child:
                await worker_ready(store)
                idle = resident_mb(child.pid)
                db = store.tenant()
                for start in range(0, sessions, _PART):
                    await asyncio.gather(
                        *[
                            agent_create(
                                db,
                                moniker="echo",
                                agent_id=AgentId(f"agent-{number}"),
                                spec={"task": "hello", "config": {"wait_for_input": True}},
                            )
                            for number in range(start, start + _PART)
                        ]
                    )

                async def all_wait() -> bool:
                    return (await count_sessions(db))[SessionStatus.WAITING] == sessions

                await eventually(all_wait, 300.0, every_s=0.5)
                now = resident_mb(child.pid)
                emit(
                    "waiting_sessions_memory",
                    path,
                    sessions=sessions,
                    above_idle_mb=round(now - idle, 1),
                    idle_mb=round(idle, 1),
                )
