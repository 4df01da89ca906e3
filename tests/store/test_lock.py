"""The locks: one holder at a time, among tasks and among processes; whoever dies or gives up holds nothing."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from store.ids import WorkerId
from store.lock import CommitLock, ProcessRole, is_held
from tests.store.files import is_free, open_files
from tests.support import eventually

HOLD = (
    "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True); input()"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.lock"


async def test_two_locks_on_one_file_exclude_each_other(path: Path) -> None:
    one, other = CommitLock(path), CommitLock(path)
    events: list[str] = []

    async def hold(lock: CommitLock, name: str) -> None:
        async with lock.held():
            events.append(f"{name} in")
            for _ in range(5):
                await asyncio.sleep(0)
            events.append(f"{name} out")

    await asyncio.gather(*[hold(lock, f"{at}") for at, lock in enumerate((one, other, one, other))])

    assert len(events) == 8
    assert all(came.split()[0] == went.split()[0] for came, went in zip(events[::2], events[1::2], strict=True))
    one.close()
    other.close()


async def test_the_lock_is_free_after_use_and_after_an_error(path: Path) -> None:
    lock = CommitLock(path)

    with pytest.raises(KeyError):
        await fail_inside(lock, path)

    assert is_free(path)
    async with lock.held():
        assert not is_free(path)
    lock.close()


async def test_a_wait_that_is_cancelled_leaves_nothing_behind(path: Path) -> None:
    holder, waiter = CommitLock(path), CommitLock(path)
    async with holder.held():
        waiting = asyncio.create_task(enter_and_leave(waiter))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])

    await eventually(lambda: is_free(path))
    holder.close()
    waiter.close()


async def test_a_cancelled_wait_does_not_take_the_lock_from_the_next_holder(path: Path) -> None:
    """The thread of the cancelled wait still gets the lock; giving that back must not free a later holder's."""
    holder, lock = CommitLock(path), CommitLock(path)
    async with holder.held():
        first = asyncio.create_task(enter_and_leave(lock))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        inside, leave = asyncio.Event(), asyncio.Event()
        second = asyncio.create_task(stay(lock, inside, leave))
        await asyncio.sleep(0)

    await inside.wait()
    # The thread of the cancelled wait may end before or after this; let it.
    await asyncio.get_running_loop().run_in_executor(None, int)
    for _ in range(20):
        await asyncio.sleep(0)
        assert not is_free(path)

    leave.set()
    await second
    await eventually(lambda: is_free(path))
    holder.close()
    lock.close()


async def fail_inside(lock: CommitLock, path: Path) -> None:
    async with lock.held():
        assert not is_free(path)
        raise KeyError


async def enter_and_leave(lock: CommitLock) -> None:
    async with lock.held():
        pass


async def stay(lock: CommitLock, inside: asyncio.Event, leave: asyncio.Event) -> None:
    async with lock.held():
        inside.set()
        await leave.wait()


@pytest.mark.process
async def test_a_killed_process_holds_nothing(path: Path) -> None:
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", HOLD, path, stdout=PIPE, stdin=PIPE)
    assert child.stdout is not None
    assert await child.stdout.readline() == b"held\n"
    lock = CommitLock(path)
    waiting = asyncio.create_task(enter_and_leave(lock))
    await asyncio.sleep(0)
    assert not waiting.done()

    child.kill()

    await asyncio.wait_for(waiting, 30)
    await child.communicate()
    lock.close()


async def test_close_gives_the_lock_and_the_file_back(path: Path) -> None:
    lock = CommitLock(path)
    async with lock.held():
        lock.close()
        assert is_free(path)
    lock.close()

    assert str(path) not in open_files()


async def test_a_lock_without_a_file_orders_the_tasks_of_this_process() -> None:
    lock = CommitLock(None)
    inside, leave = asyncio.Event(), asyncio.Event()
    first = asyncio.create_task(stay(lock, inside, leave))
    await inside.wait()
    second = asyncio.create_task(enter_and_leave(lock))
    await asyncio.sleep(0)
    assert not second.done()

    leave.set()
    await asyncio.gather(first, second)


async def test_a_lock_file_that_cannot_be_made_is_an_error_and_the_next_try_works(tmp_path: Path) -> None:
    lock = CommitLock(tmp_path / "missing" / "queue.lock")
    with pytest.raises(FileNotFoundError):
        await enter_and_leave(lock)

    (tmp_path / "missing").mkdir()
    await enter_and_leave(lock)
    lock.close()


def test_a_role_is_one_holders_until_it_closes(tmp_path: Path) -> None:
    path = ProcessRole.of_worker(tmp_path, WorkerId("w"))
    assert not is_held(path)
    first, second = ProcessRole(path), ProcessRole(path)
    assert first.try_take()
    assert not second.try_take()
    assert is_held(path)

    first.close()

    assert not is_held(path)
    second.close()


async def test_a_lock_that_is_kept_too_long_is_gone_on_without(path: Path) -> None:
    holder, lock = CommitLock(path), CommitLock(path, wait_s=0.05)
    async with holder.held() as held:
        assert held
        async with lock.held() as got:
            assert not got
            assert lock.stuck
        async with asyncio.timeout(30):
            for _ in range(100):  # each of them would wait for ever, or 100 times
                async with lock.held() as got:
                    assert not got
        assert not is_free(path)

    # the thread that still waits gives back what it gets late, and everybody takes turns again
    await eventually(lambda: not lock.stuck)
    async with lock.held() as got:
        assert got
    await eventually(lambda: is_free(path))
    holder.close()
    lock.close()
    assert str(path) not in open_files()


async def test_without_the_lock_the_tasks_of_one_process_still_take_turns(path: Path) -> None:
    holder, lock = CommitLock(path), CommitLock(path, wait_s=0.01)
    async with holder.held():
        inside, leave = asyncio.Event(), asyncio.Event()
        first = asyncio.create_task(stay(lock, inside, leave))
        await inside.wait()
        second = asyncio.create_task(enter_and_leave(lock))
        await asyncio.sleep(0)
        assert not second.done()
        leave.set()
        await asyncio.gather(first, second)
    holder.close()
    lock.close()
