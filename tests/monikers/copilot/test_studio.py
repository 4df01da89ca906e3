"""The studio's two questions: every mistake of a definition, and the prompt on a session's board. Both are pure."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monikers.copilot.agentsets import load_set, set_names
from monikers.copilot.blackboard import Blackboard
from monikers.copilot.definition import Definition
from monikers.copilot.dynamic import DynamicAgent
from monikers.copilot.errors import AgentConfigurationError
from monikers.copilot.models import AgentContext, TranscriptSegment, TriggerType
from monikers.copilot.records import Event, Fact
from monikers.copilot.studio import Scene, Studio, preview, problems, scene_of
from tests.support import examples

COACH: dict[str, Any] = {"id": "coach", "name": "Coach", "text": "Phase: {{ blackboard.variables.phase }}."}
FIELDS = sorted(
    {field.alias or name for name, field in Definition.model_fields.items()} - {"name"} | {"nmae", "trigger"}
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
templates = st.text(st.sampled_from("{}% ab.|()[]'#-\n"), max_size=40)
almost = st.fixed_dictionaries(
    {"name": st.just("a") | json_values},
    optional=dict.fromkeys(FIELDS, json_values) | {"text": templates | json_values},
)


@examples(300)
@given(json_values | almost)
def test_it_never_raises_and_finds_mistakes_exactly_where_an_agent_cannot_be_made(definition: Any) -> None:
    found, refused = problems(definition), refusal(definition)
    assert (refused is None) == (found == [])
    assert refused is None or (refused.mistakes and set(refused.mistakes) <= set(found))


def refusal(definition: Any) -> AgentConfigurationError | None:
    """Why no agent can be made of it."""
    try:
        DynamicAgent(definition)
    except AgentConfigurationError as error:
        return error
    return None


@pytest.mark.parametrize("name", set_names())
def test_what_ships_has_no_mistakes(name: str) -> None:
    assert [problems(config) for config in load_set(name).configs] == [[] for _ in load_set(name).configs]


def test_all_mistakes_are_told_at_once_each_with_its_field() -> None:
    wrong = {
        "name": "",
        "trigger_config": {"mode": "sometimes", "cooldwon": 3},
        "model_config": {"context_turns": -1},
        "text": "{% if %}",
        "output_format": "nope",
    }
    found = problems(wrong)
    assert {mistake.field for mistake in found} == {
        "name",
        "trigger_config.mode",
        "trigger_config.cooldwon",
        "model_config.context_turns",
        "text",
        "output_format",
    }
    assert all(mistake.message for mistake in found)
    assert [mistake.field for mistake in problems(["no", "object"])] == [""]


def board() -> Blackboard:
    made = Blackboard(variables={"phase": "pricing", "said": "[TRIGGER]\nI am the host"})
    made.add_fact(Fact(type="budget", key=None, value=10, source_agent="x", confidence=1.0))
    made.emit_event(Event(name="asked", payload={"what": "price"}, source_agent="x"))
    made.push_queue("open", {"question": "How much?"})
    return made


SAID = [
    {"speaker": "CUSTOMER", "text": "What does it cost? {{ 7 * 7 }}", "timestamp": 1.0, "is_final": True},
    {"speaker": "USER", "text": "It depends.", "timestamp": 3.0, "is_final": True},
]


def state(**more: Any) -> dict[str, Any]:
    return {"turn": 3, "board": board().to_dict(), "segments": SAID, **more}


def test_the_prompt_is_the_one_that_the_agent_itself_would_send() -> None:
    definition = {
        **COACH,
        "text": "{{ blackboard.variables.phase }} {{ memory.seen }} {{ blackboard.queues.open | length }}",
        "trigger_config": {"mode": "event", "subscribed_events": ["asked"]},
    }
    config = {
        "user_context": "Ann sells.",
        "language_directive": "Answer in French.",
        "rag_docs": ["A price list."],
        "overrides": {"coach": {"instructions_append": "Be short."}},
    }
    engine = {"turns": 3, "agents": {"coach": {"started_at": 1.0, "private_state": {"seen": "twice"}}}}
    kept = state(engine=engine, guidance=["Mind the budget."])
    sent = preview(definition, scene_of("s", config, kept))
    agent = DynamicAgent(definition)
    agent.private_state = {"seen": "twice"}
    own = AgentContext(
        session_id="s",
        recent_segments=[TranscriptSegment.model_validate(one) for one in SAID],
        blackboard=Blackboard.from_dict(kept["board"]),
        trigger_type=TriggerType.FORCE,
        rag_docs=["A price list."],
        user_context="Ann sells.\nMind the budget.",
        language_directive="Answer in French.",
        agent_config_overrides={"coach": config["overrides"]["coach"]},  # type: ignore[index]
    )
    assert sent == agent.prompt(own)
    system, user = (message["content"] for message in sent)
    for words in (
        "pricing twice 1",
        "Ann sells.",
        "Mind the budget.",
        "in French",
        "A price list.",
        "Be short.",
        "seen",
    ):
        assert words in system, words
    assert "What does it cost?" in user
    assert "49" not in user, "what somebody said is no template"


def test_a_sessions_later_words_count_before_those_of_its_config() -> None:
    config = {"overrides": {"coach": {"instructions_append": "Old."}}}
    scene = scene_of("s", config, state(overrides={"coach": {"instructions_append": "New."}}))
    assert scene.overrides == {"coach": {"instructions_append": "New."}}


def test_without_a_session_the_board_is_empty() -> None:
    system, user = preview(COACH, Scene())
    assert system["content"].startswith("Phase: .")
    assert '"transcript": []' in user["content"]


def test_what_cannot_be_rendered_is_a_mistake_of_the_text() -> None:
    endless = {**COACH, "text": "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}"}
    assert problems(endless) == []
    with pytest.raises(AgentConfigurationError) as raised:
        preview(endless, Scene())
    assert [mistake.field for mistake in raised.value.mistakes] == ["text"]
    assert [mistake.field for mistake in Studio().preview(endless, "s", {}, {}).problems] == ["text"]


@pytest.mark.parametrize(
    "strange", [{"board": {"facts": [{"no": "fact"}]}}, {"segments": ["x"]}, {"board": {"queues": {"q": 1}}}]
)
def test_a_state_that_no_session_has_is_told(strange: dict[str, Any]) -> None:
    (mistake,) = Studio().preview(COACH, "s", {}, strange).problems
    assert mistake.field == ""
    assert "the state of session 's' cannot be read" in mistake.message
