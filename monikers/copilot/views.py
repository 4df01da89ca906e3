"""What agents and templates are shown: views that read a picture of the board and refuse to be written.

The top of each container is read where it stands, so a view costs nothing to make. A list or an object inside is handed
out frozen (monikers/copilot/frozen.py), made when it is first asked for and then shared by all who hold the picture.
`plain` gives what JSON can hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from monikers.copilot.board import Board
from monikers.copilot.errors import ReadOnlyError
from monikers.copilot.frozen import FrozenDict, FrozenList, plain
from monikers.copilot.pictures import ABSENT, Picture
from monikers.copilot.records import Fact

if TYPE_CHECKING:
    from monikers.copilot.containers import Row, Shelf
    from monikers.copilot.facts import Facts


class ShelfView(Mapping[Any, Any]):
    """A dict of the board as a picture shows it."""

    __slots__ = ("_picture", "_shelf")

    def __init__(self, picture: Picture, shelf: Shelf) -> None:
        self._picture = picture
        self._shelf = shelf

    def __getitem__(self, key: Any) -> Any:
        value = self._picture.get(self._shelf, key)
        if value is ABSENT:
            raise KeyError(key)
        return self._picture.shown(value)

    def __contains__(self, key: object) -> bool:
        return self._picture.get(self._shelf, key) is not ABSENT

    def get(self, key: Any, default: Any = None) -> Any:
        """As a dict's."""
        value = self._picture.get(self._shelf, key)
        return default if value is ABSENT else self._picture.shown(value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._picture.keys(self._shelf))

    def __len__(self) -> int:
        return self._picture.length(self._shelf)

    def _plain_dict(self) -> dict[Any, Any]:
        return dict(self.items())

    def __or__(self, other: Any) -> dict[Any, Any]:
        return {**self._plain_dict(), **other}

    def __ror__(self, other: Any) -> dict[Any, Any]:
        return {**other, **self._plain_dict()}

    def copy(self) -> dict[Any, Any]:
        """A plain dict with what is shown."""
        return self._plain_dict()

    def __copy__(self) -> dict[Any, Any]:
        return self._plain_dict()

    def __deepcopy__(self, memo: Any) -> Any:
        return plain(self)

    def __repr__(self) -> str:
        return repr(self._plain_dict())

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise ReadOnlyError("a dict")

    __setitem__ = __delitem__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse


class BlackboardView(Board):
    """The whole board as a picture shows it: every reading operation of a `Blackboard`; the others raise
    `ReadOnlyError`."""

    __slots__ = ("_all_events", "_all_facts", "_picture", "memory", "queues", "variables")

    variables: ShelfView
    queues: ShelfView
    memory: ShelfView
    _picture: Picture
    _all_facts: Facts
    _all_events: Row

    def __init__(
        self, picture: Picture, *, variables: Shelf, queues: Shelf, memory: Shelf, facts: Facts, events: Row
    ) -> None:
        show = object.__setattr__
        show(self, "_picture", picture)
        show(self, "variables", ShelfView(picture, variables))
        show(self, "queues", ShelfView(picture, queues))
        show(self, "memory", ShelfView(picture, memory))
        show(self, "_all_facts", facts)
        show(self, "_all_events", events)

    @property
    def events(self) -> FrozenList:
        """The events on the board."""
        shown: FrozenList = self._picture.shown(self._all_events)
        return shown

    @property
    def facts(self) -> FrozenList:
        """All facts."""
        return FrozenList(self._all_facts.all_in(self._picture))

    def get_fact(self, fact_type: str, key: str | None = None) -> Fact | None:
        return self._all_facts.found_in(self._picture, fact_type, key)

    def get_facts_by_type(self, fact_type: str) -> list[Fact]:
        return self._all_facts.of_type_in(self._picture, fact_type)

    def get_memory(self, agent_id: str) -> dict[str, Any]:
        memory: dict[str, Any] = plain(self.memory.get(agent_id, FrozenDict()))
        return memory

    def snapshot(self) -> BlackboardView:
        """Itself: it never changes."""
        return self

    def __copy__(self) -> BlackboardView:
        return self

    def __deepcopy__(self, memo: Any) -> BlackboardView:
        return self

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise ReadOnlyError("the board")

    __setattr__ = __delattr__ = _refuse
    emit_event = clear_events = set_var = delete_var = _refuse
    push_queue = push_queue_items = pop_queue = clear_queue = _refuse
    add_fact = set_memory = update_memory = _refuse
