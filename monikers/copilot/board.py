"""What can be asked of a board, live or shown: the reading operations of spec 2 §6.3, written once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from monikers.copilot.frozen import plain
from monikers.copilot.records import Event, Fact

#: variables that only the engine writes (spec 2 §6.2)
RESERVED = "sys."
#: how version 1 names memory in its state: memory_<agent id> (spec 2 §13.3)
MEMORY_PREFIX = "memory_"


def is_reserved(key: Any) -> bool:
    """Whether a variable belongs to the engine."""
    return isinstance(key, str) and key.startswith(RESERVED)


class SharedState(Mapping[str, Any]):
    """A board as version 1 knew it: variables but the engine's, and each agent's memory as `memory_<id>`. Costs nothing
    to make, and no more than what is read."""

    __slots__ = ("_board",)

    def __init__(self, board: Board) -> None:
        self._board = board

    def __getitem__(self, key: str) -> Any:
        owner = str(key).removeprefix(MEMORY_PREFIX)
        if owner != key and owner in self._board.memory:
            return self._board.memory[owner]
        if is_reserved(key):
            raise KeyError(key)
        return self._board.variables[key]

    def __iter__(self) -> Iterator[str]:
        for key in self._board.variables:
            if not is_reserved(key) and not (
                str(key).startswith(MEMORY_PREFIX) and str(key).removeprefix(MEMORY_PREFIX) in self._board.memory
            ):
                yield key
        for agent_id in self._board.memory:
            yield f"{MEMORY_PREFIX}{agent_id}"

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Board(ABC):
    """Something with the five containers; `Blackboard` can also be written."""

    __slots__ = ()

    @property
    @abstractmethod
    def events(self) -> Sequence[Event]:
        """What happened and has not been handled."""

    @property
    @abstractmethod
    def facts(self) -> Sequence[Fact]:
        """What was learned."""

    variables: Mapping[str, Any]
    queues: Mapping[str, Sequence[Any]]
    memory: Mapping[str, Mapping[str, Any]]

    def has_event(self, event_name: str) -> bool:
        """Whether an event of this name waits."""
        return any(event.name == event_name for event in self.events)

    def get_events_by_name(self, event_name: str) -> list[Event]:
        """All events of a name, oldest first."""
        return [event for event in self.events if event.name == event_name]

    def count_events(self, event_name: str) -> int:
        """How many events of a name wait."""
        return len(self.get_events_by_name(event_name))

    def get_var(self, key: str, default: Any = None) -> Any:
        """The value of a variable."""
        return self.variables.get(key, default)

    def has_var(self, key: str) -> bool:
        """Whether there is such a variable, whatever its value."""
        return key in self.variables

    def peek_queue(self, queue_name: str) -> Any:
        """The first item of a queue; None if it is empty or not there."""
        queue = self.queues.get(queue_name)
        return queue[0] if queue else None

    def queue_length(self, queue_name: str) -> int:
        """How many items a queue holds."""
        return len(self.queues.get(queue_name, ()))

    def has_queue(self, queue_name: str) -> bool:
        """Whether there is such a queue, also an empty one."""
        return queue_name in self.queues

    @abstractmethod
    def get_fact(self, fact_type: str, key: str | None = None) -> Fact | None:
        """The fact of a type and key; without a key the first of the type."""

    @abstractmethod
    def get_facts_by_type(self, fact_type: str) -> list[Fact]:
        """All facts of a type, in the order in which they took their places."""

    def has_fact(self, fact_type: str, key: str | None = None) -> bool:
        """Whether `get_fact` finds one."""
        return self.get_fact(fact_type, key) is not None

    def get_memory(self, agent_id: str) -> dict[str, Any]:
        """A copy of an agent's memory; empty if it has none."""
        memory: dict[str, Any] = plain(self.memory.get(agent_id, {}))
        return memory

    def has_memory(self, agent_id: str) -> bool:
        """Whether an agent remembers anything."""
        return bool(self.memory.get(agent_id))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and dicts; `Blackboard.from_dict` reads it."""
        return {
            "events": plain(self.events),
            "variables": plain(self.variables),
            "queues": plain(self.queues),
            "facts": plain(self.facts),
            "memory": plain(self.memory),
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Board) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """As a field of a model: an instance, written as `to_dict()`."""
        return core_schema.is_instance_schema(
            Board, serialization=core_schema.plain_serializer_function_ser_schema(lambda board: board.to_dict())
        )
