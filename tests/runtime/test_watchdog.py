"""The watchdog names what blocks the loop, and says when it is over."""

from __future__ import annotations

import asyncio
import threading

from runtime.watchdog import Watchdog
from store.clock import SystemClock
from tests.runtime.kit import KeptLog
from tests.support import eventually


async def test_a_task_that_blocks_the_loop_is_named_with_its_line() -> None:
    log = KeptLog()
    watching = asyncio.create_task(Watchdog(SystemClock(), log, every_s=0.02, looks=3).run())
    told = threading.Event()

    async def blocks() -> None:
        for _ in range(500):  # at most ten seconds
            if told.wait(0.02) or log.of("error"):
                return

    await asyncio.sleep(0)
    await asyncio.create_task(blocks(), name="session s (bad)")
    ((event, fields),) = log.of("error")
    assert "stands still" in event
    assert fields["task"] == "session s (bad)"
    assert "blocks" in fields["where"]
    await eventually(lambda: bool(log.of("warning")))
    assert log.of("warning") == [("the worker goes on after it stood still", {})]
    watching.cancel()
    await asyncio.wait([watching])


async def test_a_loop_that_turns_is_left_alone() -> None:
    log = KeptLog()
    watching = asyncio.create_task(Watchdog(SystemClock(), log, every_s=0.01, looks=200).run())
    turns = 0

    def enough() -> bool:
        nonlocal turns
        turns += 1
        return turns > 50

    await eventually(enough)
    assert log.lines == []
    watching.cancel()
    await asyncio.wait([watching])
