"""The regular expressions that governance.yaml may hold, read into a tree.

The language is what an automaton can run in time linear in the text: characters, classes, groups, choice, repetition,
and the ends of lines and words. What needs going back (references, looking ahead and behind, greed) is refused here,
so no pattern can hold up a worker, whatever it says and whatever text it meets. `^` and `$` are the ends of a line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

from runtime.guard.errors import PatternError

MAX_PATTERN_CHARS = 2_000
MAX_REPEAT = 500
MAX_DEPTH = 30

CharTest = Callable[[str], bool]


class Edge(StrEnum):
    """A place between two characters."""

    LINE_START = "^"
    LINE_END = "$"
    WORD = "b"
    NO_WORD = "B"


@dataclass(frozen=True, slots=True)
class Char:
    """One character that passes any of the tests, or with `negated` none of them."""

    tests: tuple[CharTest, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class At:
    """An edge; takes no character."""

    edge: Edge


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after another."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Any one of them."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`part` from `low` to `high` times; None is without end."""

    part: Node
    low: int
    high: int | None


Node = Char | At | Sequence | Choice | Repeat


def is_word(char: str) -> bool:
    """Whether a character belongs to a word: a letter, a digit or "_"."""
    return char.isalnum() or char == "_"


def _none_of(test: CharTest) -> CharTest:
    return lambda char: not test(char)


_CLASSES: dict[str, CharTest] = {
    "d": str.isdecimal,
    "w": is_word,
    "s": str.isspace,
    "D": _none_of(str.isdecimal),
    "W": _none_of(is_word),
    "S": _none_of(str.isspace),
}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a", "0": "\0"}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}


def parse(pattern: str) -> Node:
    """The tree of `pattern`. Raises `PatternError` with the place of the mistake and what to write instead."""
    if len(pattern) > MAX_PATTERN_CHARS:
        raise PatternError(f"a pattern of {len(pattern)} characters; the limit is {MAX_PATTERN_CHARS}: split it")
    return _Reader(pattern).whole()


class _Reader:
    """Goes through the pattern once, from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._depth = 0

    def whole(self) -> Node:
        node = self._choice()
        if self._at < len(self._pattern):
            self._refuse("a ) that closes nothing: write \\) for the character")
        return node

    def _choice(self) -> Node:
        parts = [self._sequence()]
        while self._takes("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._at < len(self._pattern) and self._peek() not in "|)":
            parts.append(self._repeated())
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _repeated(self) -> Node:
        node = self._single()
        while self._peek() in {"*", "+", "?", "{"}:
            if isinstance(node, At):
                self._refuse("an edge that is repeated: leave the repetition out")
            if isinstance(node, Repeat):
                self._refuse(
                    "a repetition of a repetition (lazy and possessive ones too): put it in a group, or drop it"
                )
            low, high = self._counts()
            node = Repeat(node, low, high)
        return node

    def _counts(self) -> tuple[int, int | None]:
        sign = self._next()
        if sign != "{":
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        body, closed, _ = self._pattern[self._at :].partition("}")
        low, comma, high = body.partition(",")
        if not closed or not (_is_number(low) or (comma and not low)):
            self._refuse("a { that begins no {n}, {n,} or {n,m}: write \\{ for the character")
        if high and not _is_number(high):
            self._refuse("a { that begins no {n}, {n,} or {n,m}: write \\{ for the character")
        self._at += len(body) + 1
        least = self._count(low or "0")
        most = self._count(high) if high else None if comma else least
        if most is not None and most < least:
            self._refuse(f"{{{body}}} asks for at most {most} and at least {least}: swap them")
        return least, most

    def _count(self, digits: str) -> int:
        if len(digits) > 6 or int(digits) > MAX_REPEAT:
            self._refuse(f"a repetition of {digits[:12]} times; the limit is {MAX_REPEAT}: use * or +")
        return int(digits)

    def _single(self) -> Node:
        char = self._next()
        match char:
            case "(":
                return self._group()
            case "[":
                return self._set()
            case ".":
                return Char((lambda other: other == "\n",), negated=True)
            case "^":
                return At(Edge.LINE_START)
            case "$":
                return At(Edge.LINE_END)
            case "\\":
                return self._escape()
            case "*" | "+" | "?" | "{":
                self._refuse(f"a {char} that repeats nothing: write \\{char} for the character")
            case _:
                pass
        return Char((_equal(char),))

    def _group(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._refuse(f"groups {self._depth} deep; the limit is {MAX_DEPTH}: flatten the pattern")
        if self._peek() == "?":
            if not self._pattern.startswith("?:", self._at):
                self._refuse("a (? that is no (?: group: looking around, names and flags are not run; use ignore_case")
            self._at += 2
        node = self._choice()
        if not self._takes(")"):
            self._refuse("a ( that is never closed: write \\( for the character")
        self._depth -= 1
        # A group of a repetition may itself be repeated.
        return Sequence((node,))

    def _escape(self) -> Node:
        char = self._next()
        match char:
            case "b":
                return At(Edge.WORD)
            case "B":
                return At(Edge.NO_WORD)
            case _:
                test = self._escaped_test(char)
                return Char((test,))

    def _escaped_test(self, char: str) -> CharTest:
        if char in _CLASSES:
            return _CLASSES[char]
        return _equal(self._escaped_char(char))

    def _escaped_char(self, char: str) -> str:
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char in _HEX_DIGITS:
            digits = self._pattern[self._at : self._at + _HEX_DIGITS[char]]
            if len(digits) < _HEX_DIGITS[char] or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
                self._refuse(f"\\{char} needs {_HEX_DIGITS[char]} hexadecimal digits")
            self._at += len(digits)
            if int(digits, 16) > 0x10FFFF:
                self._refuse(f"\\{char}{digits} is no character")
            return chr(int(digits, 16))
        if char.isascii() and char.isalnum():
            self._refuse(f"\\{char} is not known here; references to groups are not run: write the text itself")
        return char

    def _set(self) -> Node:
        negated = self._takes("^")
        tests: list[CharTest] = []
        while not tests or self._peek() != "]":
            if self._at >= len(self._pattern):
                self._refuse("a [ that is never closed: write \\[ for the character")
            tests.append(self._member())
        self._at += 1
        return Char(tuple(tests), negated)

    def _member(self) -> CharTest:
        first = self._next()
        if first == "\\" and self._peek() in _CLASSES:
            return _CLASSES[self._next()]
        low = self._set_char(first)
        if self._peek() != "-" or self._pattern[self._at + 1 : self._at + 2] in {"]", ""}:
            return _equal(low)
        self._at += 1
        high = self._set_char(self._next())
        if high < low:
            self._refuse(f"the range {low}-{high} is upside down: swap its ends")
        return lambda char: low <= char <= high

    def _set_char(self, char: str) -> str:
        if char != "\\":
            return char
        escaped = self._next()
        return "\b" if escaped == "b" else self._escaped_char(escaped)

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _next(self) -> str:
        char = self._peek()
        if not char:
            self._refuse("the pattern ends in the middle of something: finish it")
        self._at += 1
        return char

    def _takes(self, char: str) -> bool:
        found = self._peek() == char
        self._at += found
        return found

    def _refuse(self, why: str) -> NoReturn:
        raise PatternError(f"character {self._at}: {why}")


def _equal(wanted: str) -> CharTest:
    return lambda char: char == wanted


def _is_number(digits: str) -> bool:
    return digits.isdecimal() and digits.isascii()
