"""Whatever a tool does, its caller gets a result; only the caller's own cancel passes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from runtime.llm.port import ToolCall
from runtime.testing import FakeClock, FakeLog
from runtime.tools.approving import approval_key
from runtime.tools.calling import Backoff, call_tool
from runtime.tools.errors import MayPass, ToolFailed
from runtime.tools.fake import FakeToolbox, ScriptedTool
from runtime.tools.native import native_call
from runtime.tools.result import Call, ToolErrorKind, ToolResult
from runtime.tools.scope import AgentType, ToolName, ToolScope
from runtime.tools.tool import Tool, tool
from runtime.tools.toolbox import Toolbox
from tests.runtime.tools.kit import TOOLS, WORKER, Middle, backoff, clock, scope, shell

BOX = Toolbox(TOOLS, {WORKER: [ToolName("clock"), ToolName("shell"), ToolName("search")]})


def a_call(name: str, **arguments: Any) -> Call:
    """A call of one tool."""
    return Call(id="call-1", name=name, arguments=arguments)


async def called(one: Tool | ScriptedTool, at: ToolScope | None = None, **arguments: Any) -> ToolResult:
    """Call one tool that everybody may use."""
    box = FakeToolbox(one)
    (name,) = box.tools
    return await call_tool(box, a_call(name, **arguments), at or scope(), backoff())


# --- what is not run ---


async def test_it_runs() -> None:
    result = await call_tool(BOX, a_call("clock", zone="CET"), scope(), backoff())
    assert result == ToolResult(call=a_call("clock", zone="CET"), ok=True, content="CET", attempts=1)


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        (a_call("clok"), ToolErrorKind.UNKNOWN_TOOL, "did you mean 'clock'?"),
        (a_call("nothing_like_it"), ToolErrorKind.UNKNOWN_TOOL, "you may use clock, search, shell"),
        (a_call("file_system", action="list"), ToolErrorKind.NOT_PERMITTED, "may not use file_system"),
        (a_call("clock", zone=1), ToolErrorKind.BAD_ARGUMENTS, "zone: Input should be a valid string, found 1"),
        (a_call("clock", zoen="x"), ToolErrorKind.BAD_ARGUMENTS, "zoen: there is no such parameter; there are zone"),
        (a_call("shell", command="x"), ToolErrorKind.NEEDS_APPROVAL, "a person has to agree"),
    ],
)
async def test_what_may_not_run_is_told(call: Call, kind: ToolErrorKind, said: str) -> None:
    result = await call_tool(BOX, call, scope(), backoff())
    assert (result.ok, result.error, result.attempts) == (False, kind, 0)
    assert said in result.content


async def test_other_types_of_agents_may_use_nothing() -> None:
    result = await call_tool(BOX, a_call("clock"), scope(agent_type=AgentType("guest")), backoff())
    assert result.error is ToolErrorKind.NOT_PERMITTED


async def test_a_changed_tool_is_off() -> None:
    box = Toolbox([clock], {WORKER: [clock.name]}, pins={clock.name: "another"})
    assert (await call_tool(box, a_call("clock"), scope(), backoff())).error is ToolErrorKind.CHANGED


async def test_a_result_survives_json() -> None:
    result = await call_tool(BOX, a_call("shell", command="x"), scope(), backoff())
    assert ToolResult.model_validate_json(result.model_dump_json()) == result


# --- approvals (S33) ---


async def test_an_approved_call_runs() -> None:
    call = a_call("shell", command="ls")
    asked = await call_tool(BOX, call, scope(), backoff())
    key = approval_key(shell, call, scope())
    assert asked.approval_key == key
    result = await call_tool(BOX, call, scope(), backoff(), approved={key})
    assert (result.ok, result.content) == (True, "ls")


@pytest.mark.parametrize(
    ("call", "at"),
    [
        (a_call("shell", command="ls "), scope()),
        (a_call("shell", command="ls"), scope(session_id="session-2")),
        (a_call("shell", command="ls"), scope(agent_id="agent-2")),
        (a_call("shell", command="ls"), scope(call_key="session-1:4:call-1")),
    ],
)
async def test_an_approval_is_for_one_call(call: Call, at: ToolScope) -> None:
    key = approval_key(shell, a_call("shell", command="ls"), scope())
    assert (await call_tool(BOX, call, at, backoff(), approved={key})).error is ToolErrorKind.NEEDS_APPROVAL


async def test_an_approval_ends_when_the_tool_changes() -> None:
    call = a_call("shell", command="ls")
    changed = replace(shell, description="Runs it twice.")
    box = Toolbox([changed], {WORKER: [changed.name]})
    result = await call_tool(box, call, scope(), backoff(), approved={approval_key(shell, call, scope())})
    assert result.error is ToolErrorKind.NEEDS_APPROVAL


# --- failures ---


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ToolFailed("no such page; list them first"), "no such page; list them first."),
        (ValueError("odd"), "ValueError: odd"),
        (ZeroDivisionError(), "ZeroDivisionError"),
        (SystemExit(3), "SystemExit: 3"),
        (GeneratorExit(), "GeneratorExit"),
        (RecursionError("deep"), "deep"),
        (StopAsyncIteration("x"), "x"),
        (ExceptionGroup("two", [ValueError("a"), ValueError("b")]), "two"),
        (ToolFailed("\ud800"), "?"),
        (ToolFailed(""), "without saying why"),
        (ToolFailed("x" * 100_000), "xxx"),
    ],
)
async def test_a_failure_is_data(error: BaseException, said: str) -> None:
    result = await called(ScriptedTool("broken", error))
    assert (result.ok, result.error, result.attempts) == (False, ToolErrorKind.FAILED, 1)
    assert said in result.content
    assert len(result.content) < 2_000
    result.content.encode()


async def test_a_tool_that_raises_cancelled_does_not_cancel_the_turn() -> None:
    result = await called(ScriptedTool("odd", asyncio.CancelledError()))
    assert result.error is ToolErrorKind.FAILED
    assert "gave up by itself" in result.content
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0


async def test_a_tool_that_cancels_its_own_task_fails_alone() -> None:
    @tool()
    async def suicide() -> None:
        """Cancels itself."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.Event().wait()

    assert (await called(suicide)).error is ToolErrorKind.FAILED


async def test_people_are_told_of_what_broke_and_not_of_what_a_tool_said() -> None:
    log = FakeLog()
    await called(ScriptedTool("broken", ValueError("odd")), scope(log=log))
    await called(ScriptedTool("polite", ToolFailed("no")), scope(log=log))
    assert [fields["tool"] for _, _, fields in log.lines] == ["broken"]


# --- tries ---


@pytest.mark.parametrize("error", [MayPass("busy"), ConnectionError("gone"), TimeoutError("slow")])
async def test_what_may_pass_is_tried_again(error: Exception) -> None:
    time, one = FakeClock(), ScriptedTool("flaky", error, error, "done", read_only=True)
    result = await called(one, scope(clock=time))
    assert (result.ok, result.content, result.attempts) == (True, "done", 3)
    assert time.slept == [0.25, 0.5]


async def test_the_delays_are_full_jitter() -> None:
    chance, one = Middle(), ScriptedTool("flaky", *[MayPass("busy")] * 9, idempotent=True, max_attempts=9)
    result = await call_tool(FakeToolbox(one), a_call("flaky"), scope(), Backoff(chance, base_s=1, cap_s=10))
    assert result.error is ToolErrorKind.FAILED
    assert chance.asked == [(0.0, limit) for limit in (1, 2, 4, 8, 10, 10, 10, 10)]


async def test_what_is_not_safe_to_repeat_is_tried_once() -> None:
    one = ScriptedTool("pay", ConnectionError("gone"), "paid twice")
    result = await called(one)
    assert (result.error, result.attempts, len(one.calls)) == (ToolErrorKind.FAILED, 1, 1)
    assert "look before you repeat it" in result.content


async def test_what_will_not_pass_is_tried_once() -> None:
    one = ScriptedTool("page", ToolFailed("no such page"), "never", read_only=True)
    assert (await called(one)).attempts == 1


async def test_a_tool_may_say_when_to_come_back() -> None:
    time = FakeClock()
    await called(ScriptedTool("busy", MayPass("busy", retry_after_s=7), "done", read_only=True), scope(clock=time))
    assert time.slept == [7]


async def test_a_wait_that_is_too_long_is_left_to_the_model() -> None:
    time = FakeClock()
    one = ScriptedTool("busy", MayPass("busy until tomorrow", retry_after_s=86_400), "never", read_only=True)
    result = await called(one, scope(clock=time))
    assert (result.content, time.slept) == ("busy until tomorrow.", [])


async def test_every_try_has_the_same_call_key() -> None:
    one = ScriptedTool("flaky", MayPass("busy"), "done", idempotent=True)
    await called(one)
    assert [at.call_key for at in one.scopes] == ["session-1:3:call-1"] * 2


# --- time ---


def endless(left: asyncio.Event, **flags: Any) -> Tool:
    """A tool that never ends by itself and notes when it is cancelled."""

    @tool(time_out_s=0.02, **flags)
    async def endless() -> None:
        """Waits for ever."""
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    return endless


async def test_a_slow_tool_is_cancelled() -> None:
    left = asyncio.Event()
    result = await called(endless(left))
    assert (result.error, result.attempts, left.is_set()) == (ToolErrorKind.TIMED_OUT, 1, True)
    assert "0.02 s" in result.content
    assert "look before you repeat it" in result.content


async def test_a_slow_tool_is_tried_again_when_that_is_safe() -> None:
    result = await called(endless(asyncio.Event(), read_only=True, max_attempts=2))
    assert (result.error, result.attempts) == (ToolErrorKind.TIMED_OUT, 2)


async def test_a_tool_that_does_not_listen_is_left_alone_and_not_repeated() -> None:
    release, ended, log = asyncio.Event(), asyncio.Event(), FakeLog()

    @tool(time_out_s=0.01, read_only=True)
    async def deaf() -> None:
        """Does not listen."""
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        ended.set()
        raise ValueError("too late")

    result = await call_tool(FakeToolbox(deaf), a_call("deaf"), scope(log=log), backoff(grace_s=0.01))
    assert (result.error, result.attempts) == (ToolErrorKind.TIMED_OUT, 1)
    assert log.lines[-1][0] == "warning"
    release.set()
    await asyncio.wait_for(ended.wait(), 5)


async def test_a_tool_that_answers_while_it_is_cancelled_is_still_late() -> None:
    @tool(time_out_s=0.01)
    async def stubborn() -> str:
        """Answers too late."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "late"
        return "never"

    assert (await called(stubborn)).error is ToolErrorKind.TIMED_OUT


async def test_the_callers_cancel_passes_and_takes_the_tool_along() -> None:
    begun, left = asyncio.Event(), asyncio.Event()

    @tool(time_out_s=30)
    async def long() -> None:
        """Takes long."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    turn = asyncio.ensure_future(called(long))
    await asyncio.wait_for(begun.wait(), 5)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert left.is_set()


# --- answers ---


@pytest.mark.parametrize(
    ("answer", "content"),
    [("text", "text"), ({"a": [1, None]}, '{"a":[1,null]}'), (None, "null"), (3, "3"), ("", ""), ("\ud800", "?")],
)
async def test_an_answer_is_text(answer: Any, content: str) -> None:
    result = await called(ScriptedTool("one", answer))
    assert (result.ok, result.content) == (True, content)


async def test_a_long_text_is_cut_and_says_so() -> None:
    result = await called(ScriptedTool("long", "x" * 12_345, output_chars=1_000))
    assert result.ok
    assert result.cut_chars == 11_345
    assert result.content == "x" * 1_000 + "\n[11,345 of 12,345 characters are cut here; ask for a smaller part]"


async def test_a_text_of_just_the_limit_is_whole() -> None:
    result = await called(ScriptedTool("just", "x" * 1_000, output_chars=1_000))
    assert (result.content, result.cut_chars) == ("x" * 1_000, 0)


async def test_cut_json_is_an_error() -> None:
    result = await called(ScriptedTool("long", ["x"] * 1_000, output_chars=100))
    assert (result.ok, result.error, result.cut_chars) == (False, ToolErrorKind.OUTPUT_TOO_LARGE, 3_901)
    assert "4,001 characters" in result.content


async def test_an_answer_that_is_no_data_is_an_error() -> None:
    result = await called(ScriptedTool("odd", object()))
    assert result.error is ToolErrorKind.FAILED
    assert "type object" in result.content


async def test_an_answer_that_holds_itself_is_an_error() -> None:
    knot: list[Any] = []
    knot.append(knot)
    assert (await called(ScriptedTool("knot", knot))).error is ToolErrorKind.FAILED


# --- the fakes, and native calls ---


async def test_a_scripted_tool_keeps_its_calls() -> None:
    one = ScriptedTool("find", "a", "b", params=["query"])
    assert (await called(one, query="x")).content == "a"
    assert (await called(one, query="y")).content == "b"
    assert one.calls == [{"query": "x"}, {"query": "y"}]
    assert "no answer left for call 3" in (await called(one)).content
    assert (await called(one, other="x")).error is ToolErrorKind.BAD_ARGUMENTS


def test_a_native_call() -> None:
    found = native_call(ToolCall(id="7", name="clock", arguments='{"zone": "CET"}'))
    assert found == Call(id="7", name="clock", arguments={"zone": "CET"})
    assert native_call(ToolCall(id="7", name="clock", arguments="")) == Call(id="7", name="clock")


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "3", "null", "{'a': 1}", "[" * 100_000, "1" * 5_000, '{"a": NaN}', '{"a":' * 65 + "1" + "}" * 65],
)
def test_native_arguments_that_are_no_object(text: str) -> None:
    found = native_call(ToolCall(id="7", name="clock", arguments=text))
    assert isinstance(found, ToolResult)
    assert found.error is ToolErrorKind.BAD_ARGUMENTS
    assert len(found.content) < 500
