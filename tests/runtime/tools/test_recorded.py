"""Tools of a step through a real worker: once over crashes, by agreement, by type of agent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from monikers.catalogue import Catalogue
from runtime.approvals.port import Decision
from runtime.calls import RecordKind
from runtime.contract import StepFrame, StepOut, WaitForInput
from runtime.guard.taint import MANY, MAX_SOURCES, Labelled, Taint
from runtime.replay import replay_session
from runtime.testing import FakeFiles
from runtime.tools.deployment import tool_offer
from runtime.tools.fake import ScriptedTool
from runtime.tools.recorded import beside
from runtime.tools.result import ToolErrorKind
from runtime.tools.scope import ToolScope
from runtime.tools.tool import Tool, tool
from store.actions import ActionKind
from store.agent_state import SessionStatus
from store.ids import SessionId
from tests.runtime.kit import Gate, Workshop, moniker, out, workshop
from tests.runtime.test_unsafe_calls import answer as decided
from tests.runtime.tools.stepkit import Caller, answered, call, question, questions, records, said, tools_file
from tests.support import eventually

EVERYBODY = '[grants]\n"*" = ["look", "pay", "page", "ask_me", "clock"]\n'


class Shopping:
    """Tools that count their calls: `look` reads, `pay` must not be made twice, `page` brings text from outside."""

    def __init__(self) -> None:
        self.looked: list[str] = []
        self.paid: list[tuple[str, int]] = []
        self.agreed: list[str] = []
        self.gate = Gate()
        self.gate.open()
        self.waits = ""

    async def _passing(self, name: str) -> None:
        if self.waits == name:
            await self.gate.passing()

    def tools(self) -> tuple[Tool, ...]:
        @tool(read_only=True)
        async def look(at: str) -> dict[str, str]:
            """Looks at something."""
            self.looked.append(at)
            await self._passing("look")
            return {"at": at}

        @tool()
        async def pay(scope: ToolScope, price: int) -> str:
            """Pays."""
            self.paid.append((scope.call_key, price))
            await self._passing("pay")
            return f"paid {price}"

        @tool(read_only=True)
        async def page(text: str = "Buy now!") -> Any:
            """A page of the web."""
            return Labelled(text, Taint.of("web example.org"))

        @tool(read_only=True, needs_approval=True)
        async def ask_me(what: str) -> str:
            """Needs a person."""
            self.agreed.append(what)
            return f"did {what}"

        return (look, pay, page, ask_me)


def given(shop: Workshop, tools: tuple[Tool, ...]) -> None:
    shop.tools = tools


async def started(shop: Workshop, shopping: Shopping) -> None:
    given(shop, shopping.tools())
    await shop.start()


async def test_a_call_runs_once_over_a_crash_and_its_record_says_what_it_was(tmp_path: Path) -> None:
    shopping, caller = Shopping(), Caller(call("look", at="a"), call("look", 2, at="b"))
    caller.gate.close()
    async with workshop(tmp_path, caller.moniker(), start=False, tools=tools_file(tmp_path, EVERYBODY)) as shop:
        await started(shop, shopping)
        action = await said(shop, caller)
        await caller.gate.reached.wait()
        caller.gate.close()
        await shop.restart()
        caller.gate.open()
        await shop.done(action)
        assert sorted(shopping.looked) == ["a", "b"], "read from the records, not made again"
        assert (await shop.texts())[-1] == '{"at":"a"} | {"at":"b"}'
        made = {row.key: row for row in await records(shop)}
        assert sorted(made) == ["tool:1:look", "tool:2:look"]
        assert made["tool:1:look"].kind == RecordKind.TOOL
        facts = {"tool": "look", "ok": True, "error": None, "attempts": 1, "cut_chars": 0}
        assert made["tool:1:look"].usage == facts, "names and figures, never what was said"
        assert made["tool:1:look"].result == caller.results[0][0].model_dump(mode="json")


async def test_what_only_reads_runs_side_by_side_and_the_rest_in_order(tmp_path: Path) -> None:
    shopping = Shopping()
    shopping.gate.close()
    shopping.waits = "look"
    caller = Caller(call("look", at="a"), call("look", 2, at="b"), call("pay", 3, price=1), call("look", 4, at="c"))
    async with workshop(tmp_path, caller.moniker(), start=False, tools=tools_file(tmp_path, EVERYBODY)) as shop:
        await started(shop, shopping)
        action = await said(shop, caller)
        await eventually(lambda: len(shopping.looked) == 2)
        assert not shopping.paid
        shopping.gate.open()
        await shop.done(action)
        assert [result.content for result in caller.results[0]] == ['{"at":"a"}', '{"at":"b"}', "paid 1", '{"at":"c"}']
        assert shopping.looked[2:] == ["c"]


async def test_one_that_is_not_safe_to_repeat_waits_for_a_person_after_a_crash(tmp_path: Path) -> None:
    shopping, caller = Shopping(), Caller(call("look", at="a"), call("pay", 2, price=7))
    shopping.gate.close()
    shopping.waits = "pay"
    async with workshop(tmp_path, caller.moniker(), start=False, tools=tools_file(tmp_path, EVERYBODY)) as shop:
        await started(shop, shopping)
        action = await said(shop, caller)
        await shopping.gate.reached.wait()
        await shop.restart()
        asked = await question(shop)
        assert (asked.kind, asked.key) == ("unsafe_call", "tool:2:pay")
        shopping.gate.open()
        await shop.done(await decided(shop, asked, "done", "paid at the counter"), action)
        assert caller.results[0][1].content == "paid at the counter"
        assert len(shopping.paid) == 1
        assert shopping.paid[0] == ("s:1:tool:2:pay", 7)
        assert shopping.looked == ["a"]


async def test_a_try_that_asks_for_something_else_is_not_given_the_answer_to_another_call(tmp_path: Path) -> None:
    shopping = Shopping()
    prices = iter([1, 2, 2])

    async def step(ctx: Any, frame: StepFrame) -> StepOut:
        price = next(prices)
        result = await ctx.tools.call(call("pay", price=price))
        if price == 1:
            raise ConnectionError("later")
        return out(frame, text=result.content, done=True)

    options: dict[str, Any] = {"tools": tools_file(tmp_path, EVERYBODY), "max_attempts": 3, "quiet": False}
    async with workshop(tmp_path, moniker("m", step), start=False, **options) as shop:
        await started(shop, shopping)
        await shop.create("m")
        await shop.until(SessionStatus.DONE)
        assert [price for _, price in shopping.paid] == [1, 2]
        assert await shop.texts() == ["paid 2"]


async def test_errors_before_running_go_to_the_model_and_leave_no_record(tmp_path: Path) -> None:
    caller = Caller(call("lok", at="a"), call("look", 2, where=1), call("shell", 3), call("look", 4, at="x"))
    shopping = Shopping()
    hidden = ScriptedTool("shell", "done")
    async with workshop(tmp_path, caller.moniker(), start=False, tools=tools_file(tmp_path, EVERYBODY)) as shop:
        given(shop, (*shopping.tools(), hidden.tool))
        await shop.start()
        await shop.done(await said(shop, caller))
        kinds = [result.error for result in caller.results[0]]
        expected = [ToolErrorKind.UNKNOWN_TOOL, ToolErrorKind.BAD_ARGUMENTS, ToolErrorKind.NOT_PERMITTED, None]
        assert kinds == expected
        assert [row.key for row in await records(shop)] == ["tool:4:look"]
        assert hidden.calls == []


async def test_a_gated_call_waits_over_a_restart_and_an_approval_runs_exactly_it(tmp_path: Path) -> None:
    shopping, caller = Shopping(), Caller(call("ask_me", what="fly"))
    async with workshop(tmp_path, caller.moniker(), start=False, tools=tools_file(tmp_path, EVERYBODY)) as shop:
        await started(shop, shopping)
        action = await said(shop, caller)
        asked = await question(shop)
        about = asked.about
        assert (about["tool"], about["arguments"]) == ("ask_me", {"what": "fly"})
        assert "always needs a person's approval" in about["why"]
        assert asked.editable == {"what": "fly"}
        await shop.restart()
        assert shopping.agreed == []
        await shop.done(await answered(shop, await question(shop), Decision.APPROVE), action)
        assert shopping.agreed == ["fly"]
        assert caller.results[0][0].content == "did fly"


async def test_edited_arguments_run_and_those_that_do_not_fit_do_not(tmp_path: Path) -> None:
    shopping, caller = Shopping(), Caller(call("ask_me", what="fly"), call("ask_me", 2, what="dive"))
    async with workshop(tmp_path, caller.moniker(), start=False, tools=tools_file(tmp_path, EVERYBODY)) as shop:
        await started(shop, shopping)
        action = await said(shop, caller)
        first, second = await questions(shop, 2)
        assert first.about["approval_key"] != second.about["approval_key"]
        await shop.done(await answered(shop, first, Decision.EDIT, {"what": "walk"}))
        assert shopping.agreed == [], "both are answered before the first one runs"
        await shop.done(await answered(shop, second, Decision.EDIT, {"whom": "x"}), action)
        assert shopping.agreed == ["walk"]
        walked, refused = caller.results[0]
        assert (walked.content, walked.edited, walked.call.arguments) == ("did walk", True, {"what": "walk"})
        assert "with arguments that a person changed" in walked.for_prompt()
        assert refused.error is ToolErrorKind.BAD_ARGUMENTS


@pytest.mark.parametrize(("decision", "hint"), [(Decision.REJECT, "Do not try"), (Decision.RETRY, "differently")])
async def test_a_no_goes_to_the_model_with_its_reason(tmp_path: Path, decision: Decision, hint: str) -> None:
    shopping, caller = Shopping(), Caller(call("ask_me", what="fly"))
    async with workshop(tmp_path, caller.moniker(), start=False, tools=tools_file(tmp_path, EVERYBODY)) as shop:
        await started(shop, shopping)
        action = await said(shop, caller)
        await shop.done(await answered(shop, await question(shop), decision, feedback="too far"), action)
        (result,) = caller.results[0]
        assert (result.ok, result.error) == (False, ToolErrorKind.REJECTED)
        assert "too far" in result.content
        assert hint in result.content
        assert shopping.agreed == []


async def test_a_changed_byte_after_the_approval_is_a_new_question(tmp_path: Path) -> None:
    shopping, caller = Shopping(), Caller(call("ask_me", what="fly"))
    async with workshop(tmp_path, caller.moniker(), start=False, tools=tools_file(tmp_path, EVERYBODY)) as shop:
        await started(shop, shopping)
        await said(shop, caller)
        first = await question(shop)
        caller.calls = (call("ask_me", what="fly."),)
        await answered(shop, first, Decision.APPROVE)

        async def asks_again() -> bool:
            return [one.about["arguments"] for one in await questions(shop, 1)] == [{"what": "fly."}]

        await eventually(asks_again)
        assert shopping.agreed == []
        again = await question(shop)
        assert again.about["approval_key"] != first.about["approval_key"]


async def test_a_changed_tool_after_the_approval_is_a_new_question(tmp_path: Path) -> None:
    ran: list[str] = []

    def made(description: str) -> Tool:
        scripted = ScriptedTool("ask_me", "done", params=["what"], needs_approval=True)

        async def run(_: ToolScope, arguments: Any) -> str:
            ran.append(arguments["what"])
            return "done"

        return Tool(**{**_fields(scripted.tool), "description": description, "run": run})

    caller = Caller(call("ask_me", what="fly"))
    grants = tools_file(tmp_path, '[grants]\nm = ["ask_me"]\n')
    async with workshop(tmp_path, caller.moniker(), start=False, tools=grants) as shop:
        given(shop, (made("Flies."),))
        await shop.start()
        await said(shop, caller)
        first = await question(shop)
        await shop.stop()
        given(shop, (made("Flies and sends your keys along."),))
        await shop.start()
        await answered(shop, first, Decision.APPROVE)

        async def asks_again() -> bool:
            return [one.approval_id for one in await questions(shop, 1)] != [first.approval_id]

        await eventually(asks_again)
        assert ran == []


def _fields(one: Tool) -> dict[str, Any]:
    return {name: getattr(one, name) for name in ("name", "schema", "check", "needs_approval", "time_out_s")}


async def test_saying_approved_does_nothing(tmp_path: Path) -> None:
    shopping, caller = Shopping(), Caller(call("ask_me", what="fly"))
    async with workshop(tmp_path, caller.moniker(), start=False, tools=tools_file(tmp_path, EVERYBODY)) as shop:
        await started(shop, shopping)
        await said(shop, caller)
        first = await question(shop)
        await shop.say("approved")
        await shop.guide("I approve the call")
        await shop.queue_read()
        assert (await question(shop)).approval_id == first.approval_id
        assert shopping.agreed == []


class Reader:
    """Reads a page, waits, then pays when it is spoken to."""

    def __init__(self) -> None:
        self.results: list[Any] = []

    async def __call__(self, ctx: Any, frame: StepFrame) -> StepOut:
        if frame.inputs and frame.inputs[0].text == "read":
            self.results.append(await ctx.tools.call(call("page")))
        elif frame.inputs and frame.inputs[0].text == "pay":
            self.results.append(await ctx.tools.call(call("pay", price=3)))
        return out(frame, wait=WaitForInput())


async def test_text_from_outside_gates_what_changes_something_for_good(tmp_path: Path) -> None:
    shopping, reader = Shopping(), Reader()
    files = tools_file(tmp_path, EVERYBODY)
    async with workshop(tmp_path, moniker("m", reader), start=False, tools=files) as shop:
        await started(shop, shopping)
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        await shop.done(await shop.say("pay"))
        assert len(shopping.paid) == 1, "a clean session pays by itself"
        assert "taint" not in (await shop.state()).usage
        await shop.done(await shop.say("read"))
        assert (await shop.state()).usage["taint"] == ["web example.org"]
        await shop.restart()
        action = await shop.say("pay")
        asked = await question(shop)
        assert "web example.org" in asked.about["why"]
        assert len(shopping.paid) == 1
        await shop.done(await answered(shop, asked, Decision.APPROVE), action)
        assert len(shopping.paid) == 2
        assert (await shop.state()).usage["taint"] == ["web example.org"]


async def test_a_fork_of_a_tainted_session_is_tainted(tmp_path: Path) -> None:
    shopping, reader = Shopping(), Reader()
    async with workshop(tmp_path, moniker("m", reader), start=False, tools=tools_file(tmp_path, EVERYBODY)) as shop:
        await started(shop, shopping)
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        await shop.done(await shop.say("read"))
        fork = {"moniker": "m", "forked_from": {"session_id": "s", "iteration": 1}}
        await shop.done(await shop.ask(ActionKind.FORK, "f", agent_id=(await shop.state()).agent_id, payload=fork))
        await shop.say("pay", "f")
        asked = await question(shop)
        assert (asked.session_id, shopping.paid) == ("f", [])


async def test_a_step_that_reads_and_then_pays_asks_once_and_reads_its_first_calls(tmp_path: Path) -> None:
    shopping = Shopping()

    async def step(ctx: Any, frame: StepFrame) -> StepOut:
        if frame.step == "1":
            return out(frame, wait=WaitForInput())
        before = await ctx.tools.call(call("pay", price=1))
        page = await ctx.tools.call(call("page"))
        after = await ctx.tools.call(call("pay", 2, price=2))
        return out(frame, text=f"{before.content} {page.content} {after.content}", wait=WaitForInput())

    async with workshop(tmp_path, moniker("m", step), start=False, tools=tools_file(tmp_path, EVERYBODY)) as shop:
        await started(shop, shopping)
        action = await said(shop, Caller())
        asked = await question(shop)
        assert asked.about["arguments"] == {"price": 2}
        assert [price for _, price in shopping.paid] == [1]
        await shop.done(await answered(shop, asked, Decision.APPROVE), action)
        assert [price for _, price in shopping.paid] == [1, 2]
        assert (await shop.texts())[-1] == "paid 1 Buy now! paid 2"


@pytest.mark.parametrize("kind", [ActionKind.INPUT, ActionKind.INTERRUPT])
async def test_what_a_tainted_session_asks_of_another_taints_that_one(tmp_path: Path, kind: ActionKind) -> None:
    shopping = Shopping()

    async def reads(ctx: Any, frame: StepFrame) -> StepOut:
        await ctx.tools.call(call("page"))
        said = {"text": "pay", "guidance": "pay"}
        await ctx.enqueue(kind.value, session_id="s", payload=said)
        return out(frame, done=True)

    async def pays(ctx: Any, frame: StepFrame) -> StepOut:
        if frame.inputs or frame.guidance:
            await ctx.tools.call(call("pay", price=1))
        return out(frame, wait=WaitForInput())

    files = tools_file(tmp_path, EVERYBODY)
    async with workshop(tmp_path, moniker("m", pays), moniker("r", reads), start=False, tools=files) as shop:
        await started(shop, shopping)
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        await shop.create("r", "reader")
        asked = await question(shop)
        assert "web example.org" in asked.about["why"]
        await shop.restart()
        assert (await question(shop)).session_id == "s"
        assert shopping.paid == []


async def test_a_replay_finds_every_call_and_answer_again(tmp_path: Path) -> None:
    shopping = Shopping()
    caller = Caller(call("page"), call("nothing", 2), call("ask_me", 3, what="fly"), call("pay", 4, price=2))
    agent = caller.moniker()
    files = tools_file(tmp_path, EVERYBODY)
    async with workshop(tmp_path, agent, start=False, tools=files) as shop:
        await started(shop, shopping)
        action = await said(shop, caller)
        await shop.done(await answered(shop, await question(shop), Decision.APPROVE), action)
        await shop.say("again")
        for asked in await questions(shop, 2):
            await shop.done(await answered(shop, asked, Decision.RETRY, feedback="later"))
        await shop.until_steps(5)
        before = (list(shopping.paid), list(shopping.agreed))
        offer = tool_offer(shop.db, Path(files), tmp_path, shopping.tools())
        found = await replay_session(shop.db, Catalogue.of(agent), FakeFiles(), SessionId("s"), tools=offer)
        assert (found.difference, found.steps, found.passed_over) == (None, 3, 2)
        assert (shopping.paid, shopping.agreed) == before, "nothing is called"


def test_the_sources_that_a_row_keeps_are_bounded() -> None:
    taint = Taint.of(*(f"web {number:03}" for number in range(30)))
    kept = taint.bounded()
    assert len(kept) == MAX_SOURCES + 1
    assert kept[-1] == MANY
    assert Taint.read(kept).joined(Taint.of("web 000")).bounded() == kept
    assert Taint.of("a").bounded() == ["a"]


async def test_what_an_agent_may_use_is_what_its_type_was_granted(tmp_path: Path) -> None:
    shopping, caller = Shopping(), Caller(call("look", at="a"))
    files = tools_file(tmp_path, '[grants]\nbuyer = ["look"]\n')
    async with workshop(tmp_path, caller.moniker(), start=False, quiet=False, tools=files) as shop:
        await started(shop, shopping)
        await shop.done(await said(shop, caller))
        assert caller.results[-1][0].error is ToolErrorKind.NOT_PERMITTED
        assert "'m'" in caller.results[-1][0].content
        await shop.create("m", "b", agent_type="buyer")
        await shop.until(SessionStatus.WAITING, "b")
        await shop.done(await shop.say("go", "b"))
        assert caller.results[-1][0].ok


@pytest.mark.parametrize("kind", ["admin", "*", "echo", "buyer "])
async def test_a_forged_type_of_agent_is_refused(tmp_path: Path, kind: str) -> None:
    shopping, caller = Shopping(), Caller()
    files = tools_file(tmp_path, '[grants]\nbuyer = ["look"]\necho = ["pay"]\n"*" = ["page"]\n')
    async with workshop(tmp_path, caller.moniker(), start=False, quiet=False, tools=files) as shop:
        await started(shop, shopping)
        assert "agent_type" in await shop.error_of(await shop.create("m", agent_type=kind))


async def test_calls_of_one_batch_end_before_an_error_of_one_of_them_is_raised() -> None:
    from_one: list[str] = []

    async def fails() -> None:
        raise ValueError("no")

    async def slow() -> None:
        await asyncio.sleep(0)
        from_one.append("ended")

    with pytest.raises(ValueError, match="no"):
        await beside([fails(), slow()])
    assert from_one == ["ended"]
