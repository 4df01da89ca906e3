"""What a copilot session can be created with, and how every mistake is told."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monikers.catalogue import check_config
from monikers.copilot.agentsets import load_set, set_names
from monikers.copilot.moniker import COPILOT, CopilotConfig
from monikers.errors import MonikerConfigError
from tests.monikers.copilot.moniker.kit import agent
from tests.support import examples

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("name", set_names())
def test_every_set_that_ships_can_be_used(name: str) -> None:
    config = check_config(COPILOT, {"agent_set": name}, "")
    assert isinstance(config, CopilotConfig)
    assert len(config.definitions()) == len(load_set(name).configs)


def test_agents_take_the_place_of_those_of_their_ids_and_join_the_others() -> None:
    shipped = list(CopilotConfig(agent_set="sales_call").definitions())
    mine = [agent("own"), agent(shipped[1], name="Mine")]
    found = CopilotConfig(agent_set="sales_call", agents=mine).definitions()
    assert list(found) == [*shipped, "own"]
    assert found[shipped[1]]["name"] == "Mine"


def test_the_task_is_what_agents_are_told() -> None:
    config = check_config(COPILOT, {"agents": [agent("ann")]}, "You advise ANN.")
    assert isinstance(config, CopilotConfig)
    assert config.user_context == "You advise ANN."


@pytest.mark.parametrize(
    ("config", "field", "words"),
    [
        ({}, "config", "nobody listens: give agent_set"),
        ({"agent_set": "sales"}, "agent_set", "use one of interview, language_practice"),
        ({"agents": [{"name": ""}]}, "agents", "agents[0]"),
        ({"agents": [agent("a"), agent("b", trigger_config={"mode": "never"})]}, "agents", "agents[1]"),
        ({"agents": [agent("a", text="{% for %}")]}, "agents", "text"),
        ({"agents": [agent("a")], "max_phases": 3}, "max_phases", "2"),
        ({"agents": [agent("a")], "kept_segments": 0}, "kept_segments", "1"),
        ({"agents": [agent("a")], "overrides": {"a": {"speed": 2}}}, "overrides.a.speed", ""),
        ({"agents": [agent("a")], "surprise": 1}, "surprise", ""),
    ],
)
def test_a_mistake_is_told_with_its_field(config: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(MonikerConfigError) as caught:
        check_config(COPILOT, config, "")
    (error,) = caught.value.errors
    assert error["field"] == field
    assert words in error["message"]


@given(st.dictionaries(st.sampled_from([*CopilotConfig.model_fields]), _JSON, max_size=4))
@examples(150)
def test_whatever_json_comes_it_is_checked_or_refused(config: dict[str, Any]) -> None:
    with suppress(MonikerConfigError):
        check_config(COPILOT, config, "")
