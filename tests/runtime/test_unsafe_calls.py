"""Calls that must not be made twice: after a crash a person decides, once, and restarts change nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from runtime.contract import MonikerError, StepFrame, StepOut, WaitForInput
from store.actions import Action, ActionKind, ActionStatus, ApprovalDecision
from store.agent_requests import approval_action
from store.agent_state import SessionStatus
from store.approvals import Approval, get_approval, list_approvals
from store.errors import NotFoundError
from store.ids import SessionId
from tests.runtime.kit import Gate, Workshop, moniker, out, workshop
from tests.runtime.test_context import bench, counted
from tests.support import eventually

S = SessionId("s")


class Payer:
    """Looks something up, pays once at the gate, then waits for an input."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.lookups = 0
        self.payments: list[str] = []
        self.got: list[Any] = []

    async def __call__(self, ctx: Any, frame: StepFrame) -> StepOut:
        if frame.step == "1":
            return out(frame, wait=WaitForInput())
        price = await ctx.record("look up", self._look_up)

        async def pay() -> str:
            self.payments.append(ctx.call_key("pay"))
            await self.gate.passing()
            return f"paid {price}"

        answer = await ctx.record("pay", pay, safe_to_repeat=False)
        self.got.append((answer, [said.text for said in frame.inputs]))
        return out(frame, text=answer, wait=WaitForInput())

    async def _look_up(self) -> int:
        self.lookups += 1
        return 7


async def asking(shop: Workshop, payer: Payer) -> tuple[Action, Approval]:
    """A session whose worker died while it paid, and what it asks now."""
    await shop.create("m")
    await shop.until(SessionStatus.WAITING)
    said = await shop.say("buy it")
    await payer.gate.reached.wait()
    await shop.restart()
    return said, await question(shop)


async def question(shop: Workshop, count: int = 1) -> Approval:
    async def so() -> bool:
        return len((await list_approvals(shop.db)).items) == count

    await eventually(so)
    return (await list_approvals(shop.db)).items[0]


async def answer(shop: Workshop, asked: Approval, decision: str, result: Any = None) -> Action:
    return await approval_action(
        shop.db, asked.approval_id, ApprovalDecision(decision), result=result, session_id=asked.session_id
    )


async def test_a_call_in_flight_at_a_crash_is_not_made_again_but_asked_about(tmp_path: Path) -> None:
    payer = Payer()
    async with workshop(tmp_path, moniker("m", payer)) as shop:
        said, asked = await asking(shop, payer)
        assert (asked.session_id, asked.kind, asked.key) == ("s", "unsafe_call", "pay")
        assert "may have been made" in asked.question
        row, step = await shop.until(SessionStatus.WAITING), (await shop.steps())[-1]
        assert row.reason == asked.question
        assert (step.step_token, step.next_step_token, step.wait["kind"]) == ("2", "2", "approval")
        assert len(payer.payments) == 1
        assert not (await shop.action(said)).processed


@pytest.mark.parametrize(
    ("decision", "result", "payments", "text"),
    [("repeat", None, 2, "paid 7"), ("done", "paid by hand", 1, "paid by hand"), ("done", None, 1, None)],
)
async def test_what_a_person_says_is_done(
    tmp_path: Path, decision: str, result: Any, payments: int, text: str | None
) -> None:
    payer = Payer()
    async with workshop(tmp_path, moniker("m", payer)) as shop:
        said, asked = await asking(shop, payer)
        payer.gate.open()
        await shop.done(await answer(shop, asked, decision, result), said)
        assert payer.got == [(text, ["buy it"])]
        assert len(payer.payments) == payments
        assert set(payer.payments) == {"s:1:pay"}, "the tool is given the same key however often it is called"
        assert payer.lookups == 1, "a finished call before the unsafe one is read, not made again"
        assert (await list_approvals(shop.db)).items == ()
        with pytest.raises(NotFoundError):
            await get_approval(shop.db, asked.approval_id)


async def test_a_call_that_is_given_up_fails_the_step_and_a_resume_asks_again(tmp_path: Path) -> None:
    payer = Payer()
    async with workshop(tmp_path, moniker("m", payer)) as shop:
        said, asked = await asking(shop, payer)
        await shop.done(await answer(shop, asked, "fail"))
        await shop.error_of(said)
        assert "given up by a person" in ((await shop.until(SessionStatus.ERROR)).last_error or "")
        await shop.done(await shop.resume())
        again = await question(shop)
        assert again.approval_id != asked.approval_id
        await shop.done(await answer(shop, again, "done", "in cash"))
        await shop.until(SessionStatus.WAITING)
        await eventually(lambda: payer.got == [("in cash", [])])
        assert len(payer.payments) == 1


async def test_a_second_answer_is_refused(tmp_path: Path) -> None:
    payer = Payer()
    async with workshop(tmp_path, moniker("m", payer)) as shop:
        said, asked = await asking(shop, payer)
        payer.gate.open()
        first, second = await answer(shop, asked, "done", "one"), await answer(shop, asked, "repeat")
        await shop.done(first, said)
        assert "is not open: it was answered" in await shop.error_of(second)
        assert len(payer.payments) == 1


async def test_questions_and_answers_survive_restarts(tmp_path: Path) -> None:
    payer = Payer()
    async with workshop(tmp_path, moniker("m", payer)) as shop:
        said, asked = await asking(shop, payer)
        for restart in (shop.restart, shop.restart, shop.stop):
            await restart()
        assert (await list_approvals(shop.db)).items == (asked,)
        accepted = await answer(shop, asked, "done", "while nobody worked")
        await shop.start()
        await shop.done(accepted, said)
        assert payer.got == [("while nobody worked", ["buy it"])]


async def test_an_answer_whose_mark_was_lost_counts_once(tmp_path: Path) -> None:
    payer = Payer()
    async with workshop(tmp_path, moniker("m", payer)) as shop:
        _, asked = await asking(shop, payer)
        payer.gate.close()
        answered = await answer(shop, asked, "repeat")
        await shop.done(answered)
        await payer.gate.reached.wait()
        await shop.crash()
        await shop.open()
        await shop.lose_mark(answered)
        await shop.start()
        again = await question(shop)
        await shop.done(answered)
        assert again.approval_id != asked.approval_id
        assert len(payer.payments) == 2


async def test_a_second_approval_does_not_get_stuck(tmp_path: Path) -> None:
    """Two questions of one step, answered one after the other, and a third one of a later step."""
    gate = Gate()
    made: list[str] = []

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        async def call(name: str) -> str:
            made.append(name)
            await gate.passing()
            return name

        names = ("a", "b") if frame.step == "1" else ("c",)
        calls = [ctx.record(name, lambda name=name: call(name), safe_to_repeat=False) for name in names]
        found = await asyncio.gather(*calls, return_exceptions=True)
        for one in found:
            if isinstance(one, BaseException):
                raise one
        return out(frame, text="+".join(map(str, found)), done=frame.step == "2")

    async with workshop(tmp_path, moniker("m", body)) as shop:
        await shop.create("m")
        await eventually(lambda: sorted(made) == ["a", "b"])
        await shop.restart()
        await question(shop, 2)
        one, two = (await list_approvals(shop.db)).items
        await shop.done(await answer(shop, one, "done", "A"))
        assert [item.approval_id for item in (await list_approvals(shop.db)).items] == [two.approval_id]
        await shop.restart()
        await shop.done(await answer(shop, two, "done", "B"))
        await eventually(lambda: "c" in made)
        await shop.restart()
        await shop.done(await answer(shop, await question(shop), "done", "C"))
        await shop.until(SessionStatus.DONE)
        assert [text for text in await shop.texts() if text] == ["A+B", "C"]


async def test_nothing_but_an_answer_lets_it_go_on(tmp_path: Path) -> None:
    payer = Payer()
    async with workshop(tmp_path, moniker("m", payer)) as shop:
        said, asked = await asking(shop, payer)
        steps = len(await shop.steps())
        await shop.done(await shop.guide("hurry"), await shop.pause(), await shop.resume())
        later = await shop.say("later")
        await shop.queue_read()
        assert len(await shop.steps()) == steps
        assert await question(shop) == await get_approval(shop.db, asked.approval_id)
        payer.gate.open()
        await shop.done(await answer(shop, asked, "done", "x"), said, later)


async def test_a_session_that_asks_can_be_destroyed(tmp_path: Path) -> None:
    payer = Payer()
    async with workshop(tmp_path, moniker("m", payer)) as shop:
        said, asked = await asking(shop, payer)
        await shop.done(await shop.destroy())
        assert "is stopped" in await shop.error_of(said)
        assert (await list_approvals(shop.db)).items == ()
        assert await shop.error_of(await answer(shop, asked, "repeat"))


async def test_the_owner_is_checked_just_before_every_call(tmp_path: Path) -> None:
    async with bench(tmp_path) as desk:
        calls, call = counted()

        async def lost() -> None:
            raise MonikerError("another worker owns the session")

        ctx = desk.step()
        assert await ctx.record("safe", call) == 1
        ctx.calls.check_ownership = lost
        assert await ctx.record("safe", call) == 1  # it is read
        with pytest.raises(MonikerError, match="another worker"):
            await ctx.record("other", call)
        with pytest.raises(MonikerError, match="another worker"):
            await ctx.record("unsafe", call, safe_to_repeat=False)
        assert calls == [1]


async def test_the_runtimes_own_kinds_are_not_for_monikers(tmp_path: Path) -> None:
    async with bench(tmp_path) as desk:
        _, call = counted()
        with pytest.raises(MonikerError, match="the runtime's own"):
            await desk.step().record("key", call, kind="intent")


async def test_an_answer_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    payer = Payer()
    async with workshop(tmp_path, moniker("m", payer)) as shop:
        await asking(shop, payer)
        bad = await shop.ask(ActionKind.APPROVAL, "s", payload={"approval_id": "x", "decision": "maybe"})
        assert "decision" in await shop.error_of(bad, ActionStatus.FAILED)
