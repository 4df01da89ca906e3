"""Erasure: what was deleted from a table is taken off the disk.

LanceDB marks deleted rows in a file beside their data; the data stays until its fragment is rewritten, the words stay
in the full-text index until that is rebuilt, and older versions keep both until they are pruned. Here all three are
done. **Invariant: a sign is set before rows are deleted, and goes when no version on the disk holds them.** The sign is
a file beside the table's locks: empty while the newest version may hold deleted rows, then with the number of the
version from which on none does. Crash before the number is written: all is done again. After: old versions are left,
and are pruned. On object storage there is no such file: every change of the table is taken for a deletion.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from lancedb.expr import Expr
from lancedb.index import FTS, Bitmap, BTree
from lancedb.table import AsyncTable

from store import filters
from store.fulltext import full_text_index
from store.manifest import manifests, read_manifest
from store.schema import TableSpec
from store.table import Table

TENANT = "tenant"
#: with the usual settings and a worker at work, what is deleted is off the disk after so many seconds at most
ERASED_WITHIN_S = 120


class Erasure:
    """What one table has to erase."""

    def __init__(self, table: Table, folder: Path | None) -> None:
        self._table = table
        self._folder = None if folder is None else folder / f"{table.spec.name}.lance"
        self._clean_version = 0

    async def pending(self) -> bool:
        """Whether deleted rows may be on the disk."""
        sign = self._table.erase_sign
        return await self._table.version() != self._clean_version if sign is None else sign.exists()

    async def erase(self) -> None:
        """Rewrite the indexes, and the rows that deleted ones are among. Writers of the table wait meanwhile.

        Old versions are for `Table.compact` to prune, and `settle` looks whether it has.
        """
        if await self.pending() and not self._clean_from():
            await self._table.alone(self._rewrite)

    async def settle(self) -> None:
        """Take the sign away if nothing is left."""
        clean_from = self._clean_from()
        if clean_from and await self._table.oldest_version() >= clean_from:
            await self._table.alone(self._unsign)

    def _clean_from(self) -> int:
        """The first version without the deleted rows; 0 when there is none yet."""
        sign = self._table.erase_sign
        try:
            return 0 if sign is None else int(sign.read_text("ascii") or 0)
        except FileNotFoundError:
            return 0

    async def _rewrite(self, handle: AsyncTable) -> None:
        # With the locks held nobody deletes meanwhile.
        for index in await handle.list_indices():
            column = index.columns[0]
            await handle.create_index(column, config=index_of(self._table.spec, column), replace=True)
        for condition in await self._torn():
            await handle.update(updates_sql=filters.AS_IT_IS, where=condition)
        self._clean_version = int(await handle.version())
        if self._table.erase_sign is not None:
            self._table.erase_sign.write_text(str(self._clean_version), "ascii")

    async def _unsign(self, _: AsyncTable) -> None:
        if self._table.erase_sign is not None and self._clean_from():
            self._table.erase_sign.unlink(missing_ok=True)

    async def _torn(self) -> Sequence[Expr]:
        """The fragments that deleted rows are in; all of them, where the manifest cannot be looked into."""
        if self._folder is None:
            return [filters.in_any_fragment()]
        return [filters.in_fragment(number) for number in await asyncio.to_thread(_torn_fragments, self._folder)]


def index_of(spec: TableSpec, column: str) -> FTS | Bitmap | BTree:
    """The kind of index that a column of a table gets."""
    if column == spec.searched:
        return full_text_index()
    return Bitmap() if column == TENANT else BTree()


def _torn_fragments(table: Path) -> list[int]:
    known = manifests(table)
    if not known:
        return []
    newest = read_manifest(known[max(known)])
    return [one.number for one in newest.fragments if any(file.path.startswith("_deletions/") for file in one.files)]
