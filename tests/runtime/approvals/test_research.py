"""`research` with a real worker: its plan is sent back, changed and agreed to, across a restart, and replayed."""

from __future__ import annotations

from pathlib import Path

from monikers.catalogue import catalogue
from monikers.research import RESEARCH
from runtime.replay import replay_session
from runtime.testing import FakeFiles
from store.agent_state import SessionStatus
from store.ids import SessionId
from tests.runtime.approvals.asker import answer, asked
from tests.runtime.kit import workshop


async def test_a_plan_is_sent_back_changed_and_carried_out(tmp_path: Path) -> None:
    async with workshop(tmp_path, RESEARCH) as shop:
        await shop.create("research", config={**RESEARCH.example, "approve_plan": True})
        (first,) = await asked(shop)
        assert (first.kind, first.key, bool(first.editable)) == ("plan", "plan 1", True)
        await shop.done(await answer(shop, first, "retry", feedback="ask about pumps"))
        (second,) = await asked(shop)
        await shop.restart()
        assert (await asked(shop))[0].approval_id == second.approval_id
        await shop.done(await answer(shop, second, "edit", value=["When did pumps arrive?"], by="ana"))
        await shop.until(SessionStatus.DONE)
        steps = await shop.steps()
        plan = next(step for step in steps if step.text and step.step_token == "plan")
        assert plan.state["sub_questions"] == ["When did pumps arrive?"]
        assert "ask about pumps" in plan.state["guidance"][-1]
        assert steps[-1].usage["calls"] == 5, "two plans, a reading of each document, a report; nothing paid twice"
        await shop.stop()
        found = await replay_session(shop.db, catalogue(), FakeFiles(), SessionId("s"))
        assert (found.difference, found.passed_over) == (None, 2)
