"""A session that lost its store goes on by itself, behind the step whose commit was not answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from lancedb.table import AsyncTable

from runtime.contract import Moniker, StepFrame, StepOut, WaitForInput
from store.agent_state import SessionStatus
from store.agent_steps import list_agent_steps_since_iteration
from store.ids import SessionId
from tests.runtime.kit import Workshop, moniker, out, workshop
from tests.store.faults import FaultyHandle
from tests.support import eventually

LOST = "a session lost its store; it goes on when the store is back"


def counting(calls: list[int]) -> Moniker[Any]:
    """Counts in its state to 3 and notes each time that it is run."""

    async def counts(ctx: Any, frame: StepFrame) -> StepOut:
        number = int(frame.state.get("n", 0)) + 1
        calls.append(number)
        return out(frame, state={"n": number}, wait=WaitForInput() if number == 3 else None)

    return moniker("counts", counts)


def faulty(shop: Workshop, table: str) -> FaultyHandle:
    """Make a table of the open store fail on demand."""
    found = shop.store.tables[table]
    handle = FaultyHandle(found._handle)
    found._handle = cast(AsyncTable, handle)
    return handle


async def _lost(shop: Workshop) -> bool:
    return any(event == LOST for event, _ in shop.log.of("error"))


@pytest.mark.parametrize("stored", [True, False], ids=["stored but not answered", "not stored"])
async def test_no_step_is_repeated_or_left_out(tmp_path: Path, stored: bool) -> None:
    calls: list[int] = []
    async with workshop(tmp_path, counting(calls), quiet=False, patience_s=0.05) as shop:
        journal = faulty(shop, "agent_steps")
        journal.refused["query"] = -1  # whoever wants to know whether the row is there gets no answer either
        if stored:
            journal.lost = 1
        else:
            journal.refused["add"] = -1
        await shop.create("counts")
        await eventually(lambda: _lost(shop))
        journal.refused.clear()
        await shop.until(SessionStatus.WAITING)
        steps = await list_agent_steps_since_iteration(shop.db, SessionId("s"), -1)
        assert [(step.iteration, step.state) for step in steps] == [(n, {"n": n + 1}) for n in range(3)]
        assert calls == ([1, 2, 3] if stored else [1, 1, 2, 3])


async def test_the_worker_outlives_a_store_that_takes_no_projections(tmp_path: Path) -> None:
    calls: list[int] = []
    async with workshop(tmp_path, counting(calls), quiet=False, patience_s=0.05) as shop:
        states = faulty(shop, "agent_state")
        states.refused["merge_insert"] = -1
        await shop.create("counts")
        await eventually(lambda: _lost(shop))
        states.refused.clear()
        await shop.until(SessionStatus.WAITING)
        steps = await list_agent_steps_since_iteration(shop.db, SessionId("s"), -1)
        assert [step.iteration for step in steps] == [0, 1, 2]
        assert calls == [1, 2, 3]
