from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runtime.context import StepContext
from runtime.contract import MonikerError, StepFrame, StepOut
from runtime.guard.onstep import StepGuard
from runtime.guard.port import AgentType
from runtime.stepcall import StepCall, StepCutError, is_being_cancelled
from runtime.stepcalls import StepCalls
from runtime.testing import FakeClock
from runtime.worktime import WorkTime
from tests.runtime.kit import moniker, out
from tests.runtime.sessions import fresh

FRAME = StepFrame(step="1")
UNGUARDED = StepGuard(cast(StepCalls, None), None, AgentType("m"))
WITHIN_BUDGET = SimpleNamespace(calls=SimpleNamespace(budget_spent=None), guard=UNGUARDED)


def call_of(body: Callable[..., Awaitable[Any]], **spec: Any) -> tuple[StepCall, WorkTime]:
    time = WorkTime(fresh(**spec), FakeClock())
    return StepCall(moniker("m", body), time), time


async def answer(call: StepCall, *, cut: bool = False) -> StepOut:
    return await call.answer(cast(StepContext, WITHIN_BUDGET), FRAME, lambda: cut)


async def _hangs(ctx: Any, frame: StepFrame) -> StepOut:
    await asyncio.Event().wait()
    return out(frame)


async def test_a_call_gives_the_monikers_answer_and_runs_only_meanwhile() -> None:
    seen = []

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        seen.append(call.runs)
        return out(frame)

    call, _ = call_of(body, max_runtime_s=60)
    assert (await answer(call)).next_step == "2"
    assert (seen, call.runs) == ([True], False)


async def test_a_wrong_answer_is_the_monikers_error() -> None:
    async def body(ctx: Any, frame: StepFrame) -> Any:
        return {"step": "1"}

    with pytest.raises(MonikerError, match="answered dict"):
        await answer(call_of(body)[0])


async def test_the_limit_cuts_a_call_that_hangs() -> None:
    call, time = call_of(_hangs, max_runtime_s=0.01)
    with pytest.raises(StepCutError):
        await answer(call)
    assert (time.left(), call.runs) == (0, False)


async def test_a_time_out_of_the_monikers_own_is_its_error() -> None:
    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        raise TimeoutError("mine")

    call, time = call_of(body, max_runtime_s=60)
    with pytest.raises(TimeoutError, match="mine"):
        await answer(call)
    assert time.left() == 60


@pytest.mark.parametrize(("cut", "raised"), [(True, StepCutError), (False, asyncio.CancelledError)])
async def test_a_cancelled_call_was_cut_or_its_runner_ends(cut: bool, raised: type[BaseException]) -> None:
    call, _ = call_of(_hangs)
    found: list[tuple[type[BaseException], bool]] = []

    async def run() -> None:
        try:
            await answer(call, cut=cut)
        except (StepCutError, asyncio.CancelledError) as error:
            found.append((type(error), is_being_cancelled()))

    task = asyncio.create_task(run())
    while not call.runs:
        await asyncio.sleep(0)
    task.cancel()
    await task
    assert found == [(raised, not cut)]


async def test_a_call_that_is_cancelled_from_within_is_the_monikers_error() -> None:
    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        raise asyncio.CancelledError

    with pytest.raises(MonikerError, match="cancelled by something"):
        await answer(call_of(body)[0])
