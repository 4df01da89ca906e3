"""An agent's configuration and its life without an engine (spec 2 §4.2, §9.2)."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from monikers.copilot import (
    DEFAULT_MODEL,
    AgentConfig,
    AgentConfigurationError,
    AgentInsight,
    AgentResponse,
    InsightType,
    TriggerType,
)
from tests.monikers.copilot.agents import Heard, Scripted, StillClock, context_of, engine_of, says


def test_the_signature_and_its_defaults() -> None:
    parameters = inspect.signature(AgentConfig).parameters
    positional = [name for name, one in parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
    assert positional == [
        *["name", "id", "trigger_interval", "cooldown", "model", "trigger_types", "trigger_keywords"],
        *["silence_threshold", "priority", "output_format", "trigger_conditions", "subscribed_events"],
        *["timeout", "max_tokens", "model_params"],
    ]
    config = AgentConfig("Sales Coach")
    assert (config.id, config.cooldown, config.model) == ("sales_coach", 10, DEFAULT_MODEL)
    assert DEFAULT_MODEL == "gpt-4o-mini"
    assert config.trigger_types == [TriggerType.TURN_BASED]
    assert (config.trigger_keywords, config.subscribed_events, config.model_params) == ([], [], {})
    assert (config.priority, config.output_format) == (0, "default")
    assert (config.trigger_interval, config.silence_threshold, config.trigger_conditions) == (None, None, None)
    assert (config.timeout, config.max_tokens) == (None, None)


def test_a_configuration_shares_nothing_with_what_it_was_made_of() -> None:
    words = ["price"]
    config = AgentConfig("a", trigger_keywords=words)
    words.append("x")
    assert config.trigger_keywords == ["price"]


@pytest.mark.parametrize("field", ["trigger_keywords", "subscribed_events", "groups"])
def test_9_1_one_name_may_stand_alone(field: str) -> None:
    """And is not taken letter by letter."""
    for given, kept in (("price", ["price"]), (("price", "date"), ["price", "date"])):
        fields: dict[str, Any] = {field: given}
        assert getattr(AgentConfig("a", **fields), field) == kept


@pytest.mark.parametrize("one", ["event", TriggerType.EVENT])
def test_9_1_one_trigger_may_stand_alone(one: Any) -> None:
    assert AgentConfig("a", trigger_types=one).trigger_types == [TriggerType.EVENT]
    assert AgentConfig("a", trigger_types=[one, "silence"]).trigger_types == [TriggerType.EVENT, TriggerType.SILENCE]


@pytest.mark.parametrize("unknown", ["turn", ["event", "turn"], [None]])
def test_9_1_an_unknown_trigger_is_refused_with_the_known_ones(unknown: Any) -> None:
    with pytest.raises(AgentConfigurationError, match=r"trigger_types of 'a': .*: use turn_based, keyword"):
        AgentConfig("a", trigger_types=unknown)


def test_an_insight_of_an_agent() -> None:
    agent = Scripted("coach")
    assert agent.create_insight("hello") == AgentInsight(
        agent_id="coach", agent_name="coach", type=InsightType.SUGGESTION, content="hello", confidence=1.0, expiry=15
    )
    insight = agent.create_insight("hello", InsightType.WARNING, 0.5, 30, "Do it")
    assert (insight.type, insight.confidence, insight.expiry, insight.action_label) == ("warning", 0.5, 30, "Do it")


async def test_process_keeps_the_cooldown_of_each_session() -> None:
    clock = StillClock()
    agent = Scripted("agent", lambda a, c: says(a), cooldown=10)
    answers = []
    for name, seconds in (("a", 0), ("a", 9), ("b", 0), ("a", 1)):
        clock.move(seconds)
        answers.append(await agent.process(context_of(session_id=name), clock=clock) is not None)
    assert answers == [True, False, True, True]
    forced = context_of(session_id="a", trigger_type=TriggerType.FORCE)
    assert await agent.process(forced, clock=clock) is not None


async def test_4_2_process_checks_the_cooldown_and_neither_trigger_nor_conditions() -> None:
    """Routing is the engine's: an agent that checked it again could disagree."""
    never = {"rules": [{"var": "none", "op": "exists"}]}
    agent = Scripted("agent", lambda a, c: says(a), trigger_types=[TriggerType.KEYWORD], trigger_conditions=never)
    response = await agent.process(context_of(trigger_type=TriggerType.SILENCE), clock=StillClock())
    assert response is not None
    assert len(response.insights) == 1


async def test_process_tells_callbacks_and_turns_an_error_into_an_insight() -> None:
    """§4.2"""

    def fails(agent: Any, context: Any) -> None:
        agent.private_state["x"] = 1
        raise ValueError("boom")

    heard, agent = Heard(), Scripted("agent", fails)
    response = await agent.process(context_of(), [heard], clock=StillClock())
    assert isinstance(response, AgentResponse)
    assert [(insight.type, insight.agent_id) for insight in response.insights] == [(InsightType.ERROR, "agent")]
    assert "boom" in response.insights[0].content
    assert response.source_agent_id == "agent"
    assert heard.hooks == ["on_agent_start", "on_agent_error", "on_agent_finish"]
    assert agent.private_state == {}


async def test_an_agent_may_write_its_own_process() -> None:
    class Doubled(Scripted):
        async def process(self, *args: Any, **named: Any) -> AgentResponse | None:
            response = await super().process(*args, **named)
            assert response is not None
            return response.model_copy(update={"insights": response.insights * 2})

    agent = Doubled("agent", lambda a, c: says(a))
    assert len((await engine_of(agent).process_turn(context_of())).insights) == 2
    assert agent.runs == 1


@pytest.mark.parametrize("state", [None, [1], "x", 5])
async def test_private_state_is_a_dict(state: Any) -> None:
    def odd(agent: Any, context: Any) -> None:
        agent.private_state = state

    agent = Scripted("agent", odd)
    with pytest.raises(TypeError, match=r"private_state of 'agent' is a .*: it has to be a dict"):
        agent.private_state = state
    response = await engine_of(agent, Scripted("other", lambda a, c: says(a))).process_turn(context_of())
    assert [insight.type for insight in response.insights] == [InsightType.ERROR, InsightType.SUGGESTION]


def test_an_error_without_words_is_named_by_its_kind() -> None:
    insight = Scripted("agent").error_insight(KeyError())
    assert insight.content == "agent failed: KeyError"
    assert insight.metadata == {"exception_type": "KeyError"}
    assert len(Scripted("agent").error_insight(ValueError("x" * 9_999)).content) == 300


@pytest.mark.parametrize("name", ["config", "llm", "last_run_time", "private_state", "logger"])
def test_what_agents_written_for_version_1_find_on_themselves(name: str) -> None:
    assert hasattr(Scripted("agent"), name)
