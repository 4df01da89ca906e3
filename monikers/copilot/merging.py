"""Putting what the agents of a phase found onto the board and into the turn's response (spec 2 §6.5).

Without an await, so nobody sees a merge half done. Ascending (priority, order of registration): who has priority writes
last and wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from monikers.copilot.blackboard import Blackboard
from monikers.copilot.costs import Usage
from monikers.copilot.findings import Findings
from monikers.copilot.models import AgentResponse
from monikers.copilot.records import Fact


def in_order(findings: Iterable[Findings]) -> list[Findings]:
    """Findings as they are merged, whatever the order in which the agents finished."""
    return sorted(findings, key=lambda found: found.place)


def merge(findings: Iterable[Findings], board: Blackboard, total: AgentResponse) -> None:
    """Put findings onto the board, and add them to the turn's response. Events stay off the board."""
    ordered = in_order(findings)
    for found in ordered:
        for key, value in found.variables.items():
            board.variables[key] = value
        for name, items in found.queues.items():
            board.push_queue_items(name, items)
        for agent_id, updates in found.memory.items():
            if updates:  # memory that is there and empty would be memory that was emptied
                board.update_memory(agent_id, updates)
        _add(found, total)
    merge_facts([fact for found in ordered for fact in found.facts], board)


def merge_facts(facts: Iterable[Fact], board: Blackboard) -> None:
    """Offer facts that stand in the order of a merge; of those for one place only the best: priority decides, then
    confidence, then order. Against older ones `facts.replaces` decides."""
    best: dict[tuple[str, str | None], Fact] = {}
    for fact in facts:
        place = fact.type, fact.key
        rival = best.get(place)
        if rival is None or (fact.priority, fact.confidence) >= (rival.priority, rival.confidence):
            best.pop(place, None)  # it stands where it comes in the merge, not where the other one came
            best[place] = fact
    for fact in best.values():
        board.facts.offer(fact)


def _add(found: Findings, total: AgentResponse) -> None:
    total.insights.extend(found.insights)
    total.events.extend(found.events)
    total.facts.extend(found.facts)
    total.variable_updates.update(found.variables)
    total.state_updates.update(found.variables)
    for name, items in found.queues.items():
        total.queue_pushes.setdefault(name, []).extend(items)
    for agent_id, updates in found.memory.items():
        total.memory_updates.update(updates)
        total.memory_updates_by_agent.setdefault(agent_id, {}).update(updates)
    for key, value in found.data.items():
        _add_data(total.data, key, value)
    if found.debug_info:
        total.debug_info[found.agent_id] = found.debug_info
    if found.usage:
        total.usage = _sum(total.usage, found.usage)


def _add_data(data: dict[str, Any], key: str, value: Any) -> None:
    """Lists of one name are joined, anything else is the last one's."""
    if isinstance(data.get(key), list) and isinstance(value, list):
        data[key] = [*data[key], *value]
    else:
        data[key] = value


def _sum(total: Mapping[str, Any], more: Mapping[str, Any]) -> Usage:
    summed = Usage(total)
    summed.add(more)
    return summed
