"""Which agents wait for which words, and who is warned of (spec 2 §7.1, §9.1, §12.2)."""

from __future__ import annotations

import pytest

from monikers.copilot import TriggerType
from tests.monikers.copilot.agents import Scripted, engine_of, listener


@pytest.mark.parametrize(
    ("words", "text", "found"),
    [
        (["price", "discount"], "The DISCOUNT and the price", "price"),
        (["Preis"], "PREISE", "Preis"),
        (["straße"], "In der STRASSE", "straße"),
        (["price"], "Pric e", None),
        ([""], "anything", None),
        (["too expensive"], "That is too expensive!", "too expensive"),
        ([], "price", None),
    ],
)
def test_7_1_the_first_keyword_of_an_agent_that_stands_in_a_text(words: list[str], text: str, found: str) -> None:
    agent = Scripted("agent", trigger_types=[TriggerType.KEYWORD], trigger_keywords=words)
    assert engine_of(agent).check_keyword_triggers(text) == ([(agent, found)] if found else [])


def test_who_subscribed_and_does_not_answer_to_events_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    engine_of(listener("woken", "e"))
    assert caplog.records == []
    engine_of(Scripted("deaf", subscribed_events=["e"]))
    assert "'deaf' subscribed to events but does not answer to EVENT" in caplog.text


def test_agents_that_replace_others_are_warned_of_too(caplog: pytest.LogCaptureFixture) -> None:
    engine_of().replace_agents([Scripted("deaf", subscribed_events=["e"])])
    assert "'deaf'" in caplog.text


def test_4_1_the_order_is_that_of_registration() -> None:
    names = ["c", "a", "b"]
    engine = engine_of(*[Scripted(name, trigger_keywords=["x"], priority=-ord(name)) for name in names])
    assert [agent.config.id for agent in engine.agents] == names
    assert [agent.config.id for agent, _ in engine.check_keyword_triggers("x")] == names
