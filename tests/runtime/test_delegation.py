"""Sessions that ask each other for more, and a step that asks for more memory than there is: both come to an end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runtime.contract import StepFrame, StepOut, WaitForInput
from store.actions import ActionFilter, ActionKind, list_actions
from store.agent_state import SessionStatus
from tests.runtime.kit import moniker, out, workshop
from tests.support import eventually

WAIT = {"wait": WaitForInput()}
OTHER = {"a": "b", "b": "a"}


async def passes_on(ctx: Any, frame: StepFrame) -> StepOut:
    """Has the other session do what it was asked to do."""
    for said in frame.inputs:
        await ctx.enqueue("agent_input", session_id=OTHER[ctx.session_id], payload={"text": said.text})
    return out(frame, **WAIT)


async def test_agents_that_delegate_to_each_other_for_ever_come_to_an_end(tmp_path: Path) -> None:
    async with workshop(tmp_path, moniker("m", passes_on), max_hops=4) as shop:
        for name in OTHER:
            await shop.create("m", name)
            await shop.until(SessionStatus.WAITING, name)
        await shop.say("do it", "a")

        async def over() -> bool:
            states = [await shop.state(name) for name in OTHER]
            return any(state.status is SessionStatus.ERROR for state in states)

        await eventually(over)
        ended = next(state for state in [await shop.state(n) for n in OTHER] if state.status is SessionStatus.ERROR)
        assert "passed this on 4 times" in (ended.last_error or "")
        inputs = (await list_actions(shop.db, ActionFilter(kind=ActionKind.INPUT))).items
        assert len(inputs) == 5  # a person's, and four that were passed on


async def test_what_a_person_says_counts_from_the_start(tmp_path: Path) -> None:
    async def once(ctx: Any, frame: StepFrame) -> StepOut:
        if frame.inputs and ctx.session_id == "a":
            await ctx.enqueue("agent_input", session_id="b", payload={"text": "x"})
        return out(frame, **WAIT)

    async with workshop(tmp_path, moniker("m", once), max_hops=1) as shop:
        for name in OTHER:
            await shop.create("m", name)
            await shop.until(SessionStatus.WAITING, name)
        for _ in range(3):
            await shop.done(await shop.say("again", "a"))
        assert (await shop.state("a")).status is SessionStatus.WAITING


async def test_a_step_that_is_out_of_memory_fails_alone(tmp_path: Path) -> None:
    async def greedy(ctx: Any, frame: StepFrame) -> StepOut:
        async def allocate() -> int:
            return len(bytearray(1 << 62))

        if ctx.session_id == "greedy":
            await ctx.record("allocate", allocate)
        return out(frame, **WAIT)

    async with workshop(tmp_path, moniker("m", greedy)) as shop:
        await shop.create("m", "greedy")
        await shop.create("m", "modest")
        await shop.until(SessionStatus.ERROR, "greedy")
        assert "MemoryError" in ((await shop.state("greedy")).last_error or "")
        await shop.until(SessionStatus.WAITING, "modest")
