"""Looking through a folder and all below it, without following anything and without an end that is somebody else's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from runtime.tools.workspace.paths import STAGING
from runtime.tools.workspace.port import Entry, Kind, Listing
from runtime.tools.workspace.root import folder, kind_of, look

#: A tree that somebody made deeper than any workspace may be is not walked further down.
DEEPEST = 100


@dataclass(frozen=True, slots=True)
class Found:
    """Something below the folder that is walked. `names` begin at that folder."""

    names: tuple[str, ...]
    kind: Kind
    size: int


@dataclass(frozen=True, slots=True)
class Weight:
    """What a folder holds: files and folders, their bytes, and the levels below it."""

    entries: int = 0
    size: int = 0
    depth: int = 0

    def plus_itself(self) -> Weight:
        """The same with the folder counted too."""
        return Weight(self.entries + 1, self.size, self.depth)


@dataclass(frozen=True, slots=True)
class Walk:
    """All below an open folder, by name, a folder before what is in it. What vanishes meanwhile is left out."""

    at: int
    prefix: tuple[str, ...]
    depth: int = DEEPEST

    def __iter__(self) -> Iterator[Found]:
        return _walk(self.at, (), self.depth, hide_staging=not self.prefix)


def listing(walk: Walk, most: int) -> Listing:
    """The first `most` entries."""
    found = list(islice(walk, most + 1))
    entries = tuple(_entry(walk.prefix, one) for one in found[:most])
    return Listing(entries, truncated=len(found) > most)


def weigh(walk: Walk, most: int) -> Weight:
    """What is there. Counting ends beyond `most` entries: then the answer is too much, by however much."""
    entries, size, depth = 0, 0, 0
    for found in islice(walk, most + 1):
        entries, size, depth = entries + 1, size + found.size, max(depth, len(found.names))
    return Weight(entries, size, depth)


def _walk(at: int, names: tuple[str, ...], depth: int, hide_staging: bool) -> Iterator[Found]:
    if depth < 1:
        return
    for name in sorted(os.listdir(at)):
        if hide_staging and name == STAGING:
            continue
        status = look(at, name)
        if status is None:
            continue
        kind = kind_of(status)
        yield Found((*names, name), kind, status.st_size if kind is Kind.FILE else 0)
        if kind is Kind.FOLDER:
            yield from _below(at, (*names, name), depth - 1)


def _below(at: int, names: tuple[str, ...], depth: int) -> Iterator[Found]:
    try:
        with folder(at, names[-1:]) as inner:
            yield from _walk(inner, names, depth, hide_staging=False)
    except (FileNotFoundError, NotADirectoryError):
        return  # it was there a moment ago, and was removed or replaced since


def _entry(prefix: tuple[str, ...], found: Found) -> Entry:
    # Names that are no text (somebody else wrote them) are shown with their bytes; they cannot be asked for.
    path = "/".join((*prefix, *found.names)).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return Entry(path, found.kind, found.size if found.kind is Kind.FILE else None)
