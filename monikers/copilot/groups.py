"""Groups of agents, which a host switches on and off or names in an allow-list."""

from __future__ import annotations

from collections.abc import Iterable

from monikers.copilot.agent import BaseAgent


class Groups:
    """Which groups are off. An agent is off when it belongs to groups and all of them are off."""

    def __init__(self) -> None:
        self._off: dict[str, None] = {}

    def switch(self, group: str, *, on: bool) -> None:
        """Switch a group on or off for all sessions, from the next phase on."""
        if on:
            self._off.pop(group, None)
        else:
            self._off[group] = None

    def is_off(self, agent: BaseAgent) -> bool:
        """Whether an agent is not to be asked."""
        groups = agent.config.groups
        return bool(self._off) and bool(groups) and all(group in self._off for group in groups)

    @property
    def off(self) -> list[str]:
        """The groups that are off."""
        return list(self._off)


def members(agents: Iterable[BaseAgent], *groups: str) -> list[str]:
    """The ids of the agents in any of these groups, in order: an allow-list for `process_turn`."""
    return [agent.config.id for agent in agents if any(group in agent.config.groups for group in groups)]
