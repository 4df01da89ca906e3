"""What a snapshot keeps of a board that goes on changing, and who of the snapshots is still alive.

**Invariant: what a picture shows never changes, and taking one costs nothing.** A container that is about to change
tells every living picture, which keeps the old value under its key. So

- a write costs the same whatever the container holds: one entry for each living picture;
- a picture that outlives its phase still shows what it showed;
- nobody is alive: a write is a dict's write.

A list that only grows costs its pictures a number; changed elsewhere than at its end, it is copied once a picture.
"""

from __future__ import annotations

import heapq
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from monikers.copilot.frozen import UNCHANGEABLE, FrozenDict, FrozenList

if TYPE_CHECKING:
    from monikers.copilot.containers import Row, Shelf


class Tracked:
    """Marks the containers of a board, which tell its pictures before they change."""

    __slots__ = ()


class _Absent:
    """Stands for a key that a picture does not have."""


ABSENT: Final = _Absent()


class Pictures:
    """The living pictures of one board."""

    __slots__ = ("alive",)

    def __init__(self) -> None:
        #: oldest first; a picture that nobody holds leaves by itself
        self.alive: list[weakref.ref[Picture]] = []

    def take(self) -> Picture:
        """The board as it is now. Between two writes everybody gets the same picture."""
        newest = self.alive[-1]() if self.alive else None
        if newest is not None and newest.is_untouched:
            return newest
        picture = Picture()
        self.alive.append(weakref.ref(picture, self.alive.remove))
        return picture

    def __iter__(self) -> Iterator[Picture]:
        # A copy: a picture can die, and leave the list, while somebody goes through it.
        return (picture for ref in tuple(self.alive) if (picture := ref()) is not None)


class _ShelfPast:
    """How a shelf was: its length, old values by key, and where keys stood that left it since."""

    __slots__ = ("gone", "kept", "length", "shelf")

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf  # keeps the shelf, and with it its id
        self.length = len(shelf)
        self.kept: dict[Any, Any] = {}
        self.gone: dict[Any, int] = {}


class _RowPast:
    """How a row was: its first `length` items as they are, or `items` once they changed."""

    __slots__ = ("items", "length", "row")

    def __init__(self, row: Row) -> None:
        self.row = row
        self.length = len(row)
        self.items: list[Any] | None = None


class Picture:
    """A board at one moment: its containers as they are, but for what it kept of them."""

    __slots__ = ("__weakref__", "_rows", "_shelves", "_shown")

    def __init__(self) -> None:
        self._shelves: dict[int, _ShelfPast] = {}
        self._rows: dict[int, _RowPast] = {}
        #: nested containers that were shown, with what stands for them, by id
        self._shown: dict[int, tuple[Any, Any]] = {}

    @property
    def is_untouched(self) -> bool:
        """Whether nothing has changed since the picture was taken."""
        return not self._shelves and not self._rows

    # --- told by containers, before they change ----------------------------------------------------------------------

    def keep_entry(self, shelf: Shelf, key: Any, *, leaves: bool = False) -> None:
        """`key` of a shelf is about to be set, or `leaves`."""
        past = self._shelves.get(id(shelf))
        if past is None:
            past = self._shelves[id(shelf)] = _ShelfPast(shelf)
        if key not in past.kept:
            past.kept[key] = dict.get(shelf, key, ABSENT)
        if leaves and key not in past.gone and past.kept[key] is not ABSENT:
            past.gone[key] = shelf.birth(key)

    def keep_row(self, row: Row, *, whole: bool) -> None:
        """A row is about to grow, or (`whole`) to change elsewhere than at its end."""
        past = self._rows.get(id(row))
        if past is None:
            past = self._rows[id(row)] = _RowPast(row)
        if whole and past.items is None:
            past.items = list.__getitem__(row, slice(past.length))

    # --- read by views -----------------------------------------------------------------------------------------------

    def get(self, shelf: Shelf, key: Any) -> Any:
        """The value of a key as it was, `ABSENT` if there was none. Nested containers come as they are stored."""
        past = self._shelves.get(id(shelf))
        if past is not None and key in past.kept:
            return past.kept[key]
        return dict.get(shelf, key, ABSENT)

    def length(self, shelf: Shelf) -> int:
        """How many keys a shelf had."""
        past = self._shelves.get(id(shelf))
        return len(shelf) if past is None else past.length

    def keys(self, shelf: Shelf) -> list[Any]:
        """The keys of a shelf, in the order they had."""
        past = self._shelves.get(id(shelf))
        if past is None:
            return list(shelf)
        stayed = [key for key in shelf if key not in past.gone and past.kept.get(key) is not ABSENT]
        if not past.gone:
            return stayed
        born = past.gone
        left = sorted(born, key=born.__getitem__)
        return list(heapq.merge(stayed, left, key=lambda key: born[key] if key in born else shelf.birth(key)))

    def first(self, shelf: Shelf) -> Any:
        """The first key of a shelf, `ABSENT` if it had none."""
        if id(shelf) not in self._shelves:
            return next(iter(shelf), ABSENT)
        return next(iter(self.keys(shelf)), ABSENT)

    def items(self, row: Row) -> list[Any]:
        """The items of a row as it was, in a list of the caller's own. Nested containers come as they are stored."""
        past = self._rows.get(id(row))
        if past is None:
            return list(row)
        return list.__getitem__(row, slice(past.length)) if past.items is None else list(past.items)

    def shown(self, value: Any) -> Any:
        """A stored value as a reader gets it: lists and dicts frozen as they were, made once a picture."""
        if type(value) in UNCHANGEABLE:
            return value
        if isinstance(value, tuple):
            return tuple([self.shown(item) for item in value])
        if not isinstance(value, Tracked):
            return value
        known = self._shown.get(id(value))
        if known is None:
            known = self._shown[id(value)] = (value, self._freeze(value))
        return known[1]

    def _freeze(self, value: Any) -> FrozenDict | FrozenList:
        if isinstance(value, dict):
            shelf: Any = value
            return FrozenDict({key: self.shown(self.get(shelf, key)) for key in self.keys(shelf)})
        return FrozenList([self.shown(item) for item in self.items(value)])
