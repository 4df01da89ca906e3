"""Over a hundred texts through the guard that ships: what is held back, cut out, worried about and left alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from runtime.guard.build import Means, build
from runtime.guard.decision import VerdictName
from runtime.guard.fake import ScriptedModel
from runtime.guard.governance import load
from runtime.guard.guard import Guard
from runtime.guard.judgement import Judgement, Outcome
from runtime.guard.pii import PiiKind
from runtime.guard.port import AgentType, Channel, Passage
from runtime.testing import FakeClock

CANARY = "velvet-otter-9917-harbour"


def corpus() -> Iterator[tuple[str, str, str, str]]:
    """Each case: outcome, deciding gate, channel, text."""
    cases = yaml.safe_load(Path(__file__).with_name("corpus.yaml").read_text())
    for outcome, gates in cases.items():
        for gate, channels in gates.items():
            for channel, texts in channels.items():
                for text in texts:
                    yield outcome, gate, channel, text


CASES = list(corpus())


@pytest.fixture(scope="module")
def guard() -> Guard:
    governance = load()
    pii = governance.pii.model_copy(update={"kinds": tuple(PiiKind), "channels": tuple(Channel)})
    means = Means(FakeClock(), lambda: "n0nce12345", b"k" * 16, {"CANARY": CANARY}, ScriptedModel(["<OK/>"]))
    return build(governance.model_copy(update={"pii": pii}), means)


def deciding(judgement: Judgement) -> set[str]:
    """The gates that said anything."""
    return {decision.gate for decision in judgement.decisions if decision.verdict is not VerdictName.ALLOW}


@pytest.mark.parametrize(("outcome", "gate", "channel", "text"), CASES)
async def test_each_text_comes_out_as_it_should(guard: Guard, outcome: str, gate: str, channel: str, text: str) -> None:
    if text.startswith("@repeat "):
        _, piece, times = text.split(" ")
        text = f"{piece} " * int(times)
    judgement = await guard.check(Passage(text, Channel(channel), AgentType("worker"), "corpus"))
    said = deciding(judgement)
    assert said == ({gate} if gate else set()), judgement.decisions
    match outcome:
        case "block":
            assert judgement.outcome is Outcome.BLOCKED
            assert judgement.text == ""
        case "concern":
            assert judgement.outcome is Outcome.CONCERN
            assert judgement.text == text
        case "redact":
            assert judgement.outcome is Outcome.PASSED
            assert judgement.text != text
            assert "⟦" in judgement.text
        case _:
            assert judgement.outcome is Outcome.PASSED
            assert judgement.text == text
    assert CANARY not in judgement.text
    assert CANARY not in repr(judgement.decisions)


def test_the_corpus_is_large_and_has_every_outcome() -> None:
    assert len(CASES) >= 120
    assert {case[0] for case in CASES} == {"allow", "concern", "block", "redact", "missed"}
