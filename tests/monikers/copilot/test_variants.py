"""Agents of which a definition has several versions (A/B shares), and the rate limit of one."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from monikers.copilot import AgentConfigurationError, DynamicAgent, RateLimit, VersionedAgent, agent_of
from monikers.copilot.studio import problems

BASE: dict[str, Any] = {
    "id": "closer",
    "name": "Closer",
    "text": "Listen.",
    "trigger_config": {"mode": "turn_based", "cooldown": 7},
}


def versioned(*versions: Any) -> dict[str, Any]:
    """The definition with these versions."""
    return {**BASE, "versions": list(versions)}


def test_without_versions_it_is_one_agent() -> None:
    assert isinstance(agent_of(BASE), DynamicAgent)
    assert isinstance(agent_of({**BASE, "versions": None}), DynamicAgent)


def test_a_version_says_what_is_different() -> None:
    agent = agent_of(versioned({"version": "a"}, {"version": "b", "text": "Look.", "trigger_config": {"cooldown": 30}}))
    assert isinstance(agent, VersionedAgent)
    a, b = (version.agent for version in agent.versions)
    assert isinstance(a, DynamicAgent)
    assert isinstance(b, DynamicAgent)
    assert (a.system_prompt, a.config.cooldown, b.system_prompt, b.config.cooldown) == ("Listen.", 7, "Look.", 30)
    assert (b.config.id, b.config.trigger_types) == (a.config.id, a.config.trigger_types)


def test_sessions_get_versions_by_their_shares_and_always_the_same() -> None:
    agent = agent_of(versioned({"version": "a", "share": 1}, {"version": "b", "share": 3}))
    assert isinstance(agent, VersionedAgent)
    names = [agent.version_for(f"s{number}").name for number in range(2000)]
    assert 0.7 < Counter(names)["b"] / 2000 < 0.8
    assert names == [agent.version_for(f"s{number}").name for number in range(2000)]


@pytest.mark.parametrize(
    ("versions", "field"),
    [
        ([], "versions"),
        ("a", "versions"),
        ([{}], "versions.0.version"),
        ([{"version": "a", "share": -1}], "versions.0.share"),
        ([{"version": "a", "share": 0}], "versions"),
        ([{"version": "a"}, {"version": "a"}], "versions.1.version"),
        ([{"version": "a", "id": "other"}], "versions.0.id"),
        ([{"version": "a", "versions": []}], "versions.0.versions"),
        ([{"version": "a"}, {"version": "b", "text": "{% if %}"}], "versions.1.text"),
        ([{"version": "a", "trigger_config": {"mode": "never"}}], "versions.0.trigger_config.mode"),
        ([{"version": str(number)} for number in range(21)], "versions"),
    ],
)
def test_a_mistake_is_told_with_its_version(versions: Any, field: str) -> None:
    definition = {**BASE, "versions": versions}
    with pytest.raises(AgentConfigurationError) as caught:
        agent_of(definition)
    assert caught.value.mistakes
    assert field in {mistake.field for mistake in problems(definition)}


def test_a_rate_limit_is_a_part_of_the_definition() -> None:
    limited = {**BASE, "trigger_config": {"rate_limit": {"runs": 2, "per_s": 30}}}
    assert agent_of(limited).config.rate_limit == RateLimit(2, 30)
    with pytest.raises(AgentConfigurationError, match=r"rate_limit\.runs"):
        agent_of({**BASE, "trigger_config": {"rate_limit": {"runs": 0}}})
