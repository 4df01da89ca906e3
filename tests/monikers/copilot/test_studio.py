"""The two questions about a definition: its mistakes, and its prompt on a board. Both are pure."""

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
from monikers.copilot.models import AgentContext, TriggerType
from monikers.copilot.studio import doubts, preview, problems
from monikers.copilot.variants import agent_of
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
versions = st.lists(
    st.fixed_dictionaries(
        {"version": st.sampled_from(["a", "b"]) | json_values},
        optional={"share": json_values, "text": json_values, "output_format": json_values, "id": json_values},
    ),
    max_size=3,
)
templates = st.text(st.sampled_from("{}% ab.|()[]'#-\n"), max_size=40)
almost = st.fixed_dictionaries(
    {"name": st.just("a") | json_values},
    optional=dict.fromkeys(FIELDS, json_values) | {"text": templates | json_values, "versions": versions | json_values},
)


@examples(300)
@given(json_values | almost)
def test_it_never_raises_and_finds_mistakes_exactly_where_an_agent_cannot_be_made(definition: Any) -> None:
    found, refused = problems(definition), refusal(definition)
    assert (refused is None) == (found == [])
    assert refused is None or (refused.mistakes and set(refused.mistakes) <= set(found))
    assert doubts(definition) == [] or not found


def refusal(definition: Any) -> AgentConfigurationError | None:
    """Why no agent can be made of it."""
    try:
        agent_of(definition)
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


SCENE = AgentContext(
    session_id="s",
    blackboard=Blackboard(variables={"phase": "pricing"}),
    trigger_type=TriggerType.FORCE,
    user_context="Ann sells.",
)


def test_the_prompt_is_the_one_that_the_agent_itself_would_send() -> None:
    definition = {**COACH, "text": "{{ blackboard.variables.phase }} {{ memory.seen }}"}
    agent = DynamicAgent(definition)
    agent.private_state = {"seen": "twice"}
    sent = preview(definition, SCENE, {"seen": "twice"})
    assert sent == agent.prompt(SCENE)
    assert "pricing twice" in sent[0]["content"]


def test_what_cannot_be_rendered_is_a_mistake_of_the_text() -> None:
    endless = {**COACH, "text": "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}"}
    assert problems(endless) == []
    with pytest.raises(AgentConfigurationError) as raised:
        preview(endless, SCENE)
    assert [mistake.field for mistake in raised.value.mistakes] == ["text"]


def test_a_definition_with_mistakes_has_no_prompt() -> None:
    with pytest.raises(AgentConfigurationError) as raised:
        preview({"name": "", "output_format": "nope"}, SCENE)
    assert {mistake.field for mistake in raised.value.mistakes} == {"name", "output_format"}


def test_what_can_run_and_is_hardly_meant() -> None:
    assert doubts(COACH) == []
    deaf = {**COACH, "trigger_config": {"mode": ["keyword", "event"], "keywords": ["price"]}}
    (doubt,) = doubts(deaf)
    assert doubt == ("trigger_config.mode", "has the mode event and no subscribed_events: it is not asked by it")
    assert [one.field for one in doubts({**deaf, "versions": [{"version": "a", "text": ""}]})] == [
        "versions.0.trigger_config.mode",
        "versions.0.text",
    ]
