"""What one agent found, taken out of its response and checked (spec 2 §8.5, §13.3.2).

A malformed field costs that field, with a warning, and never the rest. What is kept is copied here, once: whatever the
agent does to its response afterwards changes nothing.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from monikers.copilot.agent import BaseAgent
from monikers.copilot.board import MEMORY_PREFIX, is_reserved
from monikers.copilot.frozen import copied
from monikers.copilot.models import AgentInsight, AgentResponse
from monikers.copilot.records import Event, Fact

_log = logging.getLogger(__name__)
_Record = TypeVar("_Record", bound=BaseModel)


@dataclass(slots=True)
class Findings:
    """What one run of an agent adds to the turn."""

    agent_id: str
    place: tuple[int, int]
    insights: Sequence[AgentInsight] = ()
    events: Sequence[Event] = ()
    variables: Mapping[str, Any] = field(default_factory=dict)
    queues: Mapping[str, list[Any]] = field(default_factory=dict)
    facts: Sequence[Fact] = ()
    #: by agent: version 1 may write that of others
    memory: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    debug_info: Mapping[str, Any] = field(default_factory=dict)
    usage: Mapping[str, Any] = field(default_factory=dict)
    failed: bool = False


class Taker:
    """Takes findings out of responses, for one phase of one turn."""

    def __init__(self, agent_ids: Collection[str], timestamp: float) -> None:
        self._agent_ids = agent_ids
        self._timestamp = timestamp

    def failed(self, agent: BaseAgent, place: tuple[int, int], error: BaseException) -> Findings:
        """Those of an agent that failed: an ERROR insight and nothing else."""
        return Findings(agent.config.id, place, insights=[agent.error_insight(error)], failed=True)

    def taken(self, agent: BaseAgent, place: tuple[int, int], response: Any) -> Findings:
        """Those of an agent that answered; of `None` none."""
        found = Findings(agent.config.id, place)
        if response is None:
            return found
        if not isinstance(response, AgentResponse):
            _lost(found.agent_id, "response", f"it is {type(response).__name__} and not an AgentResponse")
            return found
        if response.insights:
            found.insights = list(_insights(response.insights, found.agent_id))
        if response.events:
            found.events = list(self._events(response.events, found.agent_id))
        if response.facts:
            found.facts = list(self._facts(response.facts, agent))
        if response.queue_pushes:
            found.queues = dict(_pushes(response.queue_pushes, found.agent_id))
        for name in ("data", "debug_info", "usage"):
            if getattr(response, name):
                setattr(found, name, dict(_entries(getattr(response, name), name, found.agent_id)))
        self._take_state(response, found)
        return found

    def _take_state(self, response: AgentResponse, found: Findings) -> None:
        agent_id = found.agent_id
        variables: dict[str, Any] = {}
        memory: dict[str, dict[str, Any]] = {}
        if response.state_updates:
            for key, value in _entries(response.state_updates, "state_updates", agent_id):
                owner = key.removeprefix(MEMORY_PREFIX)
                if owner != key and owner in self._agent_ids and isinstance(value, dict):
                    memory.setdefault(owner, {}).update(value)
                else:
                    variables[key] = value
        if response.variable_updates:
            variables.update(_entries(response.variable_updates, "variable_updates", agent_id))
        if response.memory_updates:
            own = memory.setdefault(agent_id, {})
            own.update(_entries(response.memory_updates, "memory_updates", agent_id))
        for key in [key for key in variables if is_reserved(key)]:
            _lost(agent_id, f"variable_updates[{key!r}]", "variables that begin with sys. belong to the engine")
            del variables[key]
        found.variables, found.memory = variables, memory

    def _events(self, events: Any, agent_id: str) -> Iterator[Event]:
        for event in _records(Event, events, "events", agent_id):
            stamp: dict[str, Any] = {}
            if not event.source_agent:
                stamp["source_agent"] = agent_id
            if event.timestamp is None:
                stamp["timestamp"] = self._timestamp
            yield event.model_copy(update=stamp) if stamp else event

    def _facts(self, facts: Any, agent: BaseAgent) -> Iterator[Fact]:
        for fact in _records(Fact, facts, "facts", agent.config.id):
            stamp: dict[str, Any] = {"priority": agent.config.priority}
            if not fact.source_agent:
                stamp["source_agent"] = agent.config.id
            if "timestamp" not in fact.model_fields_set:
                stamp["timestamp"] = self._timestamp
            if not 0.0 <= fact.confidence <= 1.0:
                stamp["confidence"] = 0.0 if math.isnan(fact.confidence) else min(max(fact.confidence, 0.0), 1.0)
            yield fact.model_copy(update=stamp)


def _insights(insights: Any, agent_id: str) -> Iterator[AgentInsight]:
    for insight in insights if isinstance(insights, list | tuple) else [insights]:
        if isinstance(insight, AgentInsight):
            yield insight.model_copy(update={"metadata": copied(insight.metadata)})
        else:
            _lost(agent_id, "insights", f"{type(insight).__name__} is no AgentInsight")


def _records(kind: type[_Record], values: Any, name: str, agent_id: str) -> Iterator[_Record]:
    """Events or facts, also those that come as dicts or, events, as mere names."""
    for value in values if isinstance(values, list | tuple) else [values]:
        try:
            given = {"name": value} if kind is Event and isinstance(value, str) else value
            record = given if isinstance(given, kind) else kind.model_validate(given)
            yield record.sealed()  # type: ignore[attr-defined]
        except (ValidationError, RecursionError) as error:
            _lost(agent_id, name, str(error))


def _pushes(pushes: Any, agent_id: str) -> Iterator[tuple[str, list[Any]]]:
    for name, items in _entries(pushes, "queue_pushes", agent_id):
        yield name, list(items) if isinstance(items, list | tuple) else [items]


def _entries(values: Any, name: str, agent_id: str) -> Iterator[tuple[str, Any]]:
    """The entries of a field that is a dict by name, copied; one that cannot be is left out."""
    if not isinstance(values, dict) and not isinstance(values, Mapping):  # the second takes ten times as long
        _lost(agent_id, name, f"it is {type(values).__name__} and not a dict")
        return
    for key, value in values.items():
        if not isinstance(key, str):
            _lost(agent_id, f"{name}[{key!r}]", "a name has to be text")
            continue
        try:
            yield key, copied(value)
        except RecursionError:
            _lost(agent_id, f"{name}[{key!r}]", "it holds itself")


def _lost(agent_id: str, what: str, why: str) -> None:
    _log.warning("%s of the agent %r is dropped, the rest of its response counts: %s", what, agent_id, why)
