"""The tools of a deployment as a running worker has them, and how its calls are tried again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from runtime.tools.calling import Backoff
from runtime.tools.scope import AgentType, ToolName
from runtime.tools.tool import Tool
from runtime.tools.toolbox import EVERY_TYPE, Toolbox
from store.clock import Chance, SystemChance

Grants = Mapping[AgentType, Iterable[ToolName]]


class ToolOffer:
    """Holds the toolbox that steps are given. A step keeps the one that it began with.

    Tools may come later than the worker (a server that is reached again) or change: `join` makes a new toolbox.
    A grant for a tool that is not there yet holds when it comes; which names are misspelt is judged where all are known
    (`runtime.tools.deployment`).
    """

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        grants: Grants | None = None,
        *,
        pins: Mapping[ToolName, str] | None = None,
        chance: Chance | None = None,
    ) -> None:
        self._grants = {kind: frozenset(names) for kind, names in (grants or {}).items()}
        self._pins = dict(pins or {})
        self.backoff = Backoff(chance or SystemChance())
        self.toolbox = self._box({tool.name: tool for tool in tools})

    @property
    def granted_types(self) -> frozenset[AgentType]:
        """The types of agents that tools are granted to by name."""
        return frozenset(self._grants) - {EVERY_TYPE}

    def join(self, tools: Iterable[Tool], *, pins: Mapping[ToolName, str] | None = None) -> None:
        """Have further tools, or other ones of the same names, from the next step on."""
        self._pins.update(pins or {})
        self.toolbox = self._box({**self.toolbox.tools, **{tool.name: tool for tool in tools}})

    def leave(self, names: Iterable[ToolName]) -> None:
        """Have some tools no more, from the next step on."""
        gone = frozenset(names)
        self.toolbox = self._box({name: tool for name, tool in self.toolbox.tools.items() if name not in gone})

    def _box(self, tools: Mapping[ToolName, Tool]) -> Toolbox:
        there = {kind: names & tools.keys() for kind, names in self._grants.items()}
        return Toolbox(tools.values(), there, pins=self._pins)
