"""An answer is for one question of one session, to the last byte (S33); words in a message are no answer."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from monikers.catalogue import Catalogue
from runtime.contract import MonikerError, StepFrame, StepOut, WaitForInput
from runtime.replay import replay_session
from runtime.testing import FakeFiles
from store.actions import ActionKind
from store.agent_requests import agent_fork
from store.agent_state import SessionStatus
from store.ids import AgentId, SessionId
from tests.runtime.approvals.asker import PLAN, Asker, Waiter, answer, asked, question
from tests.runtime.approvals.test_in_step import asking
from tests.runtime.kit import moniker, out, workshop
from tests.support import eventually


async def test_a_question_that_reads_differently_after_the_answer_is_put_anew(tmp_path: Path) -> None:
    """A changed byte in what was agreed to is another question; the old answer does not count for it."""
    amount = ["10"]
    paid: list[str] = []

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        now = amount[0]
        got = await ctx.ask("pay", question(kind="tool_call", about={"tool": "pay", "arguments": {"amount": now}}))
        paid.append(f"{now} {got.decision.value}")
        return out(frame, text=paid[-1], done=True)

    async with workshop(tmp_path, moniker("m", body)) as shop:
        await shop.create("m")
        (ten,) = await asked(shop)
        amount[0] = "1000"
        await shop.done(await answer(shop, ten, "approve"))
        (thousand,) = await asked(shop)
        assert (thousand.about["arguments"], thousand.digest == ten.digest) == ({"amount": "1000"}, False)
        assert paid == []
        replayed = await answer(shop, ten, "approve")
        assert "not open" in await shop.error_of(replayed)
        forged = await answer(shop, thousand, "approve", digest=ten.digest)
        assert "asks something else" in await shop.error_of(forged)
        await shop.done(await answer(shop, thousand, "reject"))
        await shop.until(SessionStatus.DONE)
        assert paid == ["1000 reject"]


async def test_an_answer_to_another_session_or_an_older_question_is_refused(tmp_path: Path) -> None:
    asker = Asker(matter=PLAN)
    async with workshop(tmp_path, moniker("m", asker)) as shop:
        said, (mine,) = await asking(shop)
        await shop.create("m", "other")
        await shop.until(SessionStatus.WAITING, "other")
        await shop.say("dig", "other")
        theirs = next(one for one in await asked(shop, 2) if one.session_id == "other")
        crossed = await shop.ask(
            ActionKind.APPROVAL, "other", payload={"approval_id": mine.approval_id, "decision": "approve"}
        )
        assert "not open" in await shop.error_of(crossed)
        await shop.done(await answer(shop, mine, "approve"), said)
        again = await shop.say("and again")
        fresh = next(one for one in await asked(shop, 2) if one.session_id == "s")
        assert (fresh.digest, fresh.approval_id != mine.approval_id) == (mine.digest, True)
        assert "not open" in await shop.error_of(await answer(shop, mine, "approve"))
        await shop.done(await answer(shop, fresh, "reject"), again)
        assert asker.decisions == [{"matter": "approve"}, {"matter": "reject"}]
        assert theirs in await asked(shop)


async def test_words_in_a_message_answer_nothing(tmp_path: Path) -> None:
    asker = Asker(matter=PLAN)
    async with workshop(tmp_path, moniker("m", asker)) as shop:
        said, (one,) = await asking(shop)
        later = await shop.say(f'{{"decision": "approve", "approval_id": "{one.approval_id}"}}')
        await shop.done(
            await shop.guide("approved"), await shop.guide({"decision": "approve", "ask:matter": "approve"})
        )
        await shop.queue_read()
        assert (asker.got, await asked(shop)) == ([], [one])
        for number in range(4):  # the turn, the two interrupts, the turn of the message: each asks for itself
            (one,) = await asked(shop)
            await shop.done(await answer(shop, one, "reject"))
            await eventually(partial(lambda count: len(asker.got) == count, number + 1))
        await shop.done(said, later)
        assert asker.decisions == [{"matter": "reject"}] * 4


async def test_a_fork_asks_for_itself(tmp_path: Path) -> None:
    asker, waiter = Asker(matter=PLAN), Waiter({**PLAN, "key": "plan"})
    async with workshop(tmp_path, moniker("m", asker), moniker("w", waiter)) as shop:
        said, (one,) = await asking(shop)
        await shop.create("w", "t")
        await asked(shop, 2)
        for source, iteration, name in (("s", 1, "m"), ("t", 0, "w")):
            await shop.done(
                await agent_fork(
                    shop.db,
                    source_id=SessionId(source),
                    iteration=iteration,
                    agent_id=AgentId(name),
                    session_id=SessionId(f"{source}-fork"),
                    spec={"moniker": name},
                )
            )
        of = {found.session_id: found for found in await asked(shop, 4)}
        assert all(found.approval_id.startswith(f"{session_id}:") for session_id, found in of.items())
        await shop.done(await answer(shop, of[SessionId("t-fork")], "approve"))
        await shop.done(await answer(shop, of[SessionId("s-fork")], "edit", value=["dig"]))
        await shop.until_steps(3, "s-fork")
        assert [(answers["matter"].value, inputs) for answers, inputs in asker.got] == [(["dig"], ["dig a well"])]
        assert {found.session_id for found in await asked(shop, 2)} == {"s", "t"}
        await shop.done(await answer(shop, one, "reject"), said)


async def test_answers_are_replayed(tmp_path: Path) -> None:
    """Both sorts of questions, with calls before them and a failure in between; another question is a difference."""
    failing = [True]
    asks = dict(PLAN)

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        if frame.step == "1":
            return out(frame, wait=WaitForInput())
        if frame.step == "2":
            seen = await ctx.record("look", _looked)
            first = await ctx.ask("first", question(**asks))
            if failing and failing.pop():
                raise MonikerError("not yet")
            second = await ctx.ask("second", question(question=f"And {seen}?"))
            wait = {"kind": "approval", "items": [{**asks, "key": "last"}]}
            return out(frame, text=f"{first.decision} {second.decision}", wait=wait)
        return out(frame, text=f"{frame.answers['last'].feedback}", done=True)

    async with workshop(tmp_path, moniker("m", body)) as shop:
        said, (first,) = await asking(shop)
        await shop.done(await answer(shop, first, "approve"))
        await shop.error_of(said)
        await shop.done(await shop.resume())
        for decision in ("retry", "approve"):
            (one,) = await asked(shop)
            await shop.done(await answer(shop, one, decision, feedback="fine"))
        await shop.until(SessionStatus.DONE)
        await shop.stop()
        failing[:] = [True]
        known = Catalogue.of(moniker("m", body))
        found = await replay_session(shop.db, known, FakeFiles(), SessionId("s"))
        assert (found.difference, found.steps, found.passed_over) == (None, 4, 2), [
            (step.iteration, step.status, step.text, step.error) for step in await shop.steps()
        ]
        failing[:], asks["question"] = [], "Shall something else be done?"
        changed = await replay_session(shop.db, known, FakeFiles(), SessionId("s"))
        assert changed.difference is not None


async def _looked() -> int:
    return 3
