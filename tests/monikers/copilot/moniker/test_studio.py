"""The studio's prompt is the one that a turn of the session would send, from what the session has stored."""

from __future__ import annotations

from typing import Any

import pytest

from monikers.copilot.blackboard import Blackboard
from monikers.copilot.moniker.studio import Studio
from monikers.copilot.records import Event, Fact

COACH: dict[str, Any] = {"id": "coach", "name": "Coach", "text": "Phase: {{ blackboard.variables.phase }}."}
SAID = [
    {"speaker": "CUSTOMER", "text": "What does it cost? {{ 7 * 7 }}", "timestamp": 1.0, "is_final": True},
    {"speaker": "USER", "text": "It depends.", "timestamp": 3.0, "is_final": True},
]
CONFIG: dict[str, Any] = {
    "agent_set": "sales_call",
    "user_context": "Ann sells.",
    "language_directive": "Answer in French.",
    "rag_docs": ["A price list."],
    "overrides": {"coach": {"instructions_append": "Be short."}},
}


def board() -> dict[str, Any]:
    made = Blackboard(variables={"phase": "pricing"})
    made.add_fact(Fact(type="budget", key=None, value=10, source_agent="x", confidence=1.0))
    made.emit_event(Event(name="asked", payload={"what": "price"}, source_agent="x"))
    made.push_queue("open", {"question": "How much?"})
    return made.to_dict()


def state(**more: Any) -> dict[str, Any]:
    return {"turn": 3, "board": board(), "segments": SAID, **more}


def sent(definition: dict[str, Any], config: dict[str, Any], kept: dict[str, Any]) -> tuple[str, str]:
    """The prompt and the transcript."""
    draft = Studio().preview(definition, "s", config, kept)
    assert draft.problems == ()
    system, user = (message["content"] for message in draft.messages)
    return system, user


def test_it_shows_what_the_session_has_stored() -> None:
    definition = {
        **COACH,
        "text": "{{ blackboard.variables.phase }} {{ memory.seen }} {{ blackboard.queues.open | length }}",
        "trigger_config": {"mode": "event", "subscribed_events": ["asked"]},
    }
    engine = {"turns": 3, "agents": {"coach": {"started": 1_700_000_000.0, "private": {"seen": "twice"}}}}
    system, user = sent(definition, CONFIG, state(engine=engine, guidance=["Mind the budget."]))
    shown = ("pricing twice 1", "Ann sells.", "in French", "A price list.", "Mind the budget.", "Be short.", "How much")
    assert [words for words in shown[:-1] if words not in system] == []
    assert "A person has asked for you." in system
    assert '"name": "asked"' in system
    assert "What does it cost?" in user
    assert "49" not in user, "what somebody said is no template"


def test_words_that_came_later_count_before_those_of_the_config() -> None:
    system, _ = sent(COACH, CONFIG, state(overrides={"coach": {"instructions_append": "Be kind."}}))
    assert "Be kind." in system
    assert "Be short." not in system


def test_a_session_that_has_not_begun_has_the_variables_of_its_config() -> None:
    system, _ = sent(COACH, {**CONFIG, "variables": {"phase": "hello"}}, {})
    assert "Phase: hello." in system


def test_without_a_session_the_board_is_empty() -> None:
    system, user = sent(COACH, {}, {})
    assert system.startswith("Phase: .")
    assert '"transcript": []' in user


def test_it_answers_with_mistakes_rather_than_raising() -> None:
    endless = {**COACH, "text": "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}"}
    assert [mistake.field for mistake in Studio().preview(endless, "s", {}, {}).problems] == ["text"]
    assert [mistake.field for mistake in Studio().problems({"name": ""})] == ["name"]


@pytest.mark.parametrize(
    "strange",
    [{"board": {"facts": [{"no": "fact"}]}}, {"segments": ["x"]}, {"board": {"queues": {"q": 1}}}, {"more": 1}],
)
def test_a_state_that_no_session_has_is_told(strange: dict[str, Any]) -> None:
    (mistake,) = Studio().preview(COACH, "s", CONFIG, strange).problems
    assert mistake.field == ""
    assert "the state of session 's' cannot be read" in mistake.message
