"""The tenant scope: the only door to a table. No read or write can be built without naming a tenant."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any, Generic, TypeVar

import pyarrow as pa
from lancedb.expr import Expr

from store import filters
from store.codec import RowCodec, clean_row
from store.ids import TenantId
from store.jsontext import json_or_none
from store.table import Change, Table
from store.tablesearch import SCORE, Near, Scored, alike, matching

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Versioned(Generic[T]):
    """A row and the table version that created or last changed it."""

    version: int
    item: T


class ScopedTable(Generic[T]):
    """One tenant's rows of one table, as objects."""

    def __init__(self, table: Table, codec: RowCodec[T], tenant: TenantId) -> None:
        self._table = table
        self._codec = codec
        self._encoder = codec.encoder()
        self._tenant = tenant

    def append(self, item: T) -> asyncio.Future[int]:
        """Store a new row; see `Table.append`."""
        return self._table.append(self._encoder.encode(item, self._tenant))

    def upsert(self, item: T) -> asyncio.Future[int]:
        """Store a row in place of the one with its key; see `Table.upsert`."""
        return self._table.upsert(self._encoder.encode(item, self._tenant))

    async def append_all(self, items: Iterable[T]) -> int:
        """Store several rows in one commit; returns the version that holds them."""
        rows = [self._encoder.encode(item, self._tenant) for item in items]
        return await (self._table.append(*rows) if rows else self._table.version())

    async def upsert_all(self, items: Iterable[T]) -> None:
        """Store several rows by key in one commit."""
        if rows := [self._encoder.encode(item, self._tenant) for item in items]:
            await self._table.upsert(*rows)

    def change(self, key: tuple[Any, ...], **columns: Any) -> asyncio.Future[int]:
        """Change some columns of the row with `key` (the table's key without its tenant)."""
        values = [json_or_none(value) if name in self._codec.json else value for name, value in columns.items()]
        return self._table.change(Change(tuple(columns), (self._tenant, *key, *values)))

    async def insert_missing(self, items: Iterable[T]) -> None:
        """Store those rows whose keys are not there yet."""
        if rows := [self._encoder.encode(item, self._tenant) for item in items]:
            await self._table.insert_missing(rows)

    async def change_if(self, *conditions: Expr, **columns: Any) -> int:
        """Change the rows that meet every condition at the moment of the commit; returns how many. See `Table`."""
        values = {name: json_or_none(value) if name in self._codec.json else value for name, value in columns.items()}
        clean = clean_row(tuple(values.values()))
        return await self._table.change_if(self._where(*conditions), dict(zip(values, clean, strict=True)))

    async def delete(self, *conditions: Expr) -> int:
        """Delete this tenant's rows that meet every condition (at least one is needed); see `Table.delete`."""
        if not conditions:
            raise ValueError("a delete without a condition would empty the table; name the rows")
        return await self._table.delete(reduce(and_, conditions, filters.of_tenant(self._tenant)))

    async def find(
        self,
        *conditions: Expr | None,
        order: Sequence[tuple[str, bool]] = (),
        limit: int | None = None,
        offset: int = 0,
        columns: Sequence[str] | None = None,
    ) -> list[T]:
        """The objects that meet every condition. Columns that were not asked for are None."""
        found = await self._read(conditions, order=order, limit=limit, offset=offset, columns=columns)
        return self._codec.decode_all(found)

    async def find_versioned(
        self,
        *conditions: Expr | None,
        order: Sequence[tuple[str, bool]] = (),
        limit: int | None = None,
        offset: int = 0,
        columns: Sequence[str] | None = None,
    ) -> list[Versioned[T]]:
        """Like `find`, each object with the version that created its row."""
        wanted = [*(columns or self._table.spec.schema.names), filters.CREATED_VERSION]
        found = await self._read(conditions, order=order, limit=limit, offset=offset, columns=wanted)
        versions = found.column(filters.CREATED_VERSION).to_pylist()
        return [Versioned(version, item) for version, item in zip(versions, self._codec.decode_all(found), strict=True)]

    async def first(self, *conditions: Expr | None, order: Sequence[tuple[str, bool]] = ()) -> T | None:
        """The first object that meets every condition, if any."""
        found = await self.find(*conditions, order=order, limit=1)
        return found[0] if found else None

    async def values(self, column: str, *conditions: Expr | None) -> pa.ChunkedArray:
        """One column of the rows that meet every condition."""
        return (await self._read(conditions, columns=[column])).column(column)

    async def created_since(
        self, version: int, *conditions: Expr | None, columns: Sequence[str] | None = None
    ) -> list[Versioned[T]]:
        """Rows appended after `version`, oldest commit first. Exact, whatever the clocks say."""
        return await self._since(filters.CREATED_VERSION, version, conditions, columns)

    async def changed_since(
        self, version: int, *conditions: Expr | None, columns: Sequence[str] | None = None
    ) -> list[Versioned[T]]:
        """Rows appended or changed after `version`, oldest change first; each row once, as it is now."""
        return await self._since(filters.UPDATED_VERSION, version, conditions, columns)

    async def matching(
        self, words: Sequence[str], *conditions: Expr | None, columns: Sequence[str], limit: int
    ) -> list[Scored[T]]:
        """The rows that meet every condition and hold some of `words`, best first; see `store.tablesearch`."""
        where = self._where(*(condition for condition in conditions if condition is not None))
        return self._scored(await matching(self._table, words, where, columns=columns, limit=limit)) if words else []

    async def alike(
        self, words: Sequence[str], near: Near, *conditions: Expr | None, columns: Sequence[str], limit: int
    ) -> list[Scored[T]]:
        """As `matching`, by words and by vector together."""
        where = self._where(*(condition for condition in conditions if condition is not None))
        return self._scored(await alike(self._table, words, near, where, columns=columns, limit=limit))

    def _scored(self, found: pa.Table) -> list[Scored[T]]:
        scores = found.column(SCORE).to_pylist()
        return [Scored(item, score) for item, score in zip(self._codec.decode_all(found), scores, strict=True)]

    async def version(self) -> int:
        """The table's newest version."""
        return await self._table.version()

    async def _since(
        self, mark: str, version: int, conditions: Sequence[Expr | None], columns: Sequence[str] | None
    ) -> list[Versioned[T]]:
        where = filters.every(filters.of_tenant(self._tenant), *conditions)
        wanted = columns or self._table.spec.schema.names
        found = await self._table.read_since(mark, version, where, columns=wanted)
        marks = found.column(mark).to_pylist()
        rows = [Versioned(version, item) for version, item in zip(marks, self._codec.decode_all(found), strict=True)]
        rows.sort(key=lambda row: row.version)
        return rows

    def _where(self, *conditions: Expr) -> Expr:
        return filters.each(filters.of_tenant(self._tenant), *conditions)

    async def _read(self, conditions: Sequence[Expr | None], **options: Any) -> pa.Table:
        where = filters.every(filters.of_tenant(self._tenant), *conditions)
        return await self._table.read(where, **options)
