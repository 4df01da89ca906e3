"""What rules find in a text, put in order, and what is written in its place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from runtime.guard.port import Span

#: pairs of marks around what is written in the place of something; no rule of this folder matches any of them
MARKS = ("⟦⟧", "⟪⟫", "⦃⦄", "⦗⦘", "⦑⦒")
MARK_CHARS = "".join(MARKS)
_ROUNDS = 16
_ASIDE_CHARS = 10_000  # some 20 ms of work on a slow machine


@dataclass(frozen=True, slots=True)
class Found:
    """The characters `start` up to `end`, and what they are."""

    start: int
    end: int
    label: str


Find = Callable[[str], Iterable[Found]]


async def settled_aside(text: str, find: Find, mask: str = MARKS[0][0]) -> list[Found]:
    """`settled`; a long text in a thread, so that others run meanwhile and a time-out counts."""
    if len(text) < _ASIDE_CHARS:
        return settled(text, find, mask)
    return await asyncio.to_thread(settled, text, find, mask)


def settled(text: str, find: Find, mask: str = MARKS[0][0]) -> list[Found]:
    """All that `find` finds, also once what it found is gone: finding again in the redacted text gives nothing.

    What is found is covered with `mask`, a character that no rule matches, so that positions stay, and is looked
    through again. A text that is not settled after 16 rounds was made to be so, and is found whole.
    """
    known: list[Found] = []
    covered = text
    for _ in range(_ROUNDS):
        new = apart(find(covered))
        if not new:
            return apart(known)
        known += new
        covered = _covered(covered, new, mask)
    return [Found(0, len(text), "unsettled")]


def apart(found: Iterable[Found]) -> list[Found]:
    """Finds in order and without overlap; of those that overlap the first one's label stays."""
    result: list[Found] = []
    for each in sorted(found, key=lambda one: (one.start, -one.end)):
        if each.start == each.end:
            continue
        if result and each.start < result[-1].end:
            last = result.pop()
            each = Found(last.start, max(last.end, each.end), last.label)
        result.append(each)
    return result


def spans(found: Iterable[Found], marks: str = MARKS[0]) -> tuple[Span, ...]:
    """Finds as spans whose replacement tells the label and nothing else."""
    opening, closing = marks[0], marks[1]
    return tuple(Span(one.start, one.end, one.label, f"{opening}redacted {one.label}{closing}") for one in apart(found))


def _covered(text: str, found: list[Found], mask: str) -> str:
    parts: list[str] = []
    at = 0
    for one in found:
        parts += [text[at : one.start], mask * (one.end - one.start)]
        at = one.end
    return "".join([*parts, text[at:]])
