"""Answers that stay good while nothing is committed to a table.

Invariant: **an answer is given again only while the table has the version that it had before the answer was read.**
Versions only rise, so an answer that was read while a commit came in is never given again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class SameVersion(Generic[V]):
    """Remembers what was read last of one table. Callers share the answers and must not change them."""

    def __init__(
        self, version: Callable[[], Awaitable[int]], weight: Callable[[V], int], *, most: int, heaviest: int
    ) -> None:
        """At most `most` answers are kept, and none whose `weight` is above `heaviest`."""
        self._version = version
        self._weight = weight
        self._most = most
        self._heaviest = heaviest
        self._at = -1
        self._answers: OrderedDict[Hashable, V] = OrderedDict()

    async def get(self, key: Hashable, read: Callable[[], Awaitable[V]]) -> V:
        """The answer that `read` would give now."""
        version = await self._version()
        if version != self._at:
            self._at = version
            self._answers.clear()
        if key in self._answers:
            self._answers.move_to_end(key)
            return self._answers[key]
        answer = await read()
        if version == self._at and self._weight(answer) <= self._heaviest:
            self._answers[key] = answer
            if len(self._answers) > self._most:
                self._answers.popitem(last=False)
        return answer
