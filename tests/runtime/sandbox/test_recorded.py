"""Programs of a step through a real worker: they call the step's tools, and wait for people over restarts."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from monikers.catalogue import Catalogue
from runtime.approvals.port import Decision
from runtime.calls import RecordKind
from runtime.context import Services, StepContext, calls_of
from runtime.contract import MonikerError, StepFrame, StepOut, WaitForInput
from runtime.errors import SettingError
from runtime.guard.decision import Notary
from runtime.guard.fake import WordGate
from runtime.guard.guard import Guard, Placed
from runtime.guard.onstep import GuardService
from runtime.guard.port import Channel
from runtime.replay import replay_session
from runtime.sandbox import legs
from runtime.sandbox.errors import SandboxUnavailableError
from runtime.sandbox.fake import suspended_at
from runtime.sandbox.legs import MAX_SNAPSHOT_BYTES, Leg, leg_row, read_leg
from runtime.sandbox.port import Binding, Failed, FailureKind, Finished, Host, Outcome, Program
from runtime.sandbox.sealkey import FILE_NAME, SealKey
from runtime.sandbox.walls import Walls
from runtime.testing import FakeClock, FakeFiles
from runtime.tools.deployment import tool_offer
from runtime.tools.result import Call
from store.approvals import list_approvals
from store.ids import SessionId
from store.records import records_of
from tests.runtime.kit import Anything, KeptLog, Workshop, moniker, out, workshop
from tests.runtime.sandbox.kit import LoopClock
from tests.runtime.test_context import Bench, bench
from tests.runtime.test_unsafe_calls import answer as decided
from tests.runtime.tools import stepkit
from tests.runtime.tools.stepkit import answered, question, records, tools_file
from tests.runtime.tools.test_recorded import Shopping
from tests.support import eventually

pytestmark = pytest.mark.process
GRANTS = '[grants]\nm = ["look", "pay", "page", "ask_me", "run_python"]\n'


class Runs:
    """Runs one program when it is spoken to, and keeps its outcome."""

    def __init__(self, code: str, *functions: str) -> None:
        self.program = Program(code, functions=functions)
        self.outcomes: list[Outcome] = []

    async def __call__(self, ctx: Any, frame: StepFrame) -> StepOut:
        if frame.step == "1":
            return out(frame, wait=WaitForInput())
        outcome = await ctx.sandbox.run(self.program)
        self.outcomes.append(outcome)
        said = outcome.message if isinstance(outcome, Failed) else json.dumps(outcome.result)
        return out(frame, text=said, wait=WaitForInput())


class Shop:
    """A worker with some tools and one session that runs a program."""

    def __init__(
        self, folder: Path, runs: Any, grants: str = GRANTS, guard: GuardService | None = None, **settings: Any
    ) -> None:
        self.shopping = Shopping()
        self.guard = guard
        self.opened = workshop(folder, moniker("m", runs), start=False, tools=tools_file(folder, grants), **settings)

    async def __aenter__(self) -> tuple[Workshop, Shopping, Any]:
        shop = await self.opened.__aenter__()
        shop.tools, shop.guard = self.shopping.tools(), self.guard
        await shop.start()
        return shop, self.shopping, await stepkit.said(shop, stepkit.Caller())

    async def __aexit__(self, *error: Any) -> None:
        await self.opened.__aexit__(*error)


async def test_a_program_calls_the_tools_of_its_agent_and_each_call_is_a_record(tmp_path: Path) -> None:
    runs = Runs('[look(n)["at"] for n in ("a", "b")] + [pay(price=2)]', "look", "pay")
    async with Shop(tmp_path, runs) as (shop, shopping, action):
        await shop.done(action)
        assert isinstance(runs.outcomes[0], Finished)
        assert (await shop.texts())[-1] == '["a", "b", "paid 2"]'
        made = {row.key: row for row in await records(shop) if row.kind != RecordKind.INTENT}
        assert list(made) == [
            "sandbox:1:0.1:look",
            "sandbox:1:0.2:look",
            "sandbox:1:0.3:pay",
            "sandbox:1:0",
        ]
        leg = made["sandbox:1:0"]
        assert (leg.kind, leg.usage["outcome"], leg.usage["host_calls"]) == (RecordKind.SANDBOX, "finished", 3)
        assert shopping.paid == [("s:1:sandbox:1:0.3:pay", 2)]


async def test_a_program_waits_for_a_person_over_a_restart_and_goes_on_where_it_stood(tmp_path: Path) -> None:
    code = 'seen = look("a")["at"]\ndone = ask_me("fly to " + seen)\n[seen, done, pay(3)]'
    runs = Runs(code, "look", "ask_me", "pay")
    async with Shop(tmp_path, runs) as (shop, shopping, action):
        asked = await question(shop)
        assert asked.about["arguments"] == {"what": "fly to a"}
        assert asked.about["program"] == runs.program.fingerprint
        await shop.restart()
        shop.clock.leap(5 * 86_400)
        assert (shopping.agreed, shopping.paid) == ([], [])
        await shop.done(await answered(shop, await question(shop), Decision.APPROVE), action)
        assert (await shop.texts())[-1] == '["a", "did fly to a", "paid 3"]'
        assert shopping.looked == ["a"], "the program goes on; it does not begin again"
        assert (shopping.agreed, len(shopping.paid)) == (["fly to a"], 1)


@pytest.mark.parametrize(
    ("decision", "value", "agreed", "text"),
    [
        (Decision.EDIT, {"what": "walk"}, ["walk"], '"did walk"'),
        (Decision.EDIT, {"whom": "x"}, [], '"no: PermissionError"'),
        (Decision.REJECT, None, [], '"no: PermissionError"'),
        (Decision.RETRY, None, [], '"no: PermissionError"'),
    ],
)
async def test_a_person_may_change_or_forbid_a_programs_call(
    tmp_path: Path, decision: Decision, value: Any, agreed: list[str], text: str
) -> None:
    code = 'said = ""\ntry:\n    said = ask_me("fly")\nexcept PermissionError:\n    said = "no: PermissionError"\nsaid'
    async with Shop(tmp_path, Runs(code, "ask_me")) as (shop, shopping, action):
        await shop.done(await answered(shop, await question(shop), decision, value, "too far"), action)
        assert (await shop.texts())[-1] == text
        assert shopping.agreed == agreed


async def test_text_from_outside_gates_a_programs_later_calls_and_the_session_after_it(tmp_path: Path) -> None:
    async with Shop(tmp_path, Runs("a = pay(1)\np = page()\nb = pay(2)\n[a, p, b]", "pay", "page")) as parts:
        shop, shopping, action = parts
        asked = await question(shop)
        assert asked.about["arguments"] == {"price": 2}
        assert "web example.org" in asked.about["why"]
        assert [price for _, price in shopping.paid] == [1]
        await shop.done(await answered(shop, asked, Decision.APPROVE), action)
        assert [price for _, price in shopping.paid] == [1, 2]
        assert (await shop.state()).usage["taint"] == ["web example.org"]


async def test_a_crash_in_a_leg_reads_its_calls_and_asks_about_the_one_in_flight(tmp_path: Path) -> None:
    async with Shop(tmp_path, Runs('[look("a")["at"], pay(3), pay(4)]', "look", "pay")) as (shop, shopping, action):
        shopping.gate.close()
        shopping.waits = "pay"
        await shopping.gate.reached.wait()
        await shop.restart()
        asked = await question(shop)
        assert (asked.kind, asked.key) == ("unsafe_call", "sandbox:1:0.2:pay")
        shopping.gate.open()
        await shop.done(await decided(shop, asked, "done", "paid by hand"), action)
        assert (await shop.texts())[-1] == '["a", "paid by hand", "paid 4"]'
        assert shopping.looked == ["a"]
        assert [price for _, price in shopping.paid] == [3, 4]


async def test_a_snapshot_that_was_changed_in_the_store_is_not_loaded(tmp_path: Path) -> None:
    runs = Runs('ask_me("fly")', "ask_me")
    async with Shop(tmp_path, runs) as (shop, shopping, action):
        asked = await question(shop)
        await shop.stop()
        (leg,) = [row for row in await records(shop) if row.kind == RecordKind.SANDBOX]
        other = {**leg.result, "suspended": leg.result["suspended"].replace('"printed": ""', '"printed": "x"')}
        assert other != leg.result
        await records_of(shop.db).append(_changed(leg, other))
        await shop.start()
        await shop.done(await answered(shop, asked, Decision.APPROVE))
        await shop.done(action)
        (outcome,) = runs.outcomes
        assert isinstance(outcome, Failed)
        assert (outcome.kind, shopping.agreed) == (FailureKind.REFUSED, [])
        assert "was changed" in outcome.message


def _changed(leg: Any, result: Any) -> Any:
    fields = {name: getattr(leg, name) for name in leg.__slots__}
    return type(leg)(**{**fields, "id": "forged", "event_seq": leg.event_seq + 50, "result": result})


def guarding(*channels: Channel) -> GuardService:
    placed = [Placed(WordGate(), frozenset(channels))]
    return GuardService(Guard(placed, clock=FakeClock(), notary=Notary(b"k" * 16, str)))


BOTH = (Channel.TOOL_ARGUMENTS, Channel.TOOL_OUTPUT)


async def test_a_programs_calls_pass_the_gates_of_arguments_and_answers(tmp_path: Path) -> None:
    code = """
said = []
for at in ("HIDE it", "BLOCK ME", "b"):
    try:
        said.append(look(at)["at"])
    except PermissionError as error:
        said.append(str(error))
said
"""
    runs = Runs(code, "look")
    async with Shop(tmp_path, runs, guard=guarding(*BOTH)) as (shop, shopping, action):
        await shop.done(action)
        cut, blocked, plain = json.loads(str((await shop.texts())[-1]))
        assert (cut, plain) == ("[hidden] it", "b")
        assert "it was not run" in blocked
        assert "BLOCK ME" not in blocked
        assert shopping.looked == ["[hidden] it", "b"]
        gates = [row.key for row in await records(shop) if row.kind == RecordKind.GATE]
        assert gates[:2] == [f"gate:{channel}:sandbox:1:0.1:look" for channel in BOTH]


async def test_an_answer_that_a_gate_keeps_back_taints_the_session_all_the_same(tmp_path: Path) -> None:
    code = 'try:\n    p = page("BLOCK ME")\nexcept PermissionError:\n    p = "kept back"\n[p, pay(2)]'
    runs = Runs(code, "page", "pay")
    async with Shop(tmp_path, runs, guard=guarding(Channel.TOOL_OUTPUT)) as (shop, _, action):
        asked = await question(shop)
        assert (asked.kind, asked.about["arguments"]) == ("tool_call", {"price": 2})
        await shop.done(await answered(shop, asked, Decision.APPROVE), action)
        assert (await shop.texts())[-1] == '["kept back", "paid 2"]'
        assert (await shop.state()).usage["taint"] == ["web example.org"]


async def test_doubts_about_a_programs_call_and_its_answer_wait_for_people_over_restarts(tmp_path: Path) -> None:
    runs = Runs('a = look("a")["at"]\nb = ask_me("WORRY")\nc = look("c")["at"]\n[a, b, c]', "look", "ask_me")
    async with Shop(tmp_path, runs, guard=guarding(*BOTH)) as (shop, shopping, action):
        seen = []
        for _ in range(3):
            asked = await question(shop)
            seen.append((asked.kind, asked.about.get("channel")))
            await shop.restart()
            await answered(shop, await question(shop), Decision.APPROVE)
            await eventually(partial(_is_other, shop, asked))
        await shop.done(action)
        assert seen == [("concern", "tool_arguments"), ("tool_call", None), ("concern", "tool_output")]
        assert (await shop.texts())[-1] == '["a", "did WORRY", "c"]'
        assert (shopping.looked, shopping.agreed) == (["a", "c"], ["WORRY"]), "nothing was done twice"


async def _is_other(shop: Workshop, asked: Any) -> bool:
    return all(item.approval_id != asked.approval_id for item in (await list_approvals(shop.db)).items)


@pytest.mark.parametrize("channel", BOTH)
async def test_a_person_may_forbid_what_a_gate_has_doubts_about(tmp_path: Path, channel: Channel) -> None:
    code = 'said = ""\ntry:\n    said = look("WORRY")["at"]\nexcept PermissionError:\n    said = "forbidden"\nsaid'
    async with Shop(tmp_path, Runs(code, "look"), guard=guarding(channel)) as (shop, shopping, action):
        await shop.done(await answered(shop, await question(shop), Decision.REJECT), action)
        assert (await shop.texts())[-1] == '"forbidden"'
        assert shopping.looked == ([] if channel is Channel.TOOL_ARGUMENTS else ["WORRY"])


async def test_what_stands_at_a_question_and_holds_too_much_fails_and_asks_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(legs, "MAX_SNAPSHOT_BYTES", 10)
    runs = Runs('ask_me("fly")', "ask_me")
    async with Shop(tmp_path, runs) as (shop, shopping, action):
        await shop.done(action)
        (outcome,) = runs.outcomes
        assert isinstance(outcome, Failed)
        assert (outcome.kind, shopping.agreed) == (FailureKind.REFUSED, [])
        assert (await list_approvals(shop.db)).items == ()


@pytest.mark.usefixtures("walls")
async def test_full_mode_begins_again_with_the_answer_and_reads_what_was_done(tmp_path: Path) -> None:
    runs = Runs('a = look("a")["at"]\nb = ask_me("WORRY")\n[a, b]', "look", "ask_me")
    async with Shop(tmp_path, runs, guard=guarding(*BOTH), sandbox="full") as (shop, shopping, action):
        for _ in range(3):
            asked = await question(shop)
            await shop.restart()
            await answered(shop, asked, Decision.APPROVE)
            await eventually(partial(_is_other, shop, asked))
        await shop.done(action)
        assert (await shop.texts())[-1] == '["a", "did WORRY"]'
        assert (shopping.looked, shopping.agreed) == (["a"], ["WORRY"])


async def test_a_program_with_a_gated_call_is_replayed_the_same(tmp_path: Path) -> None:
    runs = Runs('[look("HIDE")["at"], ask_me("x")]', "look", "ask_me")
    async with Shop(tmp_path, runs, guard=guarding(*BOTH)) as (shop, _, action):
        await shop.done(await answered(shop, await question(shop), Decision.APPROVE), action)
        offer = tool_offer(shop.db, None, tmp_path)
        found = await replay_session(
            shop.db, Catalogue.of(moniker("m", runs)), FakeFiles(), SessionId("s"), tools=offer
        )
        assert found.difference is None


class Asks:
    """Has the model's program run as a tool."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.results: list[Any] = []

    async def __call__(self, ctx: Any, frame: StepFrame) -> StepOut:
        if frame.step == "1":
            return out(frame, wait=WaitForInput())
        result = await ctx.tools.call(Call(id="c", name="run_python", arguments={"code": self.code}))
        self.results.append(result)
        return out(frame, text=result.content, wait=WaitForInput())


async def test_a_model_runs_programs_by_a_tool_that_waits_as_they_do(tmp_path: Path) -> None:
    asks = Asks('print("hi")\n[page(), ask_me("x")]')
    async with Shop(tmp_path, asks) as (shop, shopping, action):
        asked = await question(shop)
        await shop.restart()
        await shop.done(await answered(shop, asked, Decision.APPROVE), action)
        (result,) = asks.results
        assert json.loads(result.content) == {"result": ["Buy now!", "did x"], "printed": "hi\n"}
        assert (result.ok, result.taint, shopping.agreed) == (True, ("web example.org",), ["x"])
        assert {row.key: row for row in await records(shop)}["tool:1:run_python"].usage["ok"]


async def test_a_program_that_fails_is_told_to_the_model(tmp_path: Path) -> None:
    asks = Asks("x = 1\nx + missing")
    async with Shop(tmp_path, asks) as (shop, _, action):
        await shop.done(action)
        assert not asks.results[0].ok
        assert "in line 2" in asks.results[0].content


async def test_tools_that_are_not_granted_are_no_functions(tmp_path: Path) -> None:
    asks = Asks("pay(1)")
    async with Shop(tmp_path, asks, '[grants]\nm = ["run_python"]\n') as (shop, shopping, action):
        await shop.done(action)
        assert not asks.results[0].ok
        assert shopping.paid == []


def context(on: Bench, walls: Walls) -> StepContext:
    services = Services(on.db, None, FakeFiles(), on.db.clock, KeptLog(), walls=walls)  # type: ignore[arg-type]
    return StepContext(services, calls_of(services, on.session, look_for_records=False), Anything())


async def test_without_bubblewrap_full_mode_refuses_and_runs_nothing(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    walls = Walls(LoopClock(), SealKey(None), mode="full", path=str(tmp_path / "nowhere"))
    async with bench(tmp_path / "store") as on:
        with pytest.raises(SandboxUnavailableError, match="install bubblewrap"):
            await context(on, walls).sandbox.run(Program(f"open({str(ran)!r}, 'w')"))
        assert not ran.exists()


async def test_a_function_that_is_not_granted_is_the_monikers_mistake(tmp_path: Path) -> None:
    walls = Walls(LoopClock(), SealKey(None, SecretStr("ab" * 32)))
    async with bench(tmp_path) as on:
        with pytest.raises(MonikerError, match="pay"):
            await context(on, walls).sandbox.run(Program("pay(1)", functions=("pay",)))


async def test_a_worker_runs_so_many_programs_at_once() -> None:
    walls = Walls(LoopClock(), SealKey(None, SecretStr("ab" * 32)), most_running=1)
    entered: list[str] = []
    leave = asyncio.Event()

    async def runs(name: str) -> None:
        async with walls.sandbox(Host(Binding(name))):
            entered.append(name)
            await leave.wait()

    tasks = [asyncio.create_task(runs(name)) for name in "ab"]
    await eventually(lambda: entered == ["a"])
    await asyncio.sleep(0)
    assert entered == ["a"]
    leave.set()
    await asyncio.gather(*tasks)
    assert entered == ["a", "b"]


def test_the_seals_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / FILE_NAME
    key = SealKey(file).read()
    assert (len(key), SealKey(file).read()) == (32, key)
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    assert SealKey(file, SecretStr("cd" * 40)).read() == bytes.fromhex("cd" * 40)


@pytest.mark.parametrize("text", ["", "ab", "no hex" * 20])
def test_a_key_that_cannot_be_used_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    file = tmp_path / FILE_NAME
    file.write_text(text)
    file.chmod(0o600)
    for key in (SealKey(file), SealKey(None, SecretStr(text or "0"))):
        with pytest.raises(SettingError, match="hexadecimal digits") as refused:
            key.read()
        assert not text or text not in str(refused.value)
    file.chmod(0o644)
    with pytest.raises(SettingError, match="chmod 600"):
        SealKey(file).read()
    with pytest.raises(SettingError, match="STEPWELL_SEAL_KEY"):
        SealKey(None).read()


def test_a_snapshot_that_is_too_large_ends_the_program() -> None:
    from_fake = _suspended(b"x" * (MAX_SNAPSHOT_BYTES + 1))
    leg = read_leg(leg_row(Leg(from_fake, ("web a",), "sandbox:1:0.1:send")))
    assert isinstance(leg.outcome, Failed)
    assert (leg.outcome.kind, leg.taint) == (FailureKind.REFUSED, ("web a",))
    stands = Leg(_suspended(b"x"), (), "sandbox:1:0.1:send")
    assert read_leg(leg_row(stands)) == stands


def _suspended(snapshot: bytes) -> Any:
    return replace(suspended_at("send", "ann"), snapshot=snapshot)
