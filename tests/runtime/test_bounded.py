"""A function of a moniker that hangs, will not be cancelled, or answers too much costs its step and nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runtime.bounded import RecordLimits
from runtime.contract import MonikerError

LIMITS = RecordLimits(seconds=0.05, result_bytes=1000)


async def quick() -> str:
    return "done"


async def test_what_ends_in_time_is_answered() -> None:
    assert await LIMITS.call("k", quick) == "done"


async def test_its_own_error_comes_through() -> None:
    async def fails() -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await LIMITS.call("k", fails)


async def test_one_that_hangs_is_cancelled_and_named() -> None:
    cancelled = asyncio.Event()

    async def hangs() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(MonikerError, match=r"record 'fetch' did not end within 0\.05 s.*STEPWELL_RECORD_S"):
        await LIMITS.call("fetch", hangs)
    await cancelled.wait()


async def test_one_that_ignores_being_cancelled_is_not_waited_for_and_its_late_answer_is_thrown_away() -> None:
    may_end, ended = asyncio.Event(), asyncio.Event()

    async def stubborn() -> str:
        while not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                continue
        ended.set()
        raise RuntimeError("too late for anybody")

    with pytest.raises(MonikerError):
        await LIMITS.call("k", stubborn)
    caller = asyncio.create_task(RecordLimits(60.0).call("k", stubborn))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert not ended.is_set()
    may_end.set()
    await ended.wait()


@pytest.mark.parametrize("result", ["x" * 1000, {"a": "é" * 600}, ["12345678"] * 100])
def test_a_result_that_is_too_large_is_refused(result: Any) -> None:
    with pytest.raises(MonikerError, match=r"answered [\d,]+ bytes; at most 1,000 .*STEPWELL_RECORD_BYTES"):
        LIMITS.check("k", result)


@pytest.mark.parametrize("result", ["x" * 998, {"a": 1}, None, ["😀"] * 10])
def test_a_result_that_fits_is_taken(result: Any) -> None:
    LIMITS.check("k", result)
