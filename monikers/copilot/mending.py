"""One field of a model's answer at a time: what it should be, mended where its meaning is plain, refused where not.

Each function gives the value or raises `UnusableError`, whose message says what is wrong with the field.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from monikers.copilot.models import MIN_CONTENT_CHARS, Event, Fact, InsightType

MAX_CONTENT_CHARS = 4_000
MAX_NAME_CHARS = 200
MAX_EXPIRY_S = 86_400
_NO = frozenset({"", "false", "no", "none", "null", "0", "n"})


class UnusableError(ValueError):
    """A field of an answer says nothing that can be used."""


def flag(value: Any) -> bool:
    """A yes or no; "false" and "no" are no."""
    return value.strip().casefold() not in _NO if isinstance(value, str) else bool(value)


def content(value: Any) -> str:
    """The words of an insight."""
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        value = " ".join(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise UnusableError(f"is a {kind(value)}, not a text")
    words = value.strip().encode("utf-8", "replace").decode()
    if len(words) < MIN_CONTENT_CHARS:
        raise UnusableError(f"has fewer than {MIN_CONTENT_CHARS} characters")
    return words if len(words) <= MAX_CONTENT_CHARS else words[: MAX_CONTENT_CHARS - 1] + "…"


def insight_type(value: Any) -> InsightType:
    """The type of that name. "error" is the engine's own word: a model that says it warns."""
    try:
        found = InsightType(value.strip().casefold()) if isinstance(value, str) else None
    except ValueError:
        found = None
    if found is None:
        raise UnusableError(f"is {shown(value)}, not one of {', '.join(InsightType)}")
    return InsightType.WARNING if found is InsightType.ERROR else found


def confidence(value: Any) -> float:
    """A number from 0 to 1; one beyond is the nearest of them, and "80 %" is 0.8."""
    share = 1.0
    if isinstance(value, str):
        text = value.strip()
        value, share = (text[:-1].strip(), 0.01) if text.endswith("%") else (text, 1.0)
    found = number(value) * share
    return min(1.0, max(0.0, found))


def expiry(value: Any) -> int:
    """Whole seconds, from one to a day."""
    return int(min(MAX_EXPIRY_S, max(1.0, number(value))))


def number(value: Any) -> float:
    """A finite number, also one that is written as a text."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UnusableError(f"is a {kind(value)}, not a number")
    try:
        found = float(value)
    except (ValueError, OverflowError):
        raise UnusableError(f"is {shown(value)}, not a number") from None
    if not math.isfinite(found):
        raise UnusableError(f"is {found}, not a number")
    return found


def label(value: Any) -> str:
    """A short text."""
    if not isinstance(value, str) or not value.strip():
        raise UnusableError(f"is a {kind(value)}, not a text")
    return value.strip()[:MAX_NAME_CHARS].encode("utf-8", "replace").decode()


def fields(value: Any) -> dict[str, Any]:
    """An object; its keys are texts."""
    if not isinstance(value, Mapping):
        raise UnusableError(f"is a {kind(value)}, not an object")
    return {str(key): value[key] for key in value if isinstance(key, str | int | float)}


def many(value: Any) -> list[Any]:
    """A list; a single thing is a list of one."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def events(value: Any) -> list[Any]:
    """The events of an answer, each to be read by `event`: a list, one of them, or an object of payloads by name."""
    if isinstance(value, Mapping) and "name" not in value:
        return [{"name": name, "payload": value[name]} for name in value]
    return many(value)


def event(value: Any, source: str) -> Event:
    """An event: an object with a name, or the name alone. A payload that is no object becomes `{"value": it}`."""
    if isinstance(value, str):
        return Event(name=label(value), source_agent=source)
    given = fields(value)
    payload = given.get("payload")
    own_id = given.get("id")
    return Event(
        name=_named(given, "name"),
        payload=fields(payload) if isinstance(payload, Mapping) else {} if payload is None else {"value": payload},
        source_agent=source,
        id=own_id if isinstance(own_id, str) else None,
    )


def facts(value: Any) -> list[Any]:
    """The facts of an answer, each to be read by `fact`: a list, one of them, or an object of values by type."""
    if isinstance(value, Mapping) and "type" not in value:
        return [{"type": name, "value": value[name]} for name in value]
    return many(value)


def fact(value: Any, source: str) -> Fact:
    """A fact: an object with a type and a value."""
    given = fields(value)
    if given.get("value") is None:
        raise UnusableError("has no value")
    key, sure = given.get("key"), given.get("confidence")
    try:
        how_sure = 1.0 if sure is None else confidence(sure)
    except UnusableError:
        how_sure = 1.0
    named = str(key) if isinstance(key, str | int) and not isinstance(key, bool) and key != "" else None
    return Fact(type=_named(given, "type"), key=named, value=given["value"], confidence=how_sure, source_agent=source)


def _named(given: Mapping[str, Any], key: str) -> str:
    try:
        return label(given.get(key))
    except UnusableError:
        raise UnusableError(f"has no {key}") from None


def kind(value: Any) -> str:
    """What a JSON value is, in its own words."""
    names = {dict: "object", list: "list", str: "text", bool: "yes or no", type(None): "null", int: "number"}
    return names.get(type(value), type(value).__name__)


def shown(value: Any) -> str:
    """A few characters of a value."""
    return repr(value)[:60] if isinstance(value, str | float | bool | None) else f"a {kind(value)}"
