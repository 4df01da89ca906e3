from __future__ import annotations

import asyncio

import pytest

from runtime.firstof import first_of


async def test_the_first_one_ends_it_and_the_others_are_cancelled() -> None:
    quick, slow = asyncio.Event(), asyncio.Event()
    ended: list[str] = []

    async def wait(name: str, event: asyncio.Event) -> None:
        try:
            await event.wait()
        finally:
            ended.append(name)

    quick.set()
    await first_of(wait("quick", quick), wait("slow", slow))
    await asyncio.sleep(0)
    assert ended == ["quick", "slow"]


async def test_an_error_of_the_first_one_is_raised() -> None:
    async def fail() -> None:
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError, match="gone"):
        await first_of(asyncio.Event().wait(), fail())


async def test_cancelling_it_cancels_all() -> None:
    alive = asyncio.all_tasks()
    waiting = asyncio.create_task(first_of(asyncio.Event().wait(), asyncio.Event().wait()))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == alive
