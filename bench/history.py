"""The 20 newest steps of a session, out of a million stored ones."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.machine import emit, summary_ms
from bench.processes import folder, opened
from runtime.session import Identity, LiveSession
from runtime.spec import SessionSpec
from store.agent_state import AgentState, upsert_agent_state
from store.agent_steps import AgentStep, StepStatus, journal_of, list_agent_steps_latest
from store.database import Store, TenantStore
from store.ids import AgentId, SessionId, step_id
from store.upkeep import Upkeep, UpkeepRules

_PART = 20_000
_READS = 100


class _Quiet:
    """Upkeep's log, unheard."""

    def debug(self, event: str, **fields: object) -> None: ...

    def warning(self, event: str, **fields: object) -> None:
        raise RuntimeError(f"{event}: {fields}")


async def history(steps: int) -> None:
    """Print the figures for many sessions and for one session that has all the steps.

    `newest_20_of_history` is read while other sessions step, so that nothing is remembered; `newest_20_again` is what
    a page gets that asks once more before anything was stored.
    """
    for sessions in (steps // 1000, 1):
        with folder() as path:
            async with opened(path) as store:
                await _measure(path, store, sessions, steps // sessions)


async def _measure(path: Path, store: Store, sessions: int, each: int) -> None:
    db = store.tenant()
    await fill(db, sessions, each)
    await Upkeep(store, UpkeepRules(), _Quiet()).once(force=True)
    taken, again = [], []
    for number in range(_READS):
        await journal_of(db).append(step_of(db.clock.now(), sessions, number))
        taken.append(await _timed(newest(db, number * 37 % sessions, each)))
        again.append(await _timed(newest(db, number * 37 % sessions, each)))
    facts = {"sessions": sessions, "steps": sessions * each}
    emit("newest_20_of_history", path, **facts, **summary_ms(taken))
    emit("newest_20_again", path, **facts, **summary_ms(again))


async def fill(db: TenantStore, sessions: int, each: int) -> None:
    """Store `sessions` sessions of `each` steps."""
    part: list[AgentStep] = []
    for step in _steps(db.clock.now(), sessions, each):
        part.append(step)
        if len(part) == _PART:
            await journal_of(db).append_all(part)
            part = []
    await journal_of(db).append_all(part)
    await upsert_agent_state(db, [_state(db.clock.now(), number, each) for number in range(sessions)])


def _state(now: datetime, number: int, each: int) -> AgentState:
    session_id = SessionId(f"bench-{number}")
    spec = SessionSpec(moniker="echo")
    session = LiveSession(Identity(AgentId("echo"), session_id, None, spec, now), "1", "bench", 1, now)
    session.iteration = each - 1
    return session.snapshot()


def _steps(now: datetime, sessions: int, each: int) -> Iterator[AgentStep]:
    for iteration in range(each):
        for number in range(sessions):
            yield step_of(now, number, iteration)


def step_of(now: datetime, number: int, iteration: int) -> AgentStep:
    """A step of session `number` as the echo moniker makes them."""
    session_id = SessionId(f"bench-{number}")
    return AgentStep(
        id=step_id(session_id, iteration),
        created_at=now,
        agent_id=AgentId("echo"),
        session_id=session_id,
        action_id=None,
        iteration=iteration,
        step_token=str(iteration),
        next_step_token=str(iteration + 1),
        status=StepStatus.RUNNING,
        text="hello from the well",
        data=None,
        state={"count": iteration},
        guidance=None,
        notes=None,
        wait=None,
        latency_ms=0.1,
        error=None,
        usage={"steps": iteration + 1},
        epoch=1,
    )


def newest(db: TenantStore, number: int, each: int) -> Callable[[], Awaitable[Any]]:
    """Read the 20 newest steps of session `number`, and make sure that they are these."""

    async def read() -> None:
        found = await list_agent_steps_latest(db, session_id=SessionId(f"bench-{number}"), limit=20)
        if [step.iteration for step in found] != list(range(each - 1, each - 21, -1)):
            raise RuntimeError("the newest steps were not found")

    return read


async def _timed(call: Callable[[], Awaitable[Any]]) -> float:
    began = time.perf_counter()
    await call()
    return time.perf_counter() - began
