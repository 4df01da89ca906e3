from __future__ import annotations

import asyncio
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.checking.check import check
from runtime.contract import MonikerError, StepFrame, StepOut, WaitForInput, WaitUntil
from store.actions import ActionKind, WhenBusy, list_open_actions
from tests.runtime.invariants import hold_laws
from tests.runtime.kit import Workshop, moniker, out, workshop
from tests.support import eventually, examples

SESSIONS = ["a", "b", "c"]


async def body(ctx: Any, frame: StepFrame) -> StepOut:
    """Runs two steps, then waits in the way that its token says; fails or ends when it is told to."""
    heard = frame.guidance if frame.guidance is not None else [said.text for said in frame.inputs]
    if "fail" in str(heard):
        raise MonikerError(f"told to: {heard}")
    n = int(frame.step)
    wait = [None, None, WaitForInput(), WaitUntil(time=_in(ctx, 5)), WaitUntil(time=_in(ctx, 86_400))][n % 5]

    async def call() -> str:
        return f"answer {ctx.iteration}"

    return out(
        frame, text=await ctx.record("call", call), state={"n": n, "heard": heard}, done="done" in str(heard), wait=wait
    )


def _in(ctx: Any, seconds: float) -> Any:
    return ctx.clock.now() + timedelta(seconds=seconds)


MONIKERS = [moniker("at_wait", body), moniker("any_step", body, takes_input="any_step")]

sessions = st.sampled_from(SESSIONS)
words = st.sampled_from(["hello", "hello", "hello", "fail", "done"])
asked = st.one_of(
    st.tuples(st.just("create"), sessions, st.sampled_from(["at_wait", "any_step"])),
    st.tuples(st.just("say"), sessions, words),
    st.tuples(st.sampled_from([policy.value for policy in WhenBusy]), sessions, words),
    st.tuples(st.just("guide"), sessions, words),
    st.tuples(st.sampled_from(["pause", "resume", "destroy"]), sessions, st.none()),
    st.tuples(st.sampled_from(["crash", "restart", "settle", "leap"]), st.none(), st.none()),
)


@pytest.mark.slow
@given(ops=st.lists(asked, min_size=4, max_size=25))
@pytest.mark.timeout(400)
@examples(25)
async def test_any_sequence_of_actions_and_crashes_ends_well(tmp_path: Path, ops: list[tuple[str, str, Any]]) -> None:
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    async with workshop(folder, *MONIKERS) as shop:
        before = asyncio.all_tasks()
        await shop.thread("t")
        for number, (what, session, detail) in enumerate([*_begin(), *ops]):
            await _do(shop, number, what, session, detail)
        for session in SESSIONS:
            await shop.resume(session)
            await shop.destroy(session)
        await eventually(lambda: _all_processed(shop), 30)
        await shop.stop()
        await hold_laws(shop.db)
        assert await check(shop.db) == []
        assert asyncio.all_tasks() <= before | {asyncio.current_task()}


def _begin() -> list[tuple[str, str, Any]]:
    return [("create", "a", "at_wait"), ("create", "b", "any_step")]


async def _do(shop: Workshop, number: int, what: str, session: str, detail: Any) -> None:
    match what:
        case "create":
            fields = {"agent_id": detail, "conversation_id": "t", "payload": {"moniker": detail, "max_steps": 30}}
            await shop.ask(ActionKind.CREATE, session, **fields)
        case "say":
            await shop.say(f"{detail} {number}", session, idempotency_key=f"k{number}" if number % 2 else None)
        case "enqueue" | "interrupt" | "reject" | "rollback":
            await shop.ask(ActionKind.INPUT, session, payload={"text": f"{detail} {number}", "when_busy": what})
        case "guide":
            await shop.guide(f"{detail} {number}", session)
        case "pause" | "resume" | "destroy":
            await getattr(shop, what)(session)
        case "crash":
            await shop.crash()
            await shop.open()
            assert await check(shop.db) == []  # what the next start makes good is no fault
            await shop.start()
        case "restart":
            await shop.stop()
            await shop.start()
        case "settle":
            await shop.queue_read()
        case "leap":
            shop.clock.leap(90_000)
        case _:
            raise AssertionError(what)


async def _all_processed(shop: Workshop) -> bool:
    return not await list_open_actions(shop.db)
