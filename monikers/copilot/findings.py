"""What one agent found, taken out of its response and checked (spec 2 §8.5, §13.3.2).

**Invariant: taking never raises.** A malformed field costs that field, with a warning, and never the rest; so does a
value whose own code fails. What is kept is copied here, once: whatever the agent does to its response afterwards
changes nothing.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from monikers.copilot import mending
from monikers.copilot.agent import BaseAgent
from monikers.copilot.board import MEMORY_PREFIX, is_reserved
from monikers.copilot.frozen import copied
from monikers.copilot.models import AgentInsight, AgentResponse, InsightType
from monikers.copilot.records import Event, Fact

_log = logging.getLogger(__name__)
_Record = TypeVar("_Record", bound=BaseModel)
_Taken = TypeVar("_Taken")


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
        read = _Reader(response, found.agent_id)
        told = read.told
        if "insights" in told:
            found.insights = read("insights", _insights, agent)
        if "events" in told:
            found.events = read("events", self._events, agent)
        if "facts" in told:
            found.facts = read("facts", self._facts, agent, place[0])
        if "queue_pushes" in told:
            found.queues = {
                name: list(items) if isinstance(items, list | tuple) else [items]
                for name, items in read.entries("queue_pushes")
            }
        for name in ("data", "debug_info", "usage"):
            if name in told:
                setattr(found, name, dict(read.entries(name)))
        self._take_state(read, found)
        return found

    def _take_state(self, read: _Reader, found: Findings) -> None:
        agent_id, told = found.agent_id, read.told
        variables: dict[str, Any] = {}
        memory: dict[str, dict[str, Any]] = {}
        if "state_updates" in told:
            for key, value in read.entries("state_updates"):
                owner = key.removeprefix(MEMORY_PREFIX)
                if owner != key and owner in self._agent_ids and isinstance(value, dict):
                    memory.setdefault(owner, {}).update(value)
                else:
                    variables[key] = value
        if "variable_updates" in told:
            variables.update(read.entries("variable_updates"))
        if "memory_updates" in told:
            memory.setdefault(agent_id, {}).update(read.entries("memory_updates"))
        for key in [key for key in variables if is_reserved(key)]:
            _lost(agent_id, f"variable_updates[{key!r}]", "variables that begin with sys. belong to the engine")
            del variables[key]
        found.variables, found.memory = variables, memory

    def _events(self, events: Any, agent: BaseAgent) -> Iterator[Event]:
        for event in _records(Event, events, "events", agent.config.id):
            stamp = self._stamp(event, agent)
            yield event.model_copy(update=stamp) if stamp else event

    def _facts(self, facts: Any, agent: BaseAgent, priority: float) -> Iterator[Fact]:
        for fact in _records(Fact, facts, "facts", agent.config.id):
            stamp = {"priority": priority, **self._stamp(fact, agent)}
            if not 0.0 <= fact.confidence <= 1.0:
                stamp["confidence"] = 0.0 if math.isnan(fact.confidence) else min(max(fact.confidence, 0.0), 1.0)
            yield fact.model_copy(update=stamp)

    def _stamp(self, record: Event | Fact, agent: BaseAgent) -> dict[str, Any]:
        """What the engine says of a record that does not say it itself."""
        stamp: dict[str, Any] = {}
        if not record.source_agent:
            stamp["source_agent"] = agent.config.id
        if "timestamp" not in record.model_fields_set or not _is_time(record.timestamp):
            stamp["timestamp"] = self._timestamp
        return stamp


class _Reader:
    """Reads the fields of one response that say something; what a value's own code raises costs the field that it
    stands in."""

    def __init__(self, response: AgentResponse, agent_id: str) -> None:
        self._agent_id = agent_id
        try:
            self.told = {name: value for name, value in response.__dict__.items() if value}
        except Exception:  # a value that cannot be asked whether it is empty: reading it will tell
            self.told = dict(response.__dict__)

    def __call__(self, name: str, take: Callable[..., Iterable[_Taken]], *more: Any) -> list[_Taken]:
        """What `take` finds in a field."""
        try:
            return list(take(self.told[name], *more))
        except Exception as error:
            _lost(self._agent_id, name, f"reading it raised {type(error).__name__}")
            return []

    def entries(self, name: str) -> list[tuple[str, Any]]:
        """The entries of a field that is a dict by name, copied; one that cannot be is left out."""
        return self(name, _entries, name, self._agent_id)


def _is_time(timestamp: float | None) -> bool:
    return timestamp is not None and math.isfinite(timestamp)


def _insights(insights: Any, agent: BaseAgent) -> Iterator[AgentInsight]:
    for insight in insights if isinstance(insights, list | tuple) else [insights]:
        if not isinstance(insight, AgentInsight):
            _lost(agent.config.id, "insights", f"{type(insight).__name__} is no AgentInsight")
            continue
        try:
            yield _whole(insight, agent)
        except Exception as error:
            _lost(agent.config.id, "insights", f"one of them cannot be shown: {type(error).__name__}")


#: how a field is mended that was set to what its type does not allow
_MENDERS: Mapping[str, Callable[[Any], Any]] = {
    "type": mending.insight_type,
    "content": mending.content,
    "confidence": mending.confidence,
    "expiry": mending.expiry,
    "action_label": mending.label,
    "metadata": mending.fields,
}


def _whole(insight: AgentInsight, agent: BaseAgent) -> AgentInsight:
    """A copy of an insight in which every field is what it has to be: what cannot be mended is as usual.

    Raises `ValidationError` for one without words.
    """
    given = {"agent_id": agent.config.id, "agent_name": agent.config.name, "type": InsightType.SUGGESTION}
    given |= vars(insight)
    try:
        checked = AgentInsight.model_validate(given)
    except ValidationError as error:
        for name in {str(one["loc"][0]) for one in error.errors()}:
            _mend(given, name, agent)
        checked = AgentInsight.model_validate(given)
    return insight.model_copy(update={**vars(checked), "metadata": copied(checked.metadata)})


def _mend(given: dict[str, Any], name: str, agent: BaseAgent) -> None:
    _lost(agent.config.id, f"{name} of an insight", "it is not what it has to be")
    usual = {"agent_id": agent.config.id, "agent_name": agent.config.name, "type": InsightType.SUGGESTION}
    value = given.pop(name, None)
    try:
        given[name] = _MENDERS[name](value)
    except (KeyError, mending.UnusableError):
        if name in usual:
            given[name] = usual[name]


def _records(kind: type[_Record], values: Any, name: str, agent_id: str) -> Iterator[_Record]:
    """Events or facts, also those that come as dicts or, events, as mere names."""
    for value in values if isinstance(values, list | tuple) else [values]:
        try:
            given = {"name": value} if kind is Event and isinstance(value, str) else value
            if isinstance(given, kind):
                # made past its checks, perhaps; what was left out has to stay left out
                told = {field: getattr(given, field) for field in given.model_fields_set}
                record = type(given).model_validate(told)
            else:
                record = kind.model_validate(given)
            yield record.sealed()  # type: ignore[attr-defined]
        except Exception as error:
            _lost(agent_id, name, str(error) if isinstance(error, ValidationError) else type(error).__name__)


def _entries(values: Any, name: str, agent_id: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(values, dict) and not isinstance(values, Mapping):  # the second takes ten times as long
        _lost(agent_id, name, f"it is {type(values).__name__} and not a dict")
        return
    for key, value in values.items():
        if not isinstance(key, str):
            _lost(agent_id, name, f"a name in it is {type(key).__name__} and not text")
            continue
        try:
            yield key, copied(value)
        except Exception as error:
            _lost(agent_id, f"{name}[{key!r}]", f"it cannot be copied: {type(error).__name__}")


def _lost(agent_id: str, what: str, why: str) -> None:
    _log.warning("%s of the agent %r is dropped, the rest of its response counts: %s", what, agent_id, why)
