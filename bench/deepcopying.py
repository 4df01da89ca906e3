"""An engine that gives each phase a deep copy of the board, as engines of this kind do: what `bench.copilot` compares
with.

The same turn as the product's: allow-list, trigger, cooldown, conditions of none, one picture a phase, a merge in
ascending (priority, order), facts by (type, key), a second phase for events. Without deadlines, traces, checks of
responses and version 1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from monikers.copilot import AgentContext, AgentResponse, BaseAgent, Event, Fact, TriggerType


@dataclass
class CopiedBoard:
    """A board of plain containers."""

    events: list[Event] = field(default_factory=list)
    variables: dict[str, Any] = field(default_factory=dict)
    queues: dict[str, list[Any]] = field(default_factory=dict)
    facts: list[Fact] = field(default_factory=list)
    memory: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add_fact(self, fact: Fact) -> None:
        """Look through all facts for the one whose place this one takes."""
        there = next((one for one in self.facts if (one.type, one.key) == (fact.type, fact.key)), None)
        if there is None:
            self.facts.append(fact)
        elif (fact.priority, fact.confidence) >= (there.priority, there.confidence):
            self.facts.remove(there)
            self.facts.append(fact)


class CopyingEngine:
    """Runs agents over turns, each phase on a deep copy."""

    def __init__(self, agents: Sequence[BaseAgent]) -> None:
        self._agents = list(agents)
        self._last_runs: dict[tuple[str, str], float] = {}

    async def process_turn(self, context: AgentContext, board: CopiedBoard, now: float) -> AgentResponse:
        """One turn of one or two phases."""
        total = AgentResponse()
        board.variables["sys.turn_count"] = context.turn_count
        await self._phase(1, TriggerType.TURN_BASED, context, board, now, total)
        board.events = list(total.events)
        if board.events:
            await self._phase(2, TriggerType.EVENT, context, board, now, total)
        board.events = []
        return total

    async def _phase(
        self,
        number: int,
        trigger: TriggerType,
        context: AgentContext,
        board: CopiedBoard,
        now: float,
        total: AgentResponse,
    ) -> None:
        names = {event.name for event in board.events}
        due = [agent for agent in self._agents if self._is_due(agent, trigger, names, context, now)]
        copied = deepcopy(board)
        shown = context.model_copy(
            update={
                "blackboard": copied,
                "shared_state": deepcopy(board.variables),
                "trigger_type": trigger,
                "phase": number,
            }
        )
        answers = await asyncio.gather(*[agent.evaluate(shown) for agent in due], return_exceptions=True)
        ordered = sorted(zip(due, answers, strict=True), key=lambda one: one[0].config.priority)
        for agent, answer in ordered:
            if isinstance(answer, AgentResponse):
                _merge(agent, answer, board, total)

    def _is_due(
        self, agent: BaseAgent, trigger: TriggerType, names: set[str], context: AgentContext, now: float
    ) -> bool:
        key = (context.session_id, agent.config.id)
        if trigger not in agent.config.trigger_types or now - self._last_runs.get(key, -1e9) < agent.config.cooldown:
            return False
        if trigger is TriggerType.EVENT and not names.intersection(agent.config.subscribed_events):
            return False
        self._last_runs[key] = now
        return True


def _merge(agent: BaseAgent, answer: AgentResponse, board: CopiedBoard, total: AgentResponse) -> None:
    board.variables.update(answer.variable_updates)
    total.variable_updates.update(answer.variable_updates)
    for name, items in answer.queue_pushes.items():
        board.queues.setdefault(name, []).extend(items)
        total.queue_pushes.setdefault(name, []).extend(items)
    for fact in answer.facts:
        board.add_fact(fact.model_copy(update={"priority": agent.config.priority}))
    if answer.memory_updates:
        board.memory.setdefault(agent.config.id, {}).update(answer.memory_updates)
    total.insights.extend(answer.insights)
    total.events.extend(answer.events)
    total.facts.extend(answer.facts)
