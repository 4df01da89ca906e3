"""A text and the strings of the data beside it, read by the gates as one passage and taken apart again.

Read apart, a password could stand under the key that says what it is, and no gate would see the two together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from runtime.guard.port import Span

SEPARATOR = "\n"


def strings_of(value: Any) -> Iterator[str]:
    """Every string in a JSON value, keys too, in an order that `with_strings` knows."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from strings_of(key)
            yield from strings_of(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from strings_of(item)


def with_strings(value: Any, strings: Iterator[str]) -> Any:
    """`value` with `strings` in the place of its own. Keys that become equal are numbered: no value is lost."""
    if isinstance(value, str):
        return next(strings)
    if isinstance(value, dict):
        found: dict[Any, Any] = {}
        for key, item in value.items():
            name = _free(with_strings(key, strings), found)  # before the value: a key comes first
            found[name] = with_strings(item, strings)
        return found
    if isinstance(value, list | tuple):
        return [with_strings(item, strings) for item in value]
    return value


def _free(key: Any, taken: dict[Any, Any]) -> Any:
    number, name = 1, key
    while name in taken:
        number += 1
        name = f"{key} {number}"
    return name


def joined(pieces: Sequence[str]) -> str:
    """The passage that the gates read."""
    return SEPARATOR.join(pieces)


def redacted(pieces: Sequence[str], redactions: Sequence[Sequence[Span]]) -> list[str]:
    """`pieces` after what gates replaced in their passage, gate by gate."""
    parts, gaps = list(pieces), [len(SEPARATOR)] * len(pieces)
    for spans in redactions:
        _cut(parts, gaps, spans)
    return parts


def _cut(parts: list[str], gaps: list[int], spans: Sequence[Span]) -> None:
    """Replace `spans` in place. What stands for a span that reaches over several parts is written into the first."""
    waiting, start = list(spans), 0
    for number, part in enumerate(parts):
        end, at, kept = start + len(part), start, list[str]()
        while waiting and waiting[0].start < end:
            span = waiting[0]
            kept.append(part[at - start : max(span.start - start, at - start)] + (span.replacement or ""))
            at = max(at, min(span.end, end))
            if span.end <= end:
                waiting.pop(0)
            else:  # the rest of it lies in the parts behind
                waiting[0] = Span(end, span.end, span.label, "")
                break
        parts[number] = "".join([*kept, part[at - start :]])
        gap_end = end + gaps[number]
        if waiting and waiting[0].start < gap_end:
            gaps[number] = _left_of_gap(waiting, end, gap_end)
        start = gap_end


def _left_of_gap(waiting: list[Span], start: int, end: int) -> int:
    """How many characters of a gap are left when a span covers it; the span goes on behind it."""
    span = waiting[0]
    if span.end <= end:
        waiting.pop(0)
        return len(span.replacement)
    waiting[0] = Span(end, span.end, span.label, span.replacement)
    return max(0, span.start - start)
