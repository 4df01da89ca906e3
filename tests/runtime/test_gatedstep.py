"""The gates around every step: what is blocked, redacted, doubted or not judged at all, before a moniker and after."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from monikers.catalogue import Catalogue
from runtime.approvals.port import Answer, Decision
from runtime.contract import Moniker, StepFrame, StepInput, StepOut, WaitForInput
from runtime.gatedstep import BLOCKED_INPUT, BLOCKED_OUTPUT, gated_step
from runtime.guard.decision import Notary
from runtime.guard.fake import ScriptedGate, ScriptedModel, WordGate
from runtime.guard.guard import Cost, Guard, Placed
from runtime.guard.judge import JudgeGate
from runtime.guard.judging import Principle
from runtime.guard.onstep import GuardService
from runtime.guard.port import Channel, Gate, RuleId, Severity
from runtime.guard.secretsgate import Secrets, SecretsGate
from runtime.llm.port import LlmError, LlmErrorKind
from runtime.replay import replay_session
from runtime.stepcalls import AwaitsPersonError, asked_key
from runtime.testing import FakeClock, FakeFiles
from store.agent_state import SessionStatus
from store.agent_steps import StepStatus
from store.approvals import list_approvals
from store.ids import SessionId
from store.records import Record, append_record, list_records
from tests.runtime.kit import Workshop, moniker, out, workshop
from tests.runtime.test_context import bench
from tests.support import eventually

S = SessionId("s")


def guarding(gate: Gate, *channels: Channel, keeps_all: bool = True, cost: Cost = Cost.TEXT) -> GuardService:
    placed = [Placed(gate, frozenset(channels or Channel), cost)]
    return GuardService(Guard(placed, clock=FakeClock(), notary=Notary(b"k" * 16, str)), keeps_all)


class Speaker:
    """Waits for inputs and says each again; remembers what it heard and what it said."""

    def __init__(self, **more: Any) -> None:
        self.heard: list[Any] = []
        self.more = more

    async def __call__(self, ctx: Any, frame: StepFrame) -> StepOut:
        self.heard += [item.text for item in frame.inputs]
        if frame.guidance is not None:
            self.heard.append(frame.guidance)
        if not frame.inputs and frame.guidance is None:
            return out(frame, wait=WaitForInput())
        said = " ".join(item.text for item in frame.inputs) or str(frame.guidance)
        if said == "bye":
            return out(frame, text=said, done=True)
        return out(frame, text=said, state={"said": said}, wait=WaitForInput(), **self.more)


@asynccontextmanager
async def guarded(folder: Path, guard: GuardService, speaker: Moniker[Any], **settings: Any) -> AsyncIterator[Workshop]:
    """A session of `speaker` that waits for input, with a guard."""
    async with workshop(folder, speaker, start=False, quiet=False, **settings) as shop:
        shop.guard = guard
        await shop.start()
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        yield shop
        await replayed_the_same(shop, speaker)


async def replayed_the_same(shop: Workshop, speaker: Moniker[Any]) -> None:
    """A replay needs no gate: it reads what they decided."""
    found = await replay_session(shop.db, Catalogue.of(speaker), FakeFiles(), S)
    assert found.difference is None


async def gates_recorded(shop: Workshop) -> list[Record]:
    steps = await shop.steps()
    rows = await list_records(shop.db, S, len(steps), since_iteration=0)
    return [row for row in rows if row.kind == "gate"]


async def test_a_blocked_input_does_not_reach_the_moniker_and_its_turn_ends_well(tmp_path: Path) -> None:
    body = Speaker()
    async with guarded(tmp_path, guarding(WordGate()), moniker("m", body)) as shop:
        await shop.done(await shop.say("BLOCK ME"))
        step = (await shop.steps())[-1]
        assert (step.text, step.status) == (BLOCKED_INPUT, StepStatus.WAITING)
        assert step.data == {"blocked": True, "rule": "scripted", "channel": "input"}
        assert body.heard == []
        await shop.done(await shop.say("hello"))
        assert body.heard == ["hello"]
        await shop.done(await shop.say("bye"))  # a replay must not take the end's wait for the blocked step's
        await shop.until(SessionStatus.DONE)
        (first, *_) = await gates_recorded(shop)
        assert first.usage["decisions"][0]["verdict"] == "block"
        assert "BLOCK ME" not in str(first)


async def test_guidance_passes_the_same_gate(tmp_path: Path) -> None:
    body = Speaker()
    async with guarded(tmp_path, guarding(WordGate()), moniker("m", body)) as shop:
        await shop.done(await shop.guide({"text": "BLOCK ME"}), await shop.guide({"text": "please HIDE it"}))
        await eventually(lambda: len(body.heard) == 1)
        assert body.heard == [{"text": "please [hidden] it"}]
        await shop.until_steps(3)


async def test_a_redacted_input_reaches_the_moniker_redacted(tmp_path: Path) -> None:
    body = Speaker()
    async with guarded(tmp_path, guarding(WordGate(), Channel.INPUT), moniker("m", body)) as shop:
        await shop.done(await shop.say("the word is HIDE, really"))
        assert body.heard == ["the word is [hidden], really"]


async def test_a_blocked_answer_is_stored_nowhere(tmp_path: Path) -> None:
    body = Speaker(notes="BLOCK ME too", data={"answer": "BLOCK ME"})
    async with guarded(tmp_path, guarding(WordGate(), Channel.OUTPUT), moniker("m", body)) as shop:
        await shop.done(await shop.say("a text of some length with BLOCK ME in it"))
        step = (await shop.steps())[-1]
        assert (step.text, step.notes, step.state) == (BLOCKED_OUTPUT, None, {"said": BLOCKED_OUTPUT})
        assert step.data == {"blocked": True, "rule": "scripted", "channel": "output"}


async def test_an_answer_is_redacted_in_text_data_and_state(tmp_path: Path) -> None:
    body = Speaker(data={"HIDE": ["x HIDE"], "n": 1})
    async with guarded(tmp_path, guarding(WordGate(), Channel.OUTPUT), moniker("m", body)) as shop:
        await shop.done(await shop.say("say HIDE please"))
        step = (await shop.steps())[-1]
        assert (step.text, step.state) == ("say [hidden] please", {"said": "say [hidden] please"})
        assert step.data == {"[hidden]": ["x [hidden]"], "n": 1}


async def test_a_concern_waits_for_a_person(tmp_path: Path) -> None:
    body = Speaker()
    async with guarded(tmp_path, guarding(WordGate()), moniker("m", body)) as shop:
        said = await shop.say("WORRY")
        await eventually(lambda: _asked(shop))
        (asked,) = (await list_approvals(shop.db)).items
        assert (asked.kind, body.heard) == ("concern", [])
        assert "what was said to this session" in asked.question
        assert not (await shop.action(said)).processed


async def _asked(shop: Workshop) -> bool:
    return len((await list_approvals(shop.db)).items) == 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(decision=Decision.APPROVE), "WORRY"),
        (Answer(decision=Decision.EDIT, value="calm"), "calm"),
        (Answer(decision=Decision.REJECT), BLOCKED_INPUT),
    ],
)
async def test_what_a_person_says_to_a_concern(tmp_path: Path, answer: Answer, said: str) -> None:
    body, frame = Speaker(), StepFrame(step="1", inputs=(StepInput(text="WORRY"),))
    async with bench(tmp_path) as at:
        object.__setattr__(at.services, "guard", guarding(WordGate(), Channel.INPUT))
        at.session.wait = WaitForInput()
        first = at.step()
        with pytest.raises(AwaitsPersonError):
            await gated_step(moniker("m", body), first, frame)
        await answered(at, first.questions[0], answer)
        found = await gated_step(moniker("m", body), at.step(again=True), frame)
        assert (found.text, found.wait) == (said, WaitForInput())


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(decision=Decision.APPROVE), "WORRY"),
        (Answer(decision=Decision.EDIT, value="calm"), "calm"),
        (Answer(decision=Decision.REJECT), BLOCKED_OUTPUT),
    ],
)
async def test_what_a_person_says_to_a_concern_about_an_answer(tmp_path: Path, answer: Answer, said: str) -> None:
    body, frame = Speaker(), StepFrame(step="1", inputs=(StepInput(text="WORRY"),))
    async with bench(tmp_path) as at:
        object.__setattr__(at.services, "guard", guarding(WordGate(), Channel.OUTPUT))
        first = at.step()
        with pytest.raises(AwaitsPersonError):
            await gated_step(moniker("m", body), first, frame)
        await answered(at, first.questions[0], answer)
        found = await gated_step(moniker("m", body), at.step(again=True), frame)
        assert (found.text, found.state) == (said, {"said": said})


async def test_of_several_inputs_the_blocked_ones_are_left_out(tmp_path: Path) -> None:
    body = Speaker()
    inputs = tuple(StepInput(text=text) for text in ("one", "BLOCK ME", "HIDE two"))
    async with bench(tmp_path) as at:
        object.__setattr__(at.services, "guard", guarding(WordGate(), Channel.INPUT))
        await gated_step(moniker("m", body), at.step(), StepFrame(step="1", inputs=inputs))
    assert body.heard == ["one", "[hidden] two"]


async def test_a_key_and_its_value_in_data_are_judged_together(tmp_path: Path) -> None:
    heard: list[Any] = []

    async def step(ctx: Any, frame: StepFrame) -> StepOut:
        heard.append(frame.inputs[0])
        return out(frame)

    guard = guarding(SecretsGate(Secrets()), Channel.INPUT)
    given = StepInput(text="sign in", data={"user": "ann", "password": "correct-horse-7-battery"})
    async with bench(tmp_path) as at:
        object.__setattr__(at.services, "guard", guard)
        await gated_step(moniker("m", step), at.step(), StepFrame(step="1", inputs=(given,)))
    (item,) = heard
    assert item.text == "sign in"
    assert item.data["user"] == "ann"
    assert "battery" not in str(item.data)


async def test_an_answer_counts_for_the_text_that_was_shown_and_no_other(tmp_path: Path) -> None:
    async with bench(tmp_path) as at:
        object.__setattr__(at.services, "guard", guarding(WordGate(), Channel.INPUT))
        first = at.step()
        with pytest.raises(AwaitsPersonError):
            await first.guard.admit("WORRY one", Channel.INPUT, "x")
        await answered(at, first.questions[0], Answer(decision=Decision.APPROVE))
        with pytest.raises(AwaitsPersonError):
            await at.step(again=True).guard.admit("WORRY two", Channel.INPUT, "x")


async def answered(at: Any, question: dict[str, Any], answer: Answer) -> None:
    """Store an answer as the handler of approvals does."""
    record = Record(
        id="answer",
        created_at=at.db.clock.now(),
        session_id=at.session.session_id,
        iteration=0,
        event_seq=90,
        key=asked_key(question["key"]),
        kind="answer",
        digest=question["digest"],
        result=answer.model_dump(mode="json"),
        usage=None,
        latency_ms=0.0,
        epoch=1,
    )
    await append_record(at.db, record)


async def test_a_gate_that_fails_closed_loses_no_input(tmp_path: Path) -> None:
    gate, body = ScriptedGate(answers=[RuntimeError("away"), RuntimeError("away")]), Speaker()
    async with guarded(tmp_path, guarding(gate, Channel.INPUT), moniker("m", body), max_attempts=2) as shop:
        said = await shop.say("hello")
        row = await shop.until(SessionStatus.ERROR)
        assert "the gate scripted has no verdict on a text of channel input (failed.raised" in (row.last_error or "")
        assert (len(gate.seen), body.heard) == (2, [])
        await shop.ended(said)
        await shop.done(await shop.resume())
        await eventually(lambda: body.heard == ["hello"])
        await shop.until(SessionStatus.WAITING)


async def test_a_judge_is_not_paid_twice_and_what_it_used_is_counted(tmp_path: Path) -> None:
    model = ScriptedModel(["<OK/>", LlmError(LlmErrorKind.SERVER, "no"), "<OK/>"])
    principle = Principle(RuleId("p"), "p", "be kind", Severity.HIGH)
    judge = JudgeGate(model, (principle,), lambda: "n0nce1234567")
    body = Speaker()
    guard = guarding(judge, Channel.INPUT, Channel.OUTPUT, keeps_all=False, cost=Cost.MODEL)
    async with guarded(tmp_path, guard, moniker("m", body), max_attempts=3) as shop:
        await shop.done(await shop.say("hello"))
        assert [request.purpose for request in model.requests] == ["guard.judge"] * 3, "input, output, output again"
        assert (await shop.steps())[-1].text == "hello"
        (first, second) = await gates_recorded(shop)
        assert (first.key, second.key) == ("gate:input:1", "gate:output:1")


async def test_checks_that_say_nothing_and_cost_nothing_leave_no_record(tmp_path: Path) -> None:
    guard = guarding(WordGate(), keeps_all=False)
    async with guarded(tmp_path, guard, moniker("m", Speaker())) as shop:
        await shop.done(await shop.say("hello"))
        assert await gates_recorded(shop) == []
        await shop.done(await shop.say("HIDE"))
        assert [row.usage["outcome"] for row in await gates_recorded(shop)] == ["passed"]


async def test_a_moniker_with_gates_of_its_own_is_left_alone(tmp_path: Path) -> None:
    async def step(ctx: Any, frame: StepFrame) -> StepOut:
        if not frame.inputs:
            return out(frame, wait=WaitForInput())
        admitted = await ctx.guard.admit(frame.inputs[0].text, Channel.TOOL_OUTPUT, "tool:x")
        return out(frame, text=f"{frame.inputs[0].text}|{admitted.text}", wait=WaitForInput())

    async with guarded(tmp_path, guarding(WordGate()), moniker("m", step, gates="own")) as shop:
        await shop.done(await shop.say("HIDE"))
        assert (await shop.steps())[-1].text == "HIDE|[hidden]"
