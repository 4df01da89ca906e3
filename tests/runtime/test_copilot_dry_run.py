"""A dry run of the copilot: a fork takes its one input, no timer comes before it, and it ends; the session goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from monikers.copilot.moniker import COPILOT
from store.agent_requests import FirstInput, agent_fork
from store.agent_state import SessionStatus
from store.ids import AgentId, SessionId
from tests.runtime.invariants import hold_laws
from tests.runtime.kit import Workshop, workshop

#: it is asked by a timer when the clock has leapt
CLOCKWORK = {
    "id": "clockwork",
    "name": "Clockwork",
    "text": 'Say the time. Emit the event "tick".',
    "trigger_config": {"mode": "interval", "interval": 5, "cooldown": 0},
}
TRIED = {"id": "tried", "name": "Tried", "text": "Advise.", "trigger_config": {"mode": "keyword", "keywords": ["x"]}}
CONFIG: dict[str, Any] = {"agents": [CLOCKWORK]}


async def fork(shop: Workshop, session: str, definition: Any) -> None:
    await agent_fork(
        shop.db,
        source_id=SessionId("s"),
        iteration=(await shop.steps())[-1].iteration,
        agent_id=AgentId("copilot"),
        session_id=SessionId(session),
        spec={"moniker": "copilot", "config": {**CONFIG, "dry_run": True}, "stop_on_done": True},
        first_input=FirstInput("Dry run", {"agents": [definition], "trigger": "force", "agent_ids": ["tried"]}),
    )


async def test_the_forced_turn_comes_before_every_timer_and_is_the_only_one(tmp_path: Path) -> None:
    async with workshop(tmp_path, COPILOT) as shop:
        await shop.create("copilot", config=CONFIG)
        await shop.until_steps(1)
        await shop.ended(await shop.say("We meet on Monday."))
        await shop.stop()
        await fork(shop, "f", TRIED)
        shop.clock.leap(30)  # a timer is due when the fork begins
        await shop.start()
        row = await shop.until(SessionStatus.DONE, "f")
        steps = await shop.steps("f")
        assert steps[-1].data["trigger"] == "force"
        (turn,) = steps[-1].data["turns"]
        assert [run["agent_id"] for run in turn["phases"][0]["ran"]] == ["tried"]
        told = [step.data for step in steps[1:] if step.data.get("turns")]
        assert len(told) == 1, "a timer's turn was taken, and paid for"
        assert row.status is SessionStatus.DONE
        await hold_laws(shop.db)


async def test_an_input_that_is_not_taken_up_ends_it_too(tmp_path: Path) -> None:
    async with workshop(tmp_path, COPILOT) as shop:
        await shop.create("copilot", config=CONFIG)
        await shop.until_steps(1)
        await fork(shop, "f", {"name": "Tried", "text": "{% if %}"})
        await shop.until(SessionStatus.DONE, "f")
        assert "was not taken up" in ((await shop.steps("f"))[-1].text or "")
