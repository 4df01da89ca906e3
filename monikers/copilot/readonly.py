"""What a template may see of the board and the context: values that can be read and not changed, and nothing behind.

A template is handed `Fields` and `Items` only. They show what lists and objects hold, wrapped again when it is read,
and have no attribute that leads to the object.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any, overload

from pydantic import BaseModel

from monikers.copilot.models import AgentContext, Event, Fact, shared_state_of

#: what the objects of a board may be asked for that are no pydantic models themselves
_RECORD_NAMES = tuple(dict.fromkeys((*Fact.model_fields, *Event.model_fields)))
#: values that nobody can change and that lead nowhere
_UNCHANGEABLE = frozenset({str, int, float, bool, type(None)})
_BOARD_NAMES = ("variables", "queues", "facts", "events", "memory")
_CONTEXT_NAMES = tuple(
    name for name in AgentContext.model_fields if name not in ("blackboard", "shared_state", "agent_config_overrides")
)


def readonly(value: Any) -> Any:
    """`value` as a template may have it: a scalar, `Fields` or `Items`."""
    kind = type(value)
    if kind in _UNCHANGEABLE or isinstance(value, Fields | Items):
        return value
    if isinstance(value, dict):
        return Fields(value)
    if isinstance(value, list | tuple):
        return Items(value)
    if isinstance(value, BaseModel):
        return Record(value, kind.model_fields)
    return _of_rarer_kind(value)


def _of_rarer_kind(value: Any) -> Any:
    if isinstance(value, Enum):
        return readonly(value.value)
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return Fields(value)
    if isinstance(value, AbstractSet):
        return Items(sorted(value, key=repr))
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return Items(value)
    names = [name for name in _RECORD_NAMES if hasattr(value, name)]
    return Record(value, names) if names else f"({type(value).__name__})"


class Fields(Mapping[Any, Any]):
    """An object's fields, by attribute or by key."""

    __slots__ = ("_held",)

    def __init__(self, held: Mapping[Any, Any]) -> None:
        self._held = held

    def __getitem__(self, key: Any) -> Any:
        return readonly(self._held[key])

    def __contains__(self, key: object) -> bool:
        return key in self._held

    def __iter__(self) -> Iterator[Any]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


class Items(Sequence[Any]):
    """A list's items."""

    __slots__ = ("_held",)

    def __init__(self, held: Sequence[Any]) -> None:
        self._held = held

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> Items: ...
    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return Items(list(self._held)[place])
        return readonly(self._held[place])

    def __len__(self) -> int:
        return len(self._held)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Items | list | tuple) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


class Record(Fields):
    """An object that is no dict, by the names of its fields."""

    __slots__ = ("_names", "_of")

    def __init__(self, of: Any, names: Collection[str]) -> None:
        super().__init__({})
        self._of = of
        self._names = names

    def __getitem__(self, key: Any) -> Any:
        if key not in self._names:
            raise KeyError(key)
        return readonly(getattr(self._of, key))

    def __contains__(self, key: object) -> bool:
        return key in self._names

    def __iter__(self) -> Iterator[Any]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class BoardFields(Record):
    """The five containers of a board, and what it answers when asked."""

    __slots__ = ()

    #: the questions that a template may put
    QUESTIONS = frozenset(
        "get_var has_var get_fact has_fact get_facts_by_type has_event get_events_by_name count_events peek_queue "
        "queue_length has_queue get_memory has_memory".split()
    )

    def __init__(self, board: Any) -> None:
        super().__init__(board, _BOARD_NAMES)

    def question(self, name: str) -> Question:
        """One of `QUESTIONS`, to be called."""
        return Question(getattr(self._of, name))


class Question:
    """A reading operation of the board; what it answers is read-only too."""

    __slots__ = ("_ask",)

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask

    def __call__(self, *args: Any, **named: Any) -> Any:
        return readonly(self._ask(*args, **named))


def board_of(board: Any) -> Any:
    """The board of a context for a template; nothing when the context has none."""
    return None if board is None else BoardFields(board)


def context_of(context: AgentContext, board: Any) -> Fields:
    """A context for a template, with the board as `board_of` gave it."""
    named = {name: getattr(context, name) for name in _CONTEXT_NAMES}
    return Fields({**named, "shared_state": shared_state_of(context), "blackboard": board})
