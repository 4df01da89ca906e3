"""The change feed: what is new in a table since version V, exact and independent of every clock.

A reader that keeps the version it has seen misses nothing and sees nothing twice. The read is one consistent snapshot,
so the highest row version in it is safe to remember.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Literal, TypeVar

from lancedb.expr import Expr

from store.scope import ScopedTable, Versioned

T = TypeVar("T")


class Feed(Generic[T]):
    """Follows one table from a version on. `created` sees new rows, `changed` also sees rows that changed."""

    def __init__(self, table: ScopedTable[T], kind: Literal["created", "changed"], version: int) -> None:
        self._since = table.created_since if kind == "created" else table.changed_since
        self._table = table
        self._version = version

    @property
    def version(self) -> int:
        """Everything up to here was given out."""
        return self._version

    async def poll(self, *conditions: Expr | None, columns: Sequence[str] | None = None) -> list[Versioned[T]]:
        """What came since the last poll, oldest first. Rows that miss the conditions are passed over for good."""
        newest = await self._table.version()
        if newest <= self._version:
            return []
        rows = await self._since(self._version, *conditions, columns=columns)
        self._version = max([newest, *(row.version for row in rows)])
        return rows

    async def skip(self) -> None:
        """Pass over everything up to now without reading it."""
        self._version = max(self._version, await self._table.version())
