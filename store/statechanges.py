"""How one state differs from the one before it: small, readable in the database, and exact.

    {}                                     nothing changed
    {"=": value}                           it is another value now
    {"+": "more"} or {"+": [items]}        the text or the list grew at its end
    {"skip": 2, "keep": 3}                 the list lost its first 2 items, and all but 3 of the rest
    {"in": {"key or index": changes}}      what is inside it changed
    {"set": {..}, "drop": [..], "order": [..]}   keys of an object: set, gone, and their order where that is new

Exact means: the JSON text of the rebuilt state is that of the state, key order and 1, 1.0 and true included. That is
looked at once for the whole state, so that parts that did not change are compared by `==`, in C.

Why not a library. Measured on a state of 500 KB, a list of 500 items that gets one more (and on one of 40 bytes): this
0.16 ms (5 us); jsonpatch 1.47 4.3 ms (49 us); dictdiffer 0.10 2.6 ms (10 us); deepdiff 9.1 39 ms (128 us); jsondiff 2.2
384 ms (10 us). jsonpatch does not see that the order of keys changed, jsondiff and dictdiffer not that 1 became true,
and none of them says of a text that it grew: they store it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from store.errors import BadRowError
from store.jsontext import json_dumps, safe_json_loads

Json = dict[str, Any]
_Same = Callable[[Any, Any], bool]

#: what is nested deeper is replaced whole
_MAX_DEPTH = 40
#: a text that was shorter is replaced: saying that it grew is no shorter
_SHORT_TEXT = 16


def changes_between(old: Any, new: Any, *, text: str | None = None) -> Json:
    """What turns `old` into `new`, two values as JSON has them. `text` is the JSON text of `new`, where it is known."""
    text = json_dumps(new) if text is None else text
    for same in (_looks_same, _is_same):
        try:
            changes = _between(old, new, same, 0)
        except RecursionError:  # nested deeper than Python compares
            break
        if json_dumps(_changed(old, changes)) == text:
            return changes
    return {"=": new}


def with_changes(old: Any, changes: Json) -> Any:
    """The state after `old`; it shares nothing with `old` nor with `changes`.

    Raises `BadRowError` for changes that were made for another state.
    """
    return safe_json_loads(json_dumps(_fitting(old, changes)))


def states_along(state: Any, changes: Iterable[Json]) -> Iterator[Any]:
    """The state after each of `changes`. What did not change is shared between them: they are for reading.

    Raises `BadRowError` for changes that were made for another state.
    """
    for change in changes:
        state = _fitting(state, change)
        yield state


def _fitting(old: Any, changes: Json) -> Any:
    try:
        return _changed(old, changes)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise BadRowError(f"changes do not fit the state before them ({error!r}); is a row damaged?") from error


def _looks_same(old: Any, new: Any) -> bool:
    return bool(old == new)


def _is_same(old: Any, new: Any) -> bool:
    return bool(old == new) and json_dumps(old) == json_dumps(new)


def _between(old: Any, new: Any, same: _Same, depth: int) -> Json:
    if same(old, new):
        return {}
    if type(old) is not type(new) or depth > _MAX_DEPTH:
        return {"=": new}
    if isinstance(new, str):
        grew = len(old) >= _SHORT_TEXT and len(new) > len(old) and new.startswith(old)
        return {"+": new[len(old) :]} if grew else {"=": new}
    if isinstance(new, dict):
        return _between_objects(old, new, same, depth)
    return _between_lists(old, new, same, depth) if isinstance(new, list) else {"=": new}


def _between_objects(old: Json, new: Json, same: _Same, depth: int) -> Json:
    added = [key for key in new if key not in old]
    found = _inside(old, new, [key for key in new if key in old and not same(old[key], new[key])], same, depth)
    changes = {
        "set": {**{key: change["="] for key, change in found.items() if "=" in change}, **{k: new[k] for k in added}},
        "in": {key: change for key, change in found.items() if "=" not in change},
        "drop": [key for key in old if key not in new],
        "order": _order(old, new, added),
    }
    return {word: what for word, what in changes.items() if what}


def _order(old: Json, new: Json, added: list[str]) -> list[str]:
    """The keys in their new order; empty where that is the old one with new keys behind it."""
    keys = list(new)
    return [] if [*[key for key in old if key in new], *added] == keys else keys


def _between_lists(old: list[Any], new: list[Any], same: _Same, depth: int) -> Json:
    skipped = _skipped(old, new)
    shared = min(len(old) - skipped, len(new))
    rest, front = old[skipped:], new[:shared]
    changes: Json = {"skip": skipped} if skipped else {}
    if shared < len(rest):
        changes["keep"] = shared
    if not same(rest[:shared], front):
        found = _inside(rest, front, [at for at in range(shared) if not same(rest[at], front[at])], same, depth)
        if sum("=" in change for change in found.values()) * 2 > shared:
            return {"=": new}
        changes["in"] = {str(at): change for at, change in found.items()}
    return {**changes, "+": new[shared:]} if len(new) > shared else changes


def _skipped(old: list[Any], new: list[Any]) -> int:
    """How many items were taken from the front, as of a list that keeps the newest ones."""
    if not old or not new or old[0] == new[0] or new[0] not in old:
        return 0
    at = old.index(new[0])
    return at if old[at:] == new[: len(old) - at] else 0


def _inside(old: Any, new: Any, places: list[Any], same: _Same, depth: int) -> dict[Any, Json]:
    return {at: _between(old[at], new[at], same, depth + 1) for at in places}


def _changed(old: Any, changes: Json) -> Any:
    """`old` with `changes`; parts that did not change are the same objects in both."""
    if not changes:
        return old
    if "=" in changes:
        return changes["="]
    if isinstance(old, dict):
        return _changed_object(old, changes)
    return _changed_list(old, changes) if isinstance(old, list) else old + changes["+"]


def _changed_object(old: Json, changes: Json) -> Json:
    new = {**old}
    for key in changes.get("drop", ()):
        del new[key]
    for key, change in changes.get("in", {}).items():
        new[key] = _changed(new[key], change)
    new.update(changes.get("set", {}))
    return {key: new[key] for key in changes["order"]} if "order" in changes else new


def _changed_list(old: list[Any], changes: Json) -> list[Any]:
    new: list[Any] = old[changes.get("skip", 0) :]
    if "keep" in changes:
        del new[changes["keep"] :]
    for at, change in changes.get("in", {}).items():
        new[int(at)] = _changed(new[int(at)], change)
    new += _items(changes)
    return new


def _items(changes: Json) -> list[Any]:
    more = changes.get("+", [])
    if not isinstance(more, list):
        raise TypeError(f"{type(more).__name__} is no list")
    return more
