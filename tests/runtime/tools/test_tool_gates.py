"""What a tool is called with and what it answers pass the gates; a doubt waits for a person."""

from __future__ import annotations

from pathlib import Path

from runtime.approvals.port import Decision
from runtime.guard.decision import Notary
from runtime.guard.fake import WordGate
from runtime.guard.guard import Guard, Placed
from runtime.guard.onstep import GuardService
from runtime.guard.port import Channel
from runtime.testing import FakeClock
from runtime.tools.result import ToolErrorKind
from tests.runtime.kit import workshop
from tests.runtime.tools.stepkit import Caller, answered, call, question, said, tools_file
from tests.runtime.tools.test_recorded import EVERYBODY, Shopping, started


def guarding(*channels: Channel) -> GuardService:
    placed = [Placed(WordGate(), frozenset(channels))]
    return GuardService(Guard(placed, clock=FakeClock(), notary=Notary(b"k" * 16, str)))


async def test_what_a_tool_answers_is_cut_kept_back_or_asked_about(tmp_path: Path) -> None:
    shopping = Shopping()
    caller = Caller(call("look", 1, at="HIDE it"), call("look", 2, at="BLOCK ME"), call("look", 3, at="WORRY"))
    async with workshop(tmp_path, caller.moniker(), start=False, tools=tools_file(tmp_path, EVERYBODY)) as shop:
        shop.guard = guarding(Channel.TOOL_OUTPUT)
        await started(shop, shopping)
        action = await said(shop, caller)
        asked = await question(shop)
        assert (asked.kind, asked.about["channel"]) == ("concern", "tool_output")
        await answered(shop, asked, Decision.APPROVE)
        await shop.done(action)
        cut, kept_back, let_in = caller.results[0]
        assert cut.content == '{"at":"[hidden] it"}'
        assert (kept_back.ok, kept_back.error) == (False, ToolErrorKind.NOT_PERMITTED)
        assert "BLOCK ME" not in kept_back.content
        assert let_in.content == '{"at":"WORRY"}'
        assert sorted(shopping.looked) == ["BLOCK ME", "HIDE it", "WORRY"], "each was called once"


async def test_what_a_tool_is_called_with_is_cut_or_not_let_out(tmp_path: Path) -> None:
    shopping = Shopping()
    caller = Caller(call("look", 1, at="HIDE it"), call("look", 2, at="BLOCK ME"))
    async with workshop(tmp_path, caller.moniker(), start=False, tools=tools_file(tmp_path, EVERYBODY)) as shop:
        shop.guard = guarding(Channel.TOOL_ARGUMENTS)
        await started(shop, shopping)
        await shop.done(await said(shop, caller))
        first, second = caller.results[0]
        assert first.content == '{"at":"[hidden] it"}'
        assert (second.ok, second.error) == (False, ToolErrorKind.NOT_PERMITTED)
        assert shopping.looked == ["[hidden] it"]
