"""A reply and what can be looked up in it at once: which tag closes which, what stands next, which line a place is in.

Everything here is made in one go over the tokens, so that a reader may ask as often as it likes and the whole stays
linear (a lookup in a sorted list counts as one step).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from runtime.tools.markup import Fence, Finder, Tag, Ticks, Token, Tokenizer
from runtime.tools.reserved import THOUGHT_TAGS


@dataclass(frozen=True, slots=True)
class Position:
    """A place as people count: from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class Document:
    """One text with its tokens."""

    def __init__(self, text: str, tools: Iterable[str]) -> None:
        self.text = text
        tokenizer = Tokenizer(text)
        self.tokens: list[Token] = tokenizer.tokens()
        self.finder = Finder(text)
        self._counted = tokenizer.steps + len(self.tokens)
        self._tags = [token for token in self.tokens if isinstance(token, Tag)]
        self._starts = [tag.start for tag in self._tags]
        self._place = {tag.start: number for number, tag in enumerate(self._tags)}
        self._partner = _partners(self._tags)
        self._span = _code_spans(self.tokens)
        self._closes = _by_name(tag for tag in self._tags if tag.closing)
        self._thought_tags = [tag for tag in self._tags if tag.name.lower() in THOUGHT_TAGS]
        known = frozenset(tools)
        self._tool_tags = [tag for tag in self._tags if not tag.closing and tag.name in known]
        self._newlines = [place for place, letter in enumerate(text) if letter == "\n"]

    @property
    def steps(self) -> int:
        """How much was looked at: characters in searches, and tokens."""
        return self._counted + self.finder.steps

    def step(self, count: int = 1) -> None:
        """Count work of a reader."""
        self._counted += count

    def partner(self, tag: Tag) -> Tag | None:
        """The closing tag of an opening one, all tags of that name paired like brackets; None when it has none."""
        return self._partner.get(tag.start)

    def closed_span(self, ticks: Ticks) -> int | None:
        """Where the code span that begins here ends; None when these backticks are only text."""
        return self._span.get(ticks.start)

    def tag_after(self, place: int) -> Tag | None:
        """The first tag that begins at `place` or later."""
        self.step()
        number = bisect_left(self._starts, place)
        return self._tags[number] if number < len(self._tags) else None

    def tag_at(self, place: int) -> Tag | None:
        """The tag that begins exactly at `place`."""
        number = self._place.get(place)
        return None if number is None else self._tags[number]

    def near(self, tag: Tag) -> Tag | None:
        """The tag behind `tag` when nothing but white space is between them."""
        number = self._place[tag.start] + 1
        if number >= len(self._tags):
            return None
        behind = self._tags[number]
        return behind if self.after_space(tag.end) == behind.start else None

    def after_space(self, place: int) -> int:
        """The first place at `place` or later that is no white space."""
        begun = place
        while place < len(self.text) and self.text[place].isspace():
            place += 1
        self.step(place - begun)
        return place

    def closes_between(self, name: str, start: int, end: int) -> Iterator[Tag]:
        """The closing tags of one name that begin in a range, in order."""
        places, tags = self._closes.get(name, ((), ()))
        for number in range(bisect_left(places, start), bisect_left(places, end)):
            self.step()
            yield tags[number]

    def next_close(self, name: str, start: int) -> Tag | None:
        """The first closing tag of one name at `start` or later."""
        return next(self.closes_between(name, start, len(self.text)), None)

    def tools_between(self, start: int, end: int) -> list[str]:
        """The names of the known tools whose tags open in a range, in order."""
        found = self._tool_tags[_from(self._tool_tags, start) : _from(self._tool_tags, end)]
        self.step(len(found))
        return [tag.name for tag in found]

    def thought_tags(self, start: int, end: int) -> list[Tag]:
        """The tags of thoughts in a range, in order."""
        return self._thought_tags[_from(self._thought_tags, start) : _from(self._thought_tags, end)]

    def end_of_thought(self, start: int) -> Tag | None:
        """The first tag at `start` or later that ends a thought."""
        for number in range(_from(self._thought_tags, start), len(self._thought_tags)):
            self.step()
            if self._thought_tags[number].closing:
                return self._thought_tags[number]
        return None

    def end_of_fence(self, number: int, opening: Fence) -> int | None:
        """Where the fence ends that the token of that number opens; None when it stays open."""
        for later in range(number + 1, len(self.tokens)):
            self.step()
            token = self.tokens[later]
            if isinstance(token, Fence) and opening.is_closed_by(token):
                return token.end
        return None

    def position(self, place: int) -> Position:
        """The line and the column of a place."""
        line = bisect_right(self._newlines, place - 1) if place else 0
        return Position(line + 1, place - (self._newlines[line - 1] if line else -1))


def _partners(tags: list[Tag]) -> dict[int, Tag]:
    waiting: dict[str, list[int]] = defaultdict(list)
    found: dict[int, Tag] = {}
    for tag in tags:
        if tag.opens:
            waiting[tag.name].append(tag.start)
        elif tag.closing and waiting[tag.name]:
            found[waiting[tag.name].pop()] = tag
    return found


def _code_spans(tokens: list[Token]) -> dict[int, int]:
    """Each run of backticks that can open a code span -> the end of the next run of that length in its paragraph."""
    ahead: dict[tuple[int, int], Ticks] = {}
    found: dict[int, int] = {}
    for token in reversed(tokens):
        if isinstance(token, Ticks):
            closing = ahead.get((token.paragraph, token.opening))
            if token.opening and closing:
                found[token.start] = closing.end
            ahead[token.paragraph, token.end - token.start] = token
    return found


def _by_name(tags: Iterable[Tag]) -> dict[str, tuple[list[int], list[Tag]]]:
    found: dict[str, tuple[list[int], list[Tag]]] = {}
    for tag in tags:
        places, listed = found.setdefault(tag.name, ([], []))
        places.append(tag.start)
        listed.append(tag)
    return found


def _from(tags: list[Tag], place: int) -> int:
    return bisect_left(tags, place, key=lambda tag: tag.start)
