from __future__ import annotations

from pathlib import Path

from store.agent_state import SessionStatus
from tests.runtime.kit import workshop


async def test_a_session_runs_from_its_first_step_to_its_last(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        await shop.done(await shop.create("echo", task="hi", config={"steps": 3}))
        row = await shop.until(SessionStatus.DONE)
        assert (row.iteration, row.reason, row.result) == (2, "the moniker is done", "hi")
        steps = await shop.steps()
        assert [(s.iteration, s.step_token, s.next_step_token) for s in steps] == [(0, "1", "2"), (1, "2", "3"), (2, "3", "4")]
