"""The containers of the board: dicts and lists that tell the living pictures before they change.

To whoever holds the board they are dicts and lists: `json` writes them, `==` compares them, and what is put into them
is copied, so nothing outside can change what is inside. Nested lists and dicts are containers too. Tuples and sets keep
their kind (a set is kept as a frozenset); an object of any other kind is kept as it is, and changes of its own are not
seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self, SupportsIndex

from monikers.copilot.frozen import UNCHANGEABLE, plain
from monikers.copilot.pictures import Pictures, Tracked
from monikers.copilot.records import Event, Fact


def adopted(value: Any, pictures: Pictures) -> Any:
    """A value as the containers keep it: lists, dicts and sets copied, other objects as they are.

    Raises `RecursionError` for a value that holds itself.
    """
    if type(value) in UNCHANGEABLE:
        return value
    if isinstance(value, Mapping):
        return Shelf(value, pictures)
    if isinstance(value, list):
        return Row(value, pictures)
    if isinstance(value, tuple):
        return tuple([adopted(item, pictures) for item in value])
    if isinstance(value, set | frozenset):
        return frozenset(value)
    return value.sealed() if isinstance(value, Event | Fact) else value


class Shelf(Tracked, dict[Any, Any]):
    """A dict of the board."""

    __slots__ = ("_births", "_born", "pictures")

    def __init__(self, entries: Mapping[Any, Any], pictures: Pictures) -> None:
        super().__init__({key: adopted(value, pictures) for key, value in entries.items()})
        self.pictures = pictures
        #: the rank of each key's arrival, from the first time that a key left while a picture was alive
        self._births: dict[Any, int] | None = None
        self._born = 0

    def birth(self, key: Any) -> int:
        """The rank of a key's arrival among those that are here: the order of keys, also of one that leaves."""
        if self._births is None:
            self._births = {present: number for number, present in enumerate(self)}
            self._born = len(self)
        return self._births[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        value = adopted(value, self.pictures)
        if self.pictures.alive:
            for picture in self.pictures:
                picture.keep_entry(self, key)
        if self._births is not None and key not in self:
            self._births[key] = self._born
            self._born += 1
        super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        if key in self:
            self._leaves(key)
        super().__delitem__(key)

    def _leaves(self, key: Any) -> None:
        if self.pictures.alive:
            for picture in self.pictures:
                picture.keep_entry(self, key, leaves=True)
        if self._births is not None:
            del self._births[key]

    def pop(self, key: Any, *default: Any) -> Any:
        """As a dict's."""
        if key in self:
            self._leaves(key)
        return super().pop(key, *default)

    def popitem(self) -> tuple[Any, Any]:
        """As a dict's: the last entry."""
        if self:
            self._leaves(next(reversed(self)))
        return super().popitem()

    def clear(self) -> None:
        """As a dict's."""
        for key in self:
            self._leaves(key)
        super().clear()

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """As a dict's; gives what is kept."""
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *others: Any, **named: Any) -> None:
        """As a dict's."""
        for key, value in dict(*others, **named).items():
            self[key] = value

    def __ior__(self, other: Any) -> Self:  # type: ignore[misc]
        self.update(other)
        return self

    def __copy__(self) -> dict[Any, Any]:
        return dict(self)

    def __deepcopy__(self, memo: Any) -> Any:
        return plain(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (plain(self),)


class Row(Tracked, list[Any]):
    """A list of the board."""

    __slots__ = ("pictures",)

    def __init__(self, items: Iterable[Any], pictures: Pictures) -> None:
        super().__init__([adopted(item, pictures) for item in items])
        self.pictures = pictures

    def _changes(self, *, whole: bool = True) -> None:
        if self.pictures.alive:
            for picture in self.pictures:
                picture.keep_row(self, whole=whole)

    def _all(self, items: Iterable[Any]) -> Iterator[Any]:
        return (adopted(item, self.pictures) for item in items)

    def append(self, item: Any) -> None:
        """As a list's; costs the same whatever the list holds."""
        item = adopted(item, self.pictures)
        self._changes(whole=False)
        super().append(item)

    def extend(self, items: Iterable[Any]) -> None:
        """As a list's; costs what is added."""
        more = list(self._all(items))
        self._changes(whole=False)
        super().extend(more)

    def insert(self, at: SupportsIndex, item: Any) -> None:
        """As a list's."""
        item = adopted(item, self.pictures)
        self._changes()
        super().insert(at, item)

    def pop(self, at: SupportsIndex = -1) -> Any:
        """As a list's."""
        self._changes()
        return super().pop(at)

    def remove(self, item: Any) -> None:
        """As a list's."""
        self._changes()
        super().remove(item)

    def clear(self) -> None:
        """As a list's."""
        self._changes()
        super().clear()

    def reverse(self) -> None:
        """As a list's."""
        self._changes()
        super().reverse()

    def sort(self, *, key: Callable[[Any], Any] | None = None, reverse: bool = False) -> None:
        """As a list's."""
        self._changes()
        super().sort(key=key, reverse=reverse)

    def __setitem__(self, at: Any, value: Any) -> None:
        value = list(self._all(value)) if isinstance(at, slice) else adopted(value, self.pictures)
        self._changes()
        super().__setitem__(at, value)

    def __delitem__(self, at: SupportsIndex | slice) -> None:
        self._changes()
        super().__delitem__(at)

    def __iadd__(self, items: Iterable[Any]) -> Self:  # type: ignore[misc]
        self.extend(items)
        return self

    def __imul__(self, times: SupportsIndex) -> Self:
        self[:] = plain(self) * times
        return self

    def __copy__(self) -> list[Any]:
        return list(self)

    def __deepcopy__(self, memo: Any) -> Any:
        return plain(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (plain(self),)
