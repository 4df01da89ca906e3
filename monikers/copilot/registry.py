"""Which agents an engine has, and who of them answers to what. The list is rebound, never changed: a turn that runs
goes on with the one that it began with."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence

from monikers.copilot.agent import BaseAgent
from monikers.copilot.errors import AgentConfigurationError
from monikers.copilot.models import TriggerType

_log = logging.getLogger(__name__)


class Registry:
    """The agents, in the order of registration."""

    def __init__(self) -> None:
        self.agents: list[BaseAgent] = []

    def register(self, agent: BaseAgent) -> None:
        """Add an agent at the end.

        Raises `AgentConfigurationError` when its id is taken or it has none.
        """
        self.agents = _checked([*self.agents, agent])
        _warn_of(agent)

    def unregister(self, agent_id: str) -> bool:
        """Take the agent of an id away; whether there was one."""
        kept = [agent for agent in self.agents if agent.config.id != agent_id]
        is_there = len(kept) < len(self.agents)
        self.agents = kept
        return is_there

    def replace(self, agents: Iterable[BaseAgent]) -> None:
        """Have these agents and no others: all, or with `AgentConfigurationError` everything stays as it was."""
        self.agents = _checked(list(agents))
        for agent in self.agents:
            _warn_of(agent)

    def of_trigger_type(self, trigger_type: TriggerType) -> list[BaseAgent]:
        """The agents that answer to a trigger."""
        return [agent for agent in self.agents if trigger_type in agent.config.trigger_types]

    def subscribers(self, event_names: Iterable[str]) -> list[BaseAgent]:
        """The agents that answer to `EVENT` and subscribed to one of these names."""
        names = list(event_names)
        return [agent for agent in self.of_trigger_type(TriggerType.EVENT) if subscribes(agent, names)]

    def with_keywords(self) -> list[BaseAgent]:
        """The agents that wait for words."""
        return [agent for agent in self.agents if agent.config.trigger_keywords]

    def with_silence_threshold(self) -> list[BaseAgent]:
        """The agents that wait for a silence of some length."""
        return [agent for agent in self.agents if agent.config.silence_threshold is not None]

    def keyword_matches(self, text: str, allowed: Collection[str] | None) -> list[tuple[BaseAgent, str]]:
        """Each allowed agent of which a keyword stands in the text, with the first such; case makes no difference, and
        a part of a word counts."""
        heard = text.casefold()
        found = []
        for agent in self.with_keywords():
            word = next((word for word in agent.config.trigger_keywords if word and word.casefold() in heard), None)
            if word is not None and (allowed is None or agent.config.id in allowed):
                found.append((agent, word))
        return found


def subscribes(agent: BaseAgent, event_names: Sequence[str]) -> bool:
    """Whether an agent subscribed to one of these events."""
    return any(name in agent.config.subscribed_events for name in event_names)


def _checked(agents: list[BaseAgent]) -> list[BaseAgent]:
    seen: dict[str, BaseAgent] = {}
    for agent in agents:
        agent_id = agent.config.id
        if not agent_id:
            raise AgentConfigurationError(f"the agent {agent.config.name!r} has no id: give it one")
        if agent_id in seen:
            raise AgentConfigurationError(
                f"two agents have the id {agent_id!r} ({seen[agent_id].config.name!r} and {agent.config.name!r}): "
                "give each its own, or replace_agents"
            )
        seen[agent_id] = agent
    return agents


def _warn_of(agent: BaseAgent) -> None:
    if agent.config.subscribed_events and TriggerType.EVENT not in agent.config.trigger_types:
        _log.warning("%r subscribed to events but does not answer to EVENT: it will not be woken", agent.config.id)
