"""What is remembered is given again only while nothing was committed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from store.sameversion import SameVersion


@dataclass
class Shelf:
    """A table with one text, and how often it was read."""

    text: str = "one"
    version: int = 1
    reads: int = 0
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def newest(self) -> int:
        return self.version

    async def read(self) -> str:
        self.reads += 1
        return self.text

    async def read_slowly(self) -> str:
        found = await self.read()
        await self.go_on.wait()
        return found

    def commit(self, text: str) -> None:
        self.text, self.version = text, self.version + 1


def remembered(shelf: Shelf, *, most: int = 2, heaviest: int = 10) -> SameVersion[str]:
    return SameVersion(shelf.newest, len, most=most, heaviest=heaviest)


async def test_it_is_read_once_while_nothing_is_committed() -> None:
    shelf = Shelf()
    answers = remembered(shelf)
    assert [await answers.get("a", shelf.read) for _ in range(3)] == ["one"] * 3
    assert shelf.reads == 1


async def test_it_is_read_again_after_any_commit() -> None:
    shelf = Shelf()
    answers = remembered(shelf)
    assert await answers.get("a", shelf.read) == "one"
    shelf.commit("two")
    assert await answers.get("a", shelf.read) == "two"


async def test_what_was_read_while_a_commit_came_is_not_given_again() -> None:
    shelf = Shelf()
    answers = remembered(shelf)
    late = asyncio.create_task(answers.get("a", shelf.read_slowly))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    shelf.commit("two")
    assert await answers.get("b", shelf.read) == "two"
    shelf.go_on.set()
    assert await late == "one"  # as it was when it was asked for
    assert await answers.get("a", shelf.read) == "two"


async def test_only_the_newest_and_no_heavy_ones_are_kept() -> None:
    shelf = Shelf()
    answers = remembered(shelf, most=2, heaviest=3)
    for key in ("a", "b", "c", "c", "b"):
        await answers.get(key, shelf.read)
    assert shelf.reads == 3
    await answers.get("a", shelf.read)
    assert shelf.reads == 4
    shelf.commit("heavy")
    for _ in range(2):
        await answers.get("a", shelf.read)
    assert shelf.reads == 6
