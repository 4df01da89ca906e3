"""The blackboard: structured state that the agents of a session share (spec 2 §6).

In memory only; a host that wants to keep it stores `to_dict()`. Its containers are dicts and lists to whoever holds the
board. What is put on it is copied, and `snapshot()` costs nothing (monikers/copilot/pictures.py).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Self

from monikers.copilot.board import RESERVED, Board, is_reserved
from monikers.copilot.containers import Row, Shelf
from monikers.copilot.facts import Facts
from monikers.copilot.frozen import copied, plain
from monikers.copilot.pictures import Pictures
from monikers.copilot.records import Event, Fact
from monikers.copilot.views import BlackboardView

_log = logging.getLogger(__name__)


class Blackboard(Board):
    """Events, variables, queues, facts and memory of one session.

    Events and facts may be given as dicts of their fields. Not for several threads: one event loop reads and writes it.
    """

    def __init__(
        self,
        *,
        events: Iterable[Event | Mapping[str, Any]] = (),
        variables: Mapping[str, Any] | None = None,
        queues: Mapping[str, Any] | None = None,
        facts: Iterable[Fact | Mapping[str, Any]] = (),
        memory: Mapping[str, Any] | None = None,
    ) -> None:
        self._pictures = Pictures()
        #: what the host's `shared_state` said last, by key: only what it says anew is taken in
        self.heard: dict[str, Any] = {}
        #: ids of the events that a running turn has taken up
        self.taken: set[int] = set()
        self.variables = variables or {}
        self.queues = queues or {}
        self.memory = memory or {}
        self.facts = [Fact.model_validate(fact) for fact in facts]
        self.events = [Event.model_validate(event) for event in events]

    # --- the containers; what is assigned is copied ------------------------------------------------------------------

    @property
    def variables(self) -> Shelf:
        """Session state by name."""
        return self._variables

    @variables.setter
    def variables(self, values: Mapping[str, Any]) -> None:
        self._variables = Shelf(values, self._pictures)

    @property
    def queues(self) -> Shelf:
        """Ordered work by name."""
        return self._queues

    @queues.setter
    def queues(self, values: Mapping[str, Any]) -> None:
        self._queues = Shelf({name: list(items) for name, items in values.items()}, self._pictures)

    @property
    def memory(self) -> Shelf:
        """What each agent keeps for itself."""
        return self._memory

    @memory.setter
    def memory(self, values: Mapping[str, Any]) -> None:
        self._memory = Shelf(values, self._pictures)

    @property
    def facts(self) -> Facts:
        """What was learned."""
        return self._facts

    @facts.setter
    def facts(self, values: Iterable[Fact]) -> None:
        self._facts = Facts(values, self._pictures)

    @property
    def events(self) -> Row:
        """What happened and has not been handled."""
        return self._events

    @events.setter
    def events(self, values: Iterable[Event]) -> None:
        self._events = Row(values, self._pictures)

    # --- events ------------------------------------------------------------------------------------------------------

    def emit_event(self, event: Event) -> None:
        """Add an event; it wakes its subscribers in the turn that comes. Events of one name may stand side by side."""
        self._events.append(event)

    def clear_events(self) -> None:
        """Take all events away."""
        self.events = ()

    def drop_events(self, events: Iterable[Event]) -> None:
        """Take these very events away and leave others of their names."""
        gone = {id(event) for event in events}
        if gone:
            self.events = [event for event in self._events if id(event) not in gone]
            self.taken -= gone

    # --- variables ---------------------------------------------------------------------------------------------------

    def set_var(self, key: str, value: Any) -> None:
        """Set a variable. A name that begins with `sys.` is the engine's: it is left alone, with a warning."""
        if not self._is_refused(key):
            self._variables[key] = value

    def set_sys(self, key: str, value: Any) -> None:
        """Set a variable of the engine, `sys.<key>`; for the engine only."""
        self._variables[RESERVED + key] = value

    def delete_var(self, key: str) -> None:
        """Take a variable away, if it is there. The engine's are left alone, with a warning."""
        if not self._is_refused(key):
            self._variables.pop(key, None)

    def _is_refused(self, key: str) -> bool:
        if is_reserved(key):
            _log.warning("the variable %r belongs to the engine: what was written is dropped", key)
            return True
        return False

    # --- queues ------------------------------------------------------------------------------------------------------

    def push_queue(self, queue_name: str, item: Any) -> None:
        """Put an item at the end of a queue, which is made if it is not there."""
        self._queue(queue_name).append(item)

    def push_queue_items(self, queue_name: str, items: Iterable[Any]) -> None:
        """Put items at the end of a queue, in their order."""
        self._queue(queue_name).extend(items)

    def _queue(self, queue_name: str) -> Row:
        if queue_name not in self._queues:
            self._queues[queue_name] = []
        queue: Row = self._queues[queue_name]
        return queue

    def pop_queue(self, queue_name: str) -> Any:
        """Take the first item of a queue; None if it is empty or not there."""
        return plain_item(self._queues[queue_name].pop(0)) if self._queues.get(queue_name) else None

    def clear_queue(self, queue_name: str) -> None:
        """Empty a queue."""
        self._queues[queue_name] = []

    # --- facts -------------------------------------------------------------------------------------------------------

    def add_fact(self, fact: Fact) -> None:
        """Add a fact unless one that is there has to stay (spec 2 §6.5.4). Costs the same whatever is there."""
        self._facts.offer(fact)

    def get_fact(self, fact_type: str, key: str | None = None) -> Fact | None:
        return self._facts.find(fact_type, key)

    def get_facts_by_type(self, fact_type: str) -> list[Fact]:
        return self._facts.of_type(fact_type)

    # --- memory ------------------------------------------------------------------------------------------------------

    def set_memory(self, agent_id: str, data: Mapping[str, Any]) -> None:
        """Replace an agent's memory."""
        self._memory[agent_id] = data

    def update_memory(self, agent_id: str, updates: Mapping[str, Any]) -> None:
        """Set some keys of an agent's memory."""
        if agent_id not in self._memory:
            self._memory[agent_id] = {}
        self._memory[agent_id].update(updates)

    # --- the whole ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> BlackboardView:
        """The board as it is now, for ever. Costs nothing; every write meanwhile costs one entry for each view held."""
        return BlackboardView(
            self._pictures.take(),
            variables=self._variables,
            queues=self._queues,
            memory=self._memory,
            facts=self._facts,
            events=self._events,
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The board that `to_dict` described."""
        return cls(
            events=data.get("events", ()),
            variables=data.get("variables"),
            queues=data.get("queues"),
            facts=data.get("facts", ()),
            memory=data.get("memory"),
        )

    def __copy__(self) -> Self:
        """A board of its own, with what this one holds now."""
        board = type(self)(
            events=self._events,
            variables=self._variables,
            queues=self._queues,
            facts=self._facts,
            memory=self._memory,
        )
        board.heard = copied(self.heard)
        return board

    def __deepcopy__(self, memo: Any) -> Self:
        return self.__copy__()

    def __repr__(self) -> str:
        sizes = {name: len(getattr(self, name)) for name in ("events", "variables", "queues", "facts", "memory")}
        return f"Blackboard({', '.join(f'{size} {name}' for name, size in sizes.items())})"


def plain_item(item: Any) -> Any:
    """What left the board, free of it."""
    return plain(item) if isinstance(item, Shelf | Row) else item
