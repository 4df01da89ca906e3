"""The tokens of a reply: tags, runs of backticks, fences, quoted lines, comments. What they mean is decided elsewhere.

One pass from left to right, line by line. Nothing is read twice: where a search for a character ended is remembered,
so the number of characters looked at (`steps`) grows with the length of the text and with nothing else.

A tag is `<name>`, `</name>`, `<name/>` or `<name anything>` where `anything` is on one line and has no `<`, `>` or
backtick. All else that begins with `<` is text.
"""

from __future__ import annotations

from dataclasses import dataclass
from string import ascii_letters, digits

_NAME_START = frozenset(ascii_letters + "_")
_NAME = _NAME_START | frozenset(digits + "_-.")
_AFTER_NAME = frozenset(" \t\r\n/>")
_LONGEST_NAME = 100
_BLANKS = " \t"
_TAB = 4
FENCE_LENGTH = 3
COMMENT, COMMENT_END = "<!--", "-->"
CDATA, CDATA_END = "<![CDATA[", "]]>"


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag. `attributes` is what stands behind its name, without the slash of an empty one."""

    start: int
    end: int
    name: str
    closing: bool
    empty: bool
    attributes: str

    @property
    def opens(self) -> bool:
        """Whether something begins here that a closing tag would end."""
        return not self.closing and not self.empty

    @property
    def plain(self) -> bool:
        """Whether it is nothing but a name."""
        return not self.attributes


@dataclass(frozen=True, slots=True)
class Ticks:
    """A run of backticks inside a line. `opening` of them can begin a code span: one behind a backslash cannot."""

    start: int
    end: int
    opening: int
    #: code spans stay within one paragraph
    paragraph: int
    #: no other run follows on its line
    lone: bool

    @property
    def is_fence_behind_words(self) -> bool:
        """Whether it is meant for the beginning of a fence, though it does not begin its line."""
        return self.lone and self.opening >= FENCE_LENGTH


@dataclass(frozen=True, slots=True)
class Fence:
    """A line that begins with three or more backticks or tildes."""

    start: int
    end: int
    letter: str
    length: int
    #: columns before it, with those of a list's mark
    indent: int
    #: nothing stands behind it, and no list's mark before it: it can close another
    bare: bool

    def is_closed_by(self, other: Fence) -> bool:
        """Whether `other` closes this one. A closing line further left ends the list that the fence is in instead."""
        fits = other.letter == self.letter and other.length >= self.length
        least = self.indent if self.indent > 1 else 0
        return other.bare and fits and least <= other.indent <= self.indent + 3


@dataclass(frozen=True, slots=True)
class QuotedLine:
    """A line of a block quote: `> ...`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Aside:
    """The beginning of a comment or a CDATA section; `closer` is what would end it."""

    start: int
    end: int
    closer: str


Token = Tag | Ticks | Fence | QuotedLine | Aside


class Finder:
    """Finds strings in a text. A caller that only goes forward looks at each character once for each string."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found: dict[str, tuple[int, int]] = {}
        #: characters looked at so far
        self.steps = 0

    def next(self, wanted: str, start: int) -> int:
        """Where `wanted` begins at `start` or later; the length of the text when it does not."""
        since, place = self._found.get(wanted, (0, -1))
        if not since <= start <= place:
            found = self._text.find(wanted, start)
            place = len(self._text) if found < 0 else found
            self._found[wanted] = (start, place)
            self.steps += place - start + 1
        return place


class Tokenizer:
    """Cuts one text into tokens."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._finder = Finder(text)
        self._tokens: list[Token] = []
        self._paragraph = 0
        #: a tag over several lines ends here; its lines begin no block
        self._taken = 0

    @property
    def steps(self) -> int:
        """Characters looked at."""
        return self._finder.steps

    def tokens(self) -> list[Token]:
        """All tokens, in order; none overlaps another but those on a quoted line."""
        start = 0
        while start < len(self._text):
            end = self._finder.next("\n", start)
            self._line(start, end)
            start = end + 1
        return self._tokens

    def _line(self, start: int, end: int) -> None:
        at = max(start, self._taken)
        if at == start:
            at = self._block(start, end)
        while at < end:
            angle, tick = self._finder.next("<", at), self._finder.next("`", at)
            place = min(angle, tick)
            if place >= end:
                break
            at = self._ticks(place, start, end) if place == tick else self._angle(place)

    def _block(self, start: int, end: int) -> int:
        """Note what the line begins with; gives the place where its inside begins."""
        blank = self._after_blanks(start, end)
        at = self._after_list_mark(blank, end)
        self._paragraph += at > blank
        if self._text[at:end] in ("", "\r"):
            self._paragraph += 1
            return end
        if self._text[at] == ">":
            self._paragraph += 1
            self._tokens.append(QuotedLine(start, end))
            return at
        return self._fence(start, at, end, marked=at > blank) if self._text[at] in "`~" else at

    def _fence(self, start: int, at: int, end: int, *, marked: bool) -> int:
        letter, after = self._text[at], self._run(at)
        rest = self._text[after:end]
        if after - at < FENCE_LENGTH or (letter == "`" and "`" in rest):
            return at
        self._paragraph += 1
        indent = at - start + (_TAB - 1) * self._text.count("\t", start, at)
        self._tokens.append(Fence(at, end, letter, after - at, indent, bare=not marked and not rest.strip()))
        return after

    def _after_blanks(self, at: int, end: int) -> int:
        begun = at
        while at < end and self._text[at] in _BLANKS:
            at += 1
        self._finder.steps += at - begun
        return at

    def _after_list_mark(self, at: int, end: int) -> int:
        """Behind all of `- `, `* `, `+ `, `1. ` or `1) `; at the same place when there is none."""
        while (behind := self._after_one_list_mark(at, end)) != at:
            at = behind
        return at

    def _after_one_list_mark(self, at: int, end: int) -> int:
        after = at
        while after < end and self._text[after] in digits and after - at < 9:
            after += 1
        marks = "-*+" if after == at else ".)"
        if after + 1 < end and self._text[after] in marks and self._text[after + 1] in _BLANKS:
            return self._after_blanks(after + 1, end)
        return at

    def _run(self, at: int) -> int:
        """Behind the run of one letter that begins here."""
        after = at
        while after < len(self._text) and self._text[after] == self._text[at]:
            after += 1
        self._finder.steps += after - at
        return after

    def _ticks(self, at: int, line: int, end: int) -> int:
        after, slashes = self._run(at), 0
        while at - slashes > line and self._text[at - slashes - 1] == "\\":
            slashes += 1
        self._finder.steps += slashes
        lone = self._finder.next("`", after) >= end
        self._tokens.append(Ticks(at, after, after - at - slashes % 2, self._paragraph, lone))
        return after

    def _angle(self, at: int) -> int:
        for opener, closer in ((COMMENT, COMMENT_END), (CDATA, CDATA_END)):
            if self._text.startswith(opener, at):
                self._tokens.append(Aside(at, at + len(opener), closer))
                return at + len(opener)
        tag = self._tag(at)
        if tag is None:
            return at + 1
        self._tokens.append(tag)
        self._taken = tag.end
        return tag.end

    def _tag(self, at: int) -> Tag | None:
        closing = self._text.startswith("/", at + 1)
        begun = at + 2 if closing else at + 1
        after = self._after_name(begun)
        if after == begun or self._text[after : after + 1] not in _AFTER_NAME:
            return None
        end = self._finder.next(">", after)
        if end >= min(len(self._text), self._finder.next("<", after), self._finder.next("`", after)):
            return None
        inside = self._text[after:end].strip()
        if inside and "\n" in self._text[after:end]:  # a line of it may be a fence or a quote
            return None
        empty = inside.endswith("/") and not closing
        attributes = inside.removesuffix("/").rstrip()
        return Tag(at, end + 1, self._text[begun:after], closing, empty, attributes)

    def _after_name(self, at: int) -> int:
        after = at
        if at < len(self._text) and self._text[at] in _NAME_START:
            while after < len(self._text) and self._text[after] in _NAME and after - at < _LONGEST_NAME:
                after += 1
        self._finder.steps += after - at + 1
        return after
