"""Opening: what names only its agent reaches the agent's latest session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.contract import StepFrame, StepOut, WaitForInput
from store.agent_state import SessionStatus
from store.ids import AgentId
from tests.runtime.kit import moniker, out, workshop


async def waits(ctx: Any, frame: StepFrame) -> StepOut:
    """Waits for input after each step."""
    return out(frame, wait=WaitForInput())


WAITS = moniker("waits", waits)


@pytest.mark.parametrize("restarted", [False, True])
async def test_control_of_an_agent_reaches_its_latest_session(tmp_path: Path, restarted: bool) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        for session in ("old", "new"):
            await shop.create("waits", session, agent="a")
            await shop.until(SessionStatus.WAITING, session)
        if restarted:
            await shop.restart()
        await shop.done(await shop.pause(None, agent_id=AgentId("a")))
        assert (await shop.state("old")).status is SessionStatus.WAITING
        assert (await shop.state("new")).status is SessionStatus.PAUSED


async def test_control_of_an_agent_reaches_a_session_created_in_the_same_batch(tmp_path: Path) -> None:
    async with workshop(tmp_path, WAITS, start=False) as shop:
        agent = AgentId("a")
        asked = [
            await shop.create("waits", "old", agent="a"),
            await shop.create("waits", "new", agent="a"),
            await shop.say("hello", None, agent_id=agent),
            await shop.guide("look", None, agent_id=agent),
        ]
        await shop.start()
        await shop.done(*asked)
        await shop.until(SessionStatus.WAITING, "old")
        await shop.until(SessionStatus.WAITING, "new")
        assert len(await shop.steps("old")) == 1
        assert len(await shop.steps("new")) >= 2


async def test_an_agent_without_a_session_is_named(tmp_path: Path) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        error = await shop.error_of(await shop.pause(None, agent_id=AgentId("nobody")))
        assert error == "agent 'nobody' has no session; create one first"
