"""Questions in the middle of a step: asked once, answered once, whatever happens in between."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from runtime.contract import MonikerError, StepFrame, StepOut, WaitForInput
from store.actions import Action
from store.agent_state import SessionStatus
from store.approvals import Approval, get_approval, list_approvals
from store.errors import NotFoundError
from store.records import Record, list_records
from tests.runtime.approvals.asker import FORM, PLAN, Asker, answer, asked, question
from tests.runtime.kit import Workshop, moniker, out, workshop
from tests.runtime.test_context import bench
from tests.support import eventually


async def asking(shop: Workshop, count: int = 1) -> tuple[Any, list[Approval]]:
    """A session that asks; the input that made it, and its questions."""
    await shop.create("m")
    await shop.until(SessionStatus.WAITING)
    said = await shop.say("dig a well")
    return said, await asked(shop, count)


DECIDED: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "agreed": (PLAN, "approve", {"by": "ana"}),
    "no": (PLAN, "reject", {"feedback": "too deep"}),
    "changed": (PLAN, "edit", {"value": ["dig"]}),
    "again": (PLAN, "retry", {"feedback": "think again"}),
    "filled": (FORM, "approve", {"value": {"depth": 7.5, "note": "dry"}}),
    "zero": (FORM, "edit", {"value": {"depth": 0}}),
    "concern": ({"kind": "concern", "question": "Is this fine?", "about": {"text": "<b>"}}, "approve", {}),
    "call": ({"kind": "tool_call", "question": "May it?", "editable": {"to": "x"}}, "edit", {"value": {"to": "y"}}),
    "money": ({"kind": "budget", "question": "More?", "editable": 5}, "edit", {"value": 10}),
}


async def test_every_kind_of_question_and_every_decision(tmp_path: Path) -> None:
    asker = Asker(**{key: asks for key, (asks, _, _) in DECIDED.items()})
    async with workshop(tmp_path, moniker("m", asker)) as shop:
        said, open_ones = await asking(shop, len(DECIDED))
        for one in open_ones:
            asks, decision, given = DECIDED[one.key or ""]
            assert (one.kind, one.question, one.about) == (asks["kind"], asks["question"], asks.get("about", {}))
            assert (one.editable, decision in one.decisions) == (asks.get("editable"), True)
            await shop.done(await answer(shop, one, decision, **given))
        await shop.done(said)
        ((answers, inputs),) = asker.got
        assert (inputs, asker.lookups) == (["dig a well"], 1)
        for key, (_, decision, given) in DECIDED.items():
            found = answers[key].model_dump(mode="json")
            nothing = {"value": None, "feedback": None, "by": None}
            assert found == {**nothing, **given, "decision": decision, "timed_out": False}
        assert (await list_approvals(shop.db)).items == ()
        with pytest.raises(NotFoundError):
            await get_approval(shop.db, open_ones[0].approval_id)


async def test_the_worker_refuses_what_does_not_fit_and_the_question_stays(tmp_path: Path) -> None:
    asker = Asker(matter=FORM)
    async with workshop(tmp_path, moniker("m", asker)) as shop:
        said, (one,) = await asking(shop)
        for decision, given, words in (
            ("done", {"result": 1}, "decision: 'done' is no answer"),
            ("approve", {"value": {"depth": "7"}}, "value.depth: give a number"),
            ("approve", {"value": {"depth": 7}, "digest": "0" * 32}, "asks something else"),
        ):
            assert words in await shop.error_of(await answer(shop, one, decision, **given))
        assert await asked(shop) == [one]
        await shop.done(await answer(shop, one, "reject"), said)
        assert asker.decisions == [{"matter": "reject"}]


async def test_the_first_answer_counts_and_the_second_is_told_so(tmp_path: Path) -> None:
    asker = Asker(matter=PLAN)
    async with workshop(tmp_path, moniker("m", asker)) as shop:
        said, (one,) = await asking(shop)
        first, second = await answer(shop, one, "approve"), await answer(shop, one, "reject")
        await shop.done(first, said)
        assert f"was answered 'approve' by action {first.id}" in await shop.error_of(second)
        assert asker.decisions == [{"matter": "approve"}]


async def test_one_of_several_answered_leaves_the_session_waiting(tmp_path: Path) -> None:
    asker = Asker(one=PLAN, two=FORM, three=PLAN)
    async with workshop(tmp_path, moniker("m", asker)) as shop:
        said, open_ones = await asking(shop, 3)
        assert [one.key for one in open_ones] == ["one", "two", "three"]
        before = (await shop.state()).updated_at
        await shop.done(await answer(shop, open_ones[1], "approve", value={"depth": 3}))
        assert (await shop.state()).updated_at > before, "a page sees by it that there is something to read"
        await shop.restart()
        left = await asked(shop, 2)
        assert [one.key for one in left] == ["one", "three"]
        await shop.done(await answer(shop, left[0], "retry"))
        assert asker.got == []
        await shop.restart()
        await shop.done(await answer(shop, left[1], "approve"), said)
        assert asker.decisions == [{"one": "retry", "two": "approve", "three": "approve"}]
        assert asker.lookups == 1


async def test_one_question_after_another_in_one_step(tmp_path: Path) -> None:
    """A second approval never gets stuck, and what was answered before it is kept."""
    calls: list[str] = []

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        if frame.step == "1":
            return out(frame, wait=WaitForInput())
        for number in range(4):
            got = await ctx.ask(f"q{number}", question(question=f"Number {number}?"))
            calls.append(f"{number} {got.decision.value}")
        return out(frame, text=" ".join(calls[-4:]), wait=WaitForInput())

    async with workshop(tmp_path, moniker("m", body)) as shop:
        said, (one,) = await asking(shop)
        for number, decision in enumerate(["approve", "reject", "retry"]):
            assert one.question == f"Number {number}?"
            await shop.done(await answer(shop, one, decision))
            (one,) = await asked(shop)
            await shop.restart()
        await shop.done(await answer(shop, one, "approve"), said)
        assert (await shop.texts())[-1] == "0 approve 1 reject 2 retry 3 approve"
        assert [step.wait and step.wait["kind"] for step in await shop.steps()] == [
            "input",
            *["approval"] * 4,
            "input",
        ]


async def test_what_is_asked_and_answered_survives_restarts_and_nobody_at_work(tmp_path: Path) -> None:
    asker = Asker(matter=PLAN)
    async with workshop(tmp_path, moniker("m", asker)) as shop:
        said, (one,) = await asking(shop)
        for restart in (shop.restart, shop.restart, shop.stop):
            await restart()
        assert await asked(shop) == [one]
        accepted = await answer(shop, one, "edit", value=["dig", "line", "fill"])
        await shop.start()
        await shop.done(accepted, said)
        assert asker.got[0][0]["matter"].value == ["dig", "line", "fill"]


async def answers_stored(shop: Workshop) -> list[Record]:
    steps = await shop.steps()
    found = [await list_records(shop.db, steps[0].session_id, number) for number in range(len(steps) + 2)]
    return [record for records in found for record in records if record.kind == "answer"]


@pytest.mark.parametrize("held", [("records",), ("agent_steps", "agent_state"), ()], ids=["before", "between", "after"])
async def test_a_crash_around_the_answer_and_it_counts_once(tmp_path: Path, held: tuple[str, ...]) -> None:
    """Before its record, between that and the session's row, after both; meanwhile somebody else answers too."""
    asker = Asker(matter=PLAN)
    async with workshop(tmp_path, moniker("m", asker)) as shop:
        said, (one,) = await asking(shop)
        async with AsyncExitStack() as stack:
            for table in held:
                await stack.enter_async_context(shop.writes_held(table))
            first = await answer(shop, one, "approve")
            await eventually(lambda: so_far(shop, held, first))
            await shop.crash(writing=False)
        await shop.open()
        second = await answer(shop, one, "reject")
        if (await shop.action(first)).processed:
            await shop.lose_mark(first)
        await shop.start()
        await shop.done(first, said)
        assert "not open" in await shop.error_of(second)
        assert {one["matter"] for one in asker.decisions} == {"approve"}
        assert [record.result["decision"] for record in await answers_stored(shop)] == ["approve"]


async def so_far(shop: Workshop, held: tuple[str, ...], first: Action) -> bool:
    """Whether the answer has got as far as it can while writes to some tables are held."""
    action = await shop.action(first)
    if held == ("records",):
        return waiting_writes(shop, "records")
    return action.processed if not held else len(await answers_stored(shop)) == 1


def waiting_writes(shop: Workshop, table: str) -> bool:
    """Whether rows are handed to a table and not stored yet."""
    return shop.store.tables[table]._appends._flushing is not None


async def test_a_failed_step_that_is_resumed_keeps_its_answer(tmp_path: Path) -> None:
    tries: list[str] = []

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        got = await ctx.ask("matter", question())
        tries.append(got.decision.value)
        if len(tries) == 1:
            raise MonikerError("not yet")
        return out(frame, text=got.decision.value, done=True)

    async with workshop(tmp_path, moniker("m", body)) as shop:
        await shop.create("m")
        (one,) = await asked(shop)
        await shop.done(await answer(shop, one, "approve"))
        await shop.until(SessionStatus.ERROR)
        await shop.done(await shop.resume())
        await shop.until(SessionStatus.DONE)
        assert tries == ["approve", "approve"]


async def test_the_kind_of_the_runtimes_own_question_is_not_for_monikers(tmp_path: Path) -> None:
    async with bench(tmp_path) as desk:
        with pytest.raises(MonikerError, match="asked by the runtime only"):
            await desk.step().ask("x", question(kind="unsafe_call"))


async def test_a_paused_session_takes_an_answer_and_goes_on_when_resumed(tmp_path: Path) -> None:
    asker = Asker(matter=PLAN)
    async with workshop(tmp_path, moniker("m", asker)) as shop:
        said, (one,) = await asking(shop)
        await shop.done(await shop.pause())
        assert await asked(shop) == [one]
        await shop.done(await answer(shop, one, "approve"))
        assert (asker.got, (await shop.state()).status) == ([], SessionStatus.PAUSED)
        await shop.done(await shop.resume(), said)
        assert asker.decisions == [{"matter": "approve"}]
