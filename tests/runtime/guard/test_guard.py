"""The round through the gates: order, what stops it, and that no gate can break it or let a text slip by."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.guard.decision import Notary, VerdictName
from runtime.guard.fake import Hang, ScriptedGate, WordGate
from runtime.guard.guard import Cost, Guard, Placed
from runtime.guard.judgement import Outcome
from runtime.guard.port import (
    AgentType,
    Allow,
    Block,
    Channel,
    Concern,
    Failed,
    FailureKind,
    GateName,
    Passage,
    Redact,
    RuleId,
    Severity,
    Span,
    Verdict,
)
from runtime.guard.secretsgate import Secrets
from runtime.testing import FakeClock
from store.clock import SystemClock
from tests.support import eventually, examples

RULE = RuleId("r")
SECRET = "velvet-otter-9917"
EVERYWHERE = frozenset(Channel)


def passage(text: str = "hello", channel: Channel = Channel.INPUT, agent_type: str = "worker") -> Passage:
    return Passage(text, channel, AgentType(agent_type), "user:1")


def gate(*answers: Any, name: str = "scripted", fail_closed: bool = True) -> ScriptedGate:
    return ScriptedGate(list(answers), name=GateName(name), fail_closed=fail_closed)


def guard(*placed: Placed | ScriptedGate) -> Guard:
    notary = Notary(b"k" * 16, Secrets({"S": SECRET}).redact)
    each = [one if isinstance(one, Placed) else Placed(one, EVERYWHERE, timeout_s=0.05) for one in placed]
    return Guard(each, clock=SystemClock(), notary=notary)


async def test_a_text_that_every_gate_allows_passes_as_it_is() -> None:
    judgement = await guard(gate(name="a"), gate(name="b")).check(passage())
    assert (judgement.outcome, judgement.text) == (Outcome.PASSED, "hello")
    assert [decision.gate for decision in judgement.decisions] == ["a", "b"]


async def test_cheap_gates_are_asked_first_and_the_model_last() -> None:
    model, text, numbers = gate(name="model"), gate(name="text"), gate(name="numbers")
    placed = [
        Placed(model, EVERYWHERE, Cost.MODEL),
        Placed(text, EVERYWHERE, Cost.TEXT),
        Placed(numbers, EVERYWHERE, Cost.NUMBERS),
    ]
    judgement = await guard(*placed).check(passage())
    assert [decision.gate for decision in judgement.decisions] == ["text", "numbers", "model"]


async def test_the_first_block_ends_the_round() -> None:
    last = gate(name="last")
    judgement = await guard(gate(Block("no", RULE), name="first"), last).check(passage())
    assert (judgement.outcome, judgement.text, judgement.block) == (Outcome.BLOCKED, "", Block("no", RULE))
    assert last.seen == []


async def test_a_concern_goes_on_and_a_later_block_counts_more() -> None:
    concern = Concern("hm", RULE, Severity.LOW)
    judgement = await guard(gate(concern, name="a"), gate(name="b")).check(passage())
    assert (judgement.outcome, judgement.concerns, judgement.text) == (Outcome.CONCERN, (concern,), "hello")
    blocked = await guard(gate(concern, name="a"), gate(Block("no", RULE), name="b")).check(passage())
    assert (blocked.outcome, blocked.concerns) == (Outcome.BLOCKED, (concern,))


async def test_later_gates_see_the_text_without_what_was_cut_out() -> None:
    later = gate(name="later")
    first = Placed(WordGate(), EVERYWHERE)
    judgement = await guard(first, later).check(passage("a HIDE b HIDE"))
    assert judgement.text == "a [hidden] b [hidden]"
    assert [one.text for one in later.seen] == ["a [hidden] b [hidden]"]
    assert [(mark.start, mark.end) for mark in judgement.decisions[0].marks] == [(2, 6), (9, 13)]


async def test_gates_stand_by_channel_and_agent_type() -> None:
    only = gate(name="only")
    placed = Placed(only, frozenset({Channel.OUTPUT}), agent_types=frozenset({AgentType("coder")}))
    check = guard(placed).check
    await check(passage(channel=Channel.INPUT, agent_type="coder"))
    await check(passage(channel=Channel.OUTPUT, agent_type="writer"))
    assert only.seen == []
    await check(passage(channel=Channel.OUTPUT, agent_type="coder"))
    assert len(only.seen) == 1


FAILURES: list[tuple[Any, FailureKind]] = [
    (ValueError(SECRET), FailureKind.RAISED),
    (RecursionError(), FailureKind.RAISED),
    (asyncio.CancelledError(), FailureKind.CANCELLED),
    (Hang(), FailureKind.TIMEOUT),
    (Hang(stubborn=True), FailureKind.TIMEOUT),
    (Failed(FailureKind.MODEL), FailureKind.MODEL),
    (None, FailureKind.MALFORMED),
    ("OK", FailureKind.MALFORMED),
    (Redact((Span(3, 99, "x", ""),), RULE), FailureKind.MALFORMED),
    (Redact((Span(2, 4, "x", ""), Span(3, 5, "x", "")), RULE), FailureKind.MALFORMED),
    (Redact((Span(-1, 2, "x", ""),), RULE), FailureKind.MALFORMED),
]


@pytest.mark.parametrize(("answer", "kind"), FAILURES, ids=[f"{kind}-{at}" for at, (_, kind) in enumerate(FAILURES)])
@pytest.mark.parametrize("fail_closed", [True, False])
async def test_a_gate_that_fails_is_closed_unless_it_was_opened(
    answer: Any, kind: FailureKind, fail_closed: bool
) -> None:
    failing, later = gate(answer, name="failing", fail_closed=fail_closed), gate(name="later")
    judgement = await guard(failing, later).check(passage())
    failing.release.set()
    assert judgement.outcome is (Outcome.BLOCKED if fail_closed else Outcome.PASSED)
    assert judgement.decisions[0].verdict is VerdictName.FAILED
    assert judgement.decisions[0].rule == f"failed.{kind}"
    assert judgement.decisions[0].held_back is fail_closed
    assert len(later.seen) == (0 if fail_closed else 1)
    assert SECRET not in repr(judgement)


async def test_a_stubborn_gate_is_kept_until_it_ends_and_then_forgotten() -> None:
    stubborn = gate(Hang(stubborn=True))
    whole = guard(stubborn)
    assert (await whole.check(passage())).outcome is Outcome.BLOCKED
    assert len(whole._strays) == 1
    stubborn.release.set()
    await eventually(lambda: not whole._strays)


async def test_a_cancel_from_outside_passes_through_and_takes_the_gate_along() -> None:
    hanging = gate(Hang())
    whole = guard(Placed(hanging, EVERYWHERE, timeout_s=60))
    check = asyncio.create_task(whole.check(passage()))
    await asyncio.wait_for(hanging.asked.wait(), 5)
    check.cancel()
    with pytest.raises(asyncio.CancelledError):
        await check
    await eventually(lambda: not whole._strays)


async def test_nothing_that_is_recorded_tells_a_secret() -> None:
    telling = gate(Concern(f"it says {SECRET}", RULE, Severity.HIGH), Block(SECRET, RULE))
    for _ in range(2):
        judgement = await guard(telling).check(passage(f"key {SECRET}"))
        assert SECRET not in repr((judgement.decisions, judgement.concerns, judgement.block))
        assert SECRET not in str(judgement.decisions[0].as_json())


async def test_a_decision_tells_how_long_it_took_by_the_clock_that_was_given() -> None:
    clock = FakeClock()

    class Slow(WordGate):
        async def judge(self, passage: Passage) -> Verdict:
            await clock.sleep(0.25)
            return Allow()

    notary = Notary(b"k" * 16, str)
    judgement = await Guard([Placed(Slow(), EVERYWHERE)], clock=clock, notary=notary).check(passage())
    assert judgement.decisions[0].latency_ms == pytest.approx(250)


def test_digests_need_the_key() -> None:
    one, other = Notary(b"a" * 16, str), Notary(b"b" * 16, str)
    assert one.digest("pin 1234") != other.digest("pin 1234")
    assert one.digest("pin 1234") == Notary(b"a" * 16, str).digest("pin 1234")
    assert one.digest("\ud800")
    with pytest.raises(ValueError, match="16 to 64"):
        Notary(b"short", str)


def test_two_gates_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="same name a"):
        guard(gate(name="a"), gate(name="a"))


_VERDICTS = st.one_of(
    st.just(Allow()),
    st.just(Concern("c", RULE, Severity.LOW)),
    st.just(Block("b", RULE)),
    st.builds(ValueError),
    st.builds(
        lambda start, size: Redact((Span(start, start + size, "l", "*"),), RULE), st.integers(-1, 9), st.integers(0, 9)
    ),
)


@given(text=st.text(max_size=8), answers=st.lists(st.tuples(_VERDICTS, st.booleans()), max_size=5))
@examples(60)
def test_whatever_gates_answer_the_round_ends_in_a_judgement(text: str, answers: list[tuple[Any, bool]]) -> None:
    gates = [gate(answer, name=str(at), fail_closed=closed) for at, (answer, closed) in enumerate(answers)]
    judgement = asyncio.run(guard(*gates).check(passage(text)))
    assert (judgement.outcome is Outcome.BLOCKED) == (judgement.block is not None)
    assert (judgement.outcome is Outcome.BLOCKED) == any(decision.held_back for decision in judgement.decisions)
