"""Cuts a text into sections by its headings, and long sections into parts, without losing a character."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markdown_it import MarkdownIt

from monikers.words import one_line

MAX_TITLE_CHARS = 120

_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANK = re.compile(r"\s*")
#: where a long section may be cut, best place first
_BREAKS = (
    re.compile(r"[\r\n](?=#{1,6}\s)"),
    re.compile(r"(?:\r\n|\r|\n)[^\S\r\n]*(?:\r\n|\r|\n)"),
    _LINE_END,
    re.compile(r"[.!?\u2026]\s|[\u3002\uff01\uff1f]"),
    re.compile(r"\s"),
)


@dataclass(frozen=True, slots=True)
class Section:
    """One piece of a text: `text[start:end]`. `token` is "3", or "3.2" for the second part of a long section."""

    token: str
    title: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Heading:
    level: int
    title: str
    start: int


def split_sections(text: str, max_chars: int) -> list[Section]:
    """The sections of `text`, in order; their slices joined are `text`.

    No section is blank, and none is longer than `max_chars` but for white space at its ends. A blank text has none.
    """
    if not text.strip():
        return []
    spans = _spans(text, _headings(text))
    return [
        part
        for number, ((title, start), (_, end)) in enumerate(pairwise([*spans, ("", len(text))]), start=1)
        for part in _parts(text, Section(str(number), title, start, end), max_chars)
    ]


def _headings(text: str) -> list[_Heading]:
    starts = [0, *(found.end() for found in _LINE_END.finditer(text))]
    markdown = MarkdownIt("commonmark")
    markdown.core.ruler.enableOnly(["normalize", "block"])
    tokens = markdown.parse(text)
    return [
        _Heading(int(opening.tag[1:]), one_line(words.content, MAX_TITLE_CHARS), starts[opening.map[0]])
        for opening, words in pairwise(tokens)
        if opening.type == "heading_open" and opening.level == 0 and opening.map
    ]


def _spans(text: str, headings: Sequence[_Heading]) -> list[tuple[str, int]]:
    """Title and start of every section; what stands before the first heading is a section unless it is blank."""
    level = _dividing_level(headings)
    spans = [(heading.title, heading.start) for heading in headings if heading.level <= level]
    if not spans:
        return [("", 0)]
    if text[: spans[0][1]].strip():
        return [("", 0), *spans]
    return [(spans[0][0], 0), *spans[1:]]


def _dividing_level(headings: Sequence[_Heading]) -> int:
    """The shallowest level that occurs more than once, so that a lone title does not make one section of it all.

    When no level does, every heading divides.
    """
    levels = Counter(heading.level for heading in headings)
    return min((level for level, count in levels.items() if count > 1), default=max(levels, default=0))


def _parts(text: str, section: Section, max_chars: int) -> list[Section]:
    starts, words_end = [section.start], _words_end(text, section)
    while (first := _skip_blank(text, starts[-1], section.end)) + max_chars < words_end:
        starts.append(_skip_blank(text, _cut(text, first, first + max_chars), section.end))
    if len(starts) == 1:
        return [section]
    bounds = pairwise([*starts, section.end])
    return [
        Section(f"{section.token}.{number}", section.title, start, end)
        for number, (start, end) in enumerate(bounds, start=1)
    ]


def _words_end(text: str, section: Section) -> int:
    return section.start + len(text[section.start : section.end].rstrip())


def _cut(text: str, start: int, limit: int) -> int:
    """The best place to cut between `start` and `limit`; `limit` itself when there is none."""
    return next((at for pattern in _BREAKS if (at := _last_break(pattern, text, start, limit)) > start), limit)


def _last_break(pattern: re.Pattern[str], text: str, start: int, limit: int) -> int:
    """The end of the last match in the second half of the window; -1 without one, so that parts stay of a size."""
    middle = start + (limit - start) // 2
    return max((found.end() for found in pattern.finditer(text, middle, limit)), default=-1)


def _skip_blank(text: str, start: int, end: int) -> int:
    blank = _BLANK.match(text, start, end)
    return blank.end() if blank else start
