"""Strings for a JSON Schema: of a format, of a length, or of a pattern."""

from __future__ import annotations

import re
from collections.abc import Iterator
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

MAX_LENGTH = 10_000
MAX_VARIANTS = 60
WORD = "offline"

_FORMATS = {
    "date-time": "2026-01-01T00:00:00Z",
    "date": "2026-01-01",
    "time": "00:00:00Z",
    "duration": "PT0S",
    "email": "offline@example.com",
    "idn-email": "offline@example.com",
    "hostname": "example.com",
    "idn-hostname": "example.com",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
    "uri": "https://example.com/offline",
    "iri": "https://example.com/offline",
    "uri-reference": "/offline",
    "iri-reference": "/offline",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "json-pointer": "/offline",
    "relative-json-pointer": "0",
    "regex": "offline",
    "uri-template": "/offline",
}
_CLASSES = {
    sre.CATEGORY_DIGIT: "0",
    sre.CATEGORY_NOT_DIGIT: "a",
    sre.CATEGORY_SPACE: " ",
    sre.CATEGORY_NOT_SPACE: "a",
    sre.CATEGORY_WORD: "a",
    sre.CATEGORY_NOT_WORD: "-",
}
_COMMON = "aA0_- .,:/@+#"


def strings_for(schema: dict[str, Any]) -> Iterator[str]:
    """Strings that probably fit, all different ones; whoever asks checks them."""
    least, most = _size(schema, "minLength", 0), _size(schema, "maxLength", MAX_LENGTH)
    if (known := _FORMATS.get(str(schema.get("format")))) is not None:
        yield known
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        for extra in range(min(least, MAX_LENGTH) + 2 if least <= MAX_VARIANTS else 2):
            yield from _of_pattern(pattern, extra)
        for sample in _of_pattern(pattern, least):
            yield from (f"{sample}{more}" for more in ("", *range(1, MAX_VARIANTS)))
    for number in range(1, MAX_VARIANTS):
        word = WORD if number == 1 else f"{WORD} {number}"
        if most < len(word):
            word = str(number)[-most:] if most else ""
        yield word.ljust(least, ".")


def _size(schema: dict[str, Any], key: str, otherwise: int) -> int:
    value = schema.get(key)
    return max(0, min(int(value), MAX_LENGTH)) if isinstance(value, int | float) else otherwise


def _of_pattern(pattern: str, extra: int) -> Iterator[str]:
    """A string that `pattern` finds itself in, its repetitions `extra` times longer than need be."""
    try:
        parsed = _parser.parse(pattern)
    except (re.error, RecursionError, OverflowError):
        return
    try:
        yield _Sample(extra).of(parsed)
    except _NoSampleError:
        return


class _NoSampleError(Exception):
    """The pattern says something that cannot be built straight ahead."""


class _Sample:
    def __init__(self, extra: int) -> None:
        self._extra = extra
        self._groups: dict[int, str] = {}

    def of(self, parts: Any) -> str:
        """The text of a parsed pattern."""
        return "".join(self._one(kind, value) for kind, value in parts)

    def _one(self, kind: Any, value: Any) -> str:
        if kind is sre.LITERAL:
            return chr(value)
        if kind is sre.NOT_LITERAL:
            return next(char for char in _COMMON if ord(char) != value)
        if kind is sre.ANY:
            return "a"
        if kind is sre.IN:
            return self._of_set(value)
        if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            low, high, inner = value
            more = min(self._extra, MAX_LENGTH, int(high) - low)
            self._extra -= more
            return "".join(self.of(inner) for _ in range(min(low, MAX_LENGTH) + more))
        if kind is sre.SUBPATTERN:
            number, _, _, inner = value
            text = self.of(inner)
            if number is not None:
                self._groups[number] = text
            return text
        if kind is sre.ATOMIC_GROUP:
            return self.of(value)
        if kind is sre.BRANCH:
            return self.of(value[1][0])
        if kind is sre.GROUPREF:
            return self._groups.get(value, "")
        if kind in (sre.AT, sre.ASSERT, sre.ASSERT_NOT):
            return ""
        raise _NoSampleError(str(kind))

    def _of_set(self, members: Any) -> str:
        if members and members[0][0] is sre.NEGATE:
            return next((char for char in _COMMON if not any(map(_holder(char), members[1:]))), "é")
        kind, value = members[0]
        if kind is sre.LITERAL:
            return chr(value)
        if kind is sre.RANGE:
            return chr(value[0])
        return _CLASSES[value]


def _holder(char: str) -> Any:
    def holds(member: Any) -> bool:
        kind, value = member
        if kind is sre.LITERAL:
            return ord(char) == int(value)
        if kind is sre.RANGE:
            return int(value[0]) <= ord(char) <= int(value[1])
        space, digit, word = char.isspace(), char.isdigit(), char.isalnum() or char == "_"
        found = {
            sre.CATEGORY_DIGIT: digit,
            sre.CATEGORY_NOT_DIGIT: not digit,
            sre.CATEGORY_SPACE: space,
            sre.CATEGORY_NOT_SPACE: not space,
            sre.CATEGORY_WORD: word,
            sre.CATEGORY_NOT_WORD: not word,
        }
        return found[value]

    return holds
