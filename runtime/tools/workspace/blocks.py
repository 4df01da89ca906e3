"""SEARCH/REPLACE blocks: several edits of one file, all or none, in the form that coding models are used to (aider).

    <<<<<<< SEARCH
    lines as they are in the file
    =======
    lines to put in their place
    >>>>>>> REPLACE

A block is found by whole lines, letter for letter, and has to be there exactly once after the blocks before it. An
empty SEARCH fills a file that is empty or not there yet. What a block cannot say, a line of seven "=" among its own,
is refused rather than guessed; `find_replace` can say it.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from enum import Enum, auto

from runtime.tools.workspace.errors import EditError, shown

_HEAD = re.compile(r"<{7} SEARCH[ \t\r]*")
_DIVIDER = re.compile(r"={7}[ \t\r]*")
_FOOT = re.compile(r">{7} REPLACE[ \t\r]*")
_FENCE = re.compile(r"(```|~~~).*|\s*")

# Looking for the nearest line compares this many lines and characters at most, so that a failed edit stays cheap.
COMPARED_LINES = 2_000
COMPARED_CHARACTERS = 80
NAMED_PLACES = 5


@dataclass(frozen=True, slots=True)
class Block:
    """One edit: `search` becomes `replace`, both lines without their ends. `line` is where it begins in the text."""

    line: int
    search: tuple[str, ...]
    replace: tuple[str, ...]


class _At(Enum):
    OUTSIDE = auto()
    SEARCH = auto()
    REPLACE = auto()


class _Reader:
    """Reads blocks line by line."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.at = _At.OUTSIDE
        self.begun = 0
        self._search: list[str] = []
        self._replace: list[str] = []

    def take(self, number: int, line: str) -> None:
        """Take the next line of the text."""
        if _HEAD.fullmatch(line):
            self._begin(number)
        elif self.at is _At.SEARCH:
            self._take_search(number, line)
        elif self.at is _At.REPLACE:
            self._take_replace(number, line)
        elif not _FENCE.fullmatch(line):
            raise EditError(f"line {number} of the blocks, {shown(line)}, is in no block: begin with <<<<<<< SEARCH")

    def _begin(self, number: int) -> None:
        if self.at is not _At.OUTSIDE:
            raise EditError(f"line {number} begins a block inside the one of line {self.begun}: end that one first")
        self.at, self.begun, self._search, self._replace = _At.SEARCH, number, [], []

    def _take_search(self, number: int, line: str) -> None:
        if _FOOT.fullmatch(line):
            raise EditError(f"the block of line {self.begun} ends in line {number} without =======: put it in between")
        if _DIVIDER.fullmatch(line):
            self.at = _At.REPLACE
        else:
            self._search.append(line)

    def _take_replace(self, number: int, line: str) -> None:
        if _DIVIDER.fullmatch(line):
            raise EditError(f"the block of line {self.begun} has a second ======= in line {number}: use find_replace")
        if _FOOT.fullmatch(line):
            self.blocks.append(Block(self.begun, tuple(self._search), tuple(self._replace)))
            self.at = _At.OUTSIDE
        else:
            self._replace.append(line)


def read_blocks(text: str) -> tuple[Block, ...]:
    """The blocks of a text; blank lines and code fences around them are left out. Raises `EditError`."""
    reader = _Reader()
    for number, line in enumerate(text.split("\n"), start=1):
        reader.take(number, line)
    if reader.at is not _At.OUTSIDE:
        raise EditError(f"the block of line {reader.begun} has no end: close it with >>>>>>> REPLACE")
    if not reader.blocks:
        raise EditError("there is no block: write <<<<<<< SEARCH, the lines, =======, the new lines, >>>>>>> REPLACE")
    return tuple(reader.blocks)


def apply_blocks(text: str, blocks: tuple[Block, ...]) -> str:
    """The text after all blocks. Raises `EditError`, which names the block that does not fit and the nearest line."""
    for number, block in enumerate(blocks, start=1):
        text = _apply(text, block, f"block {number} of {len(blocks)} (line {block.line})")
    return text


def _apply(text: str, block: Block, name: str) -> str:
    if not block.search:
        return _fill(text, block, name)
    # Every line has an end here, so that whole lines are found by one search of the text, in linear time.
    whole = text if text.endswith("\n") or not text else f"{text}\n"
    sought = "".join(f"{line}\n" for line in block.search)
    places = _places(whole, sought)
    if len(places) > 1:
        at = ", ".join(str(whole.count("\n", 0, place) + 1) for place in places)
        raise EditError(f"{name}: its SEARCH is there several times, in lines {at}: add lines around it")
    if not places:
        raise EditError(f"{name}: its SEARCH is not in the file; {_nearest(text, block.search)}; no block was applied")
    (place,) = places
    edited = whole[:place] + "".join(f"{line}\n" for line in block.replace) + whole[place + len(sought) :]
    return edited if whole == text else edited.removesuffix("\n")


def _fill(text: str, block: Block, name: str) -> str:
    if text:
        raise EditError(f"{name}: its SEARCH is empty and the file is not: say which lines to replace")
    return "".join(f"{line}\n" for line in block.replace)


def _places(whole: str, sought: str) -> list[int]:
    """Where some whole lines stand in the text, the first few of them."""
    places: list[int] = []
    anchored, at = f"\n{whole}", -1
    while len(places) < NAMED_PLACES and (at := anchored.find(f"\n{sought}", at + 1)) >= 0:
        places.append(at)
    return places


def _nearest(text: str, search: tuple[str, ...]) -> str:
    """The line of the file that is most like the first line of the SEARCH that says something."""
    if "\r\n" in text and not any(line.endswith("\r") for line in search):
        return "the file ends lines with CRLF and the block does not: end the block's lines as the file does"
    sought = next((line for line in search if line.strip()), search[0])[:COMPARED_CHARACTERS]
    compared = [line[:COMPARED_CHARACTERS] for line in text.split("\n", COMPARED_LINES)[:COMPARED_LINES]]
    best = difflib.get_close_matches(sought, compared, n=1, cutoff=0.3)
    if not best:
        return f"no line is like {shown(sought)}"
    return f"the nearest to {shown(sought)} is line {compared.index(best[0]) + 1}, {shown(best[0])}"
