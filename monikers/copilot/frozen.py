"""Lists and dicts that cannot be changed, and the way back to plain ones.

They are real lists and dicts, so whatever reads one (a template, `json`, `isinstance`, `==`) reads these too; slices
and sums of them are plain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from pydantic import BaseModel

from monikers.copilot.errors import ReadOnlyError

#: values that nobody can change, most frequent first
UNCHANGEABLE = frozenset({str, int, float, bool, type(None), bytes, complex})


class FrozenDict(dict[Any, Any]):
    """A dict that refuses to be changed; its values are frozen too. A copy of it is plain."""

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise ReadOnlyError("a dict")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __deepcopy__(self, memo: Any) -> dict[Any, Any]:
        return {key: plain(value) for key, value in self.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (plain(self),)


class FrozenList(list[Any]):
    """A list that refuses to be changed; its items are frozen too. A copy of it is plain."""

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise ReadOnlyError("a list")

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __deepcopy__(self, memo: Any) -> list[Any]:
        return [plain(item) for item in self]

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (plain(self),)


def frozen(value: Any) -> Any:
    """A copy of a value in which no list, dict or set can be changed. Objects of other kinds are taken as they are.

    Raises `RecursionError` for a value that holds itself.
    """
    kind = type(value)
    if kind in UNCHANGEABLE or kind is FrozenDict or kind is FrozenList:
        return value
    if isinstance(value, Mapping):
        return FrozenDict({key: frozen(held) for key, held in value.items()})
    if isinstance(value, list):
        return FrozenList([frozen(item) for item in value])
    if isinstance(value, tuple):
        return tuple([frozen(item) for item in value])
    if isinstance(value, set | frozenset):
        return frozenset(value)
    return value


def plain(value: Any) -> Any:
    """A value as plain lists and dicts that JSON can hold and that the caller may change.

    Takes the containers of the board, views of them, events and facts; sets become lists in the order of their texts.
    Objects of kinds that JSON does not know are taken as they are.
    """
    if type(value) in UNCHANGEABLE or isinstance(value, str | bytes):
        return value
    if isinstance(value, Mapping):
        return {key: plain(held) for key, held in value.items()}
    if isinstance(value, Sequence):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(item) for item in value), key=repr)
    if isinstance(value, BaseModel):
        return plain({name: getattr(value, name) for name in type(value).model_fields})
    return value


def copied(value: Any) -> Any:
    """A value with lists and dicts of the caller's own, plain ones; objects of other kinds are taken as they are.

    Raises `RecursionError` for a value that holds itself.
    """
    if type(value) in UNCHANGEABLE:
        return value
    if isinstance(value, Mapping):
        return {key: copied(held) for key, held in value.items()}
    if isinstance(value, list):
        return [copied(item) for item in value]
    if isinstance(value, tuple):
        return tuple([copied(item) for item in value])
    return set(value) if isinstance(value, set) else value
