"""A process that stands still (SIGSTOP) in the middle of a commit with the locks in its hands stops nobody else."""

from __future__ import annotations

import asyncio
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from store.actions import ActionKind, ActionStatus, queue_of
from store.agent_state import states_of, upsert_agent_state
from store.agent_steps import append_agent_step, journal_of
from store.database import Store, open_store
from store.enqueueing import NewAction, enqueue, enqueue_all
from store.lock import WAIT_S
from store.marks import mark_action_processed_async
from store.options import StoreOptions
from store.testing import CountingIds, FrozenClock
from tests.crash.store_child import AT_ONCE
from tests.crash.store_processes import ROOT, Child
from tests.store.rows import a_state, a_step

pytestmark = pytest.mark.process
COUNT = 20
#: what a commit may take here beside the wait for the lock, on a machine that does other things
SLACK_S = 2.0

WAIT_AND_LEAVE = """
import asyncio, sys
from pathlib import Path
from store.lock import CommitLock

async def main():
    async with CommitLock(Path(sys.argv[1]), wait_s=0.05).held() as held:
        print("held" if held else "went on", flush=True)

asyncio.run(main())
"""


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Store]:
    store = await open_store(StoreOptions(str(folder)), clock=FrozenClock(), ids=CountingIds("mine-"))
    yield store
    await store.close()


@asynccontextmanager
async def standing_still(role: str, folder: Path, point: str, visits: int, **options: Any) -> AsyncIterator[Child]:
    """A process that stopped at a crash point; whatever a test does with it, it is gone afterwards."""
    child = await Child.start(role, folder, name="x", count=COUNT, stop_at=[point, visits], **options)
    try:
        child.go()
        yield child
    finally:
        child.kill()


async def taking(work: Any) -> float:
    """How long something took."""
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


@pytest.mark.parametrize("point", ["agent_steps.before_commit", "agent_steps.after_commit"])
async def test_appends_go_on_beside_a_process_stopped_in_its_commit(tmp_path: Path, point: str) -> None:
    async with opened(tmp_path) as store, standing_still("append_steps", tmp_path, point, 3) as child:
        facts = await child.stopped()
        db = store.tenant()

        # the first commit waits once, the others not at all
        first = await taking(append_agent_step(db, a_step("mine", 0)))
        others = [await taking(append_agent_step(db, a_step("mine", at))) for at in range(1, 10)]
        assert WAIT_S * 0.9 <= first <= WAIT_S + SLACK_S
        assert sum(others) < WAIT_S + SLACK_S

        child.go_on()
        facts += await child.reports()

        await append_agent_step(db, a_step("mine", 10))
        stored = sorted(step.id for step in await journal_of(db).find())
        assert stored == sorted([*(fact["step"] for fact in facts), *(a_step("mine", at).id for at in range(11))])
        assert len(facts) == COUNT


async def test_changes_and_upserts_go_on_beside_a_process_stopped_in_one(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        db = store.tenant()
        ids = [action.id for action in await enqueue_all(db, [NewAction(ActionKind.INPUT)] * COUNT)]
        await upsert_agent_state(db, [a_state("mine", iteration=0)])
        async with (
            standing_still("mark_actions", tmp_path, "queue.before_commit", 2, ids=ids) as marker,
            standing_still("upsert_states", tmp_path, "agent_state.before_commit", 2) as upserter,
        ):
            marks, upserts = await marker.stopped(), await upserter.stopped()

            mine = await enqueue(db, NewAction(ActionKind.INPUT))
            took = await taking(mark_action_processed_async(db, mine.id, owner="me"))
            assert took < 2 * WAIT_S + SLACK_S  # one wait each for the two locks that it holds
            for iteration in range(1, 5):
                await upsert_agent_state(db, [a_state("mine", iteration=iteration)])
            await store.tables["queue"].compact(keep=timedelta(minutes=1))

            for child in (marker, upserter):
                child.go_on()
            marks += await marker.reports()
            upserts += await upserter.reports()

        actions = await queue_of(db).find()
        assert sorted(action.id for action in actions) == sorted([*ids, mine.id])
        assert all(action.status is ActionStatus.DONE for action in actions)
        states = {str(state.session_id): state.iteration for state in await states_of(db).find()}
        assert len(states) == len(await states_of(db).find()) == AT_ONCE + 1
        assert states["mine"] == 4
        assert {states[f"x-{at}"] for at in range(AT_ONCE)} == {COUNT // AT_ONCE - 1}


async def test_two_processes_stopped_in_turns_lose_and_double_nothing(tmp_path: Path) -> None:
    """Stopped at any instruction, again and again: each goes on without the other's locks."""
    many = 5 * COUNT
    async with opened(tmp_path) as store:
        ids = [action.id for action in await enqueue_all(store.tenant(), [NewAction(ActionKind.INPUT)] * 2 * many)]
    children = [
        await Child.start("write_everything", tmp_path, name=name, count=many, ids=ids[at::2])
        for at, name in enumerate("ab")
    ]
    reading = [asyncio.create_task(child.reports()) for child in children]
    try:
        for child in children:
            child.go()
        stops = 0
        while not any(task.done() for task in reading):
            child = children[stops % 2]
            child.stop()
            await asyncio.wait(reading, timeout=0.4)
            child.go_on()
            await asyncio.wait(reading, timeout=0.05)
            stops += 1
        assert stops >= 3
        facts = [fact for task in reading for fact in await task]
    finally:
        for child in children:
            child.kill()

    async with opened(tmp_path) as store:
        db = store.tenant()
        actions = await queue_of(db).find()
        new = [fact["action"] for fact in facts if "action" in fact]
        assert sorted(action.id for action in actions) == sorted([*ids, *new])
        assert {action.id for action in actions if action.status is ActionStatus.DONE} == set(ids)
        steps = [fact["step"] for fact in facts if "step" in fact]
        assert sorted(step.id for step in await journal_of(db).find()) == sorted(steps)
        assert len(steps) == 2 * many


async def test_a_thread_that_still_waits_does_not_keep_its_process_from_ending(tmp_path: Path) -> None:
    path = tmp_path / "queue.lock"
    hold = "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.flock(f, fcntl.LOCK_EX); print(1, flush=True); input()"
    holder = await asyncio.create_subprocess_exec(sys.executable, "-c", hold, path, stdout=PIPE, stdin=PIPE)
    assert holder.stdout is not None
    await holder.stdout.readline()

    waiter = await asyncio.create_subprocess_exec(sys.executable, "-c", WAIT_AND_LEAVE, path, stdout=PIPE, cwd=ROOT)
    out, _ = await asyncio.wait_for(waiter.communicate(), 30)

    assert (out, waiter.returncode) == (b"went on\n", 0)
    await holder.communicate(b"\n")
