"""`WaitForApproval`: what a step asks at its end, and what the next one reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.contract import StepFrame, StepOut, WaitForApproval, WaitForInput
from store.agent_state import SessionStatus
from tests.runtime.approvals.asker import FORM, PLAN, Waiter, answer, asked, question
from tests.runtime.kit import moniker, out, workshop
from tests.support import eventually


async def test_the_next_step_reads_all_answers(tmp_path: Path) -> None:
    waiter = Waiter({**PLAN, "key": "plan"}, FORM)
    async with workshop(tmp_path, moniker("m", waiter)) as shop:
        await shop.create("m")
        plan, form = await asked(shop, 2)
        assert (plan.key, form.key, plan.kind, form.fields[0]["name"]) == ("plan", "1", "plan", "depth")
        assert plan.approval_id == "s:0:0"
        await shop.done(await answer(shop, form, "approve", value={"depth": 4}))
        assert waiter.read == []
        await shop.restart()
        await shop.done(await answer(shop, plan, "edit", value=["dig"], by="ana"))
        await shop.until_steps(2)
        ((answers, guidance),) = waiter.read
        assert guidance is None
        assert (answers["plan"].value, answers["plan"].by, answers["1"].value) == (["dig"], "ana", {"depth": 4})
        stored = (await shop.steps())[1].guidance
        assert stored["answers"]["plan"]["value"] == ["dig"]
        assert await asked(shop, 0) == []


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ((), "approval of nothing"),
        (({},), "item 0 of WaitForApproval is no question"),
        (({"kind": "plan", "question": "x"}, {"kind": "wish", "question": "x"}), "item 1"),
        (({**PLAN, "key": "a"}, {**FORM, "key": "a"}), "two items of WaitForApproval have the key 'a'"),
        (({**PLAN, "key": 7},), "has the key 7"),
        (({**PLAN, "in_step": True},), "in_step"),
        (({"kind": "unsafe_call", "question": "x"},), "asked by the runtime only"),
        (({**PLAN, "default": "edit"},), "default cannot be 'edit'"),
    ],
)
async def test_what_is_no_question_fails_the_step(tmp_path: Path, items: Any, words: str) -> None:
    async with workshop(tmp_path, moniker("m", Waiter(*items))) as shop:
        await shop.create("m")
        assert words in ((await shop.until(SessionStatus.ERROR)).last_error or "")
        assert await asked(shop, 0) == []


async def test_an_interrupt_ends_the_wait_and_its_questions(tmp_path: Path) -> None:
    waiter = Waiter({**PLAN, "key": "plan"}, {**FORM, "key": "form"})
    async with workshop(tmp_path, moniker("m", waiter)) as shop:
        await shop.create("m")
        plan, form = await asked(shop, 2)
        await shop.done(await answer(shop, plan, "approve"))
        await shop.done(await shop.guide("never mind"))
        await eventually(lambda: len(waiter.read) == 1)
        answers, guidance = waiter.read[0]
        assert ({key: one.decision.value for key, one in answers.items()}, guidance) == (
            {"plan": "approve"},
            "never mind",
        )
        assert await asked(shop, 0) == []
        assert "not open" in await shop.error_of(await answer(shop, form, "approve", value={"depth": 1}))


async def test_a_step_that_is_cut_short_reads_the_same_answers_again(tmp_path: Path) -> None:
    """A crash in the step, a question in its middle, a failure: the frame is the same."""
    seen: list[str] = []

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        if frame.step == "1":
            return out(frame, wait=WaitForApproval(items=({**PLAN, "key": "plan"},)))
        seen.append(frame.answers["plan"].decision.value)
        if len(seen) == 1:
            raise OSError("passes")
        got = await ctx.ask("again", question())
        return out(frame, text=f"{frame.answers['plan'].decision} {got.decision}", wait=WaitForInput())

    async with workshop(tmp_path, moniker("m", body), max_attempts=3) as shop:
        await shop.create("m")
        (plan,) = await asked(shop)
        await shop.done(await answer(shop, plan, "approve"))
        (again,) = await asked(shop)
        assert again.key == "again"
        await shop.restart()
        await shop.done(await answer(shop, again, "retry"))
        await eventually(lambda: len(seen) == 3)
        await shop.until(SessionStatus.WAITING)
        assert (await shop.texts())[-1] == "approve retry"
        assert set(seen) == {"approve"}
