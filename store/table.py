"""One LanceDB table: its group-committed writes and its reads. Reached only through `store.scope.ScopedTable`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from lancedb.expr import Expr
from lancedb.query import ColumnOrdering
from lancedb.table import AsyncTable
from tenacity import AsyncRetrying, retry_if_not_exception_type, stop_after_delay, wait_random_exponential

from store import filters
from store.codec import clean_row, to_batch
from store.crashpoints import CrashPoint
from store.errors import BadRowError, StoreUnavailableError
from store.groupcommit import GroupCommit
from store.lock import CommitLock
from store.schema import TableSpec, WriteMode

T = TypeVar("T")

Row = tuple[Any, ...]
CommitHook = Callable[[Sequence[Row], int], None]

_MAX_GROUP = 5000
_MAX_NAMED_IDS = 1000
_READ_AGAIN_S = 0.02


@dataclass(frozen=True, slots=True)
class TableLocks:
    """Who waits for whom. An append holds `commit`; a change of rows holds both; compaction holds only `rewrite`.

    Lance lets appends pass a compaction but preempts one whose rows change, so only those two exclude each other.
    """

    commit: CommitLock
    rewrite: CommitLock


@dataclass(frozen=True, slots=True)
class Change:
    """A change of some columns of one row, found by the table's key."""

    columns: tuple[str, ...]
    row: Row


class Table:
    """A table of the store. Appends, upserts and changes are each gathered into group commits."""

    def __init__(
        self, spec: TableSpec, handle: AsyncTable, locks: TableLocks, *, patience_s: float, crash_point: CrashPoint
    ) -> None:
        self.spec = spec
        self._handle = handle
        self._locks = locks
        self._patience_s = patience_s
        self._crash_point = crash_point
        self._hooks: list[CommitHook] = []
        self._appends: GroupCommit[Row] = GroupCommit(self._append, max_items=_MAX_GROUP, on_commit=self._tell)
        self._upserts: GroupCommit[Row] = GroupCommit(self._upsert, max_items=_MAX_GROUP)
        self._changes: GroupCommit[Change] = GroupCommit(self._change, max_items=_MAX_GROUP)

    def append(self, *rows: Row) -> asyncio.Future[int]:
        """Store new rows; the future gives the version that holds them. Crash before: no row. After: all of them."""
        return self._appends.submit(*rows)

    def upsert(self, *rows: Row) -> asyncio.Future[int]:
        """Store `rows` in place of the rows with their keys. In one commit the last of equal keys wins."""
        return self._upserts.submit(*rows)

    def change(self, change: Change) -> asyncio.Future[int]:
        """Change some columns of an existing row; a row that is gone is left alone."""
        return self._changes.submit(change)

    def on_append(self, hook: CommitHook) -> None:
        """Call `hook(rows, version)` right after each commit of appended rows, before their callers go on."""
        self._hooks.append(hook)

    async def read(
        self,
        where: Expr | None,
        *,
        columns: Sequence[str] | None = None,
        order: Sequence[tuple[str, bool]] = (),
        limit: int | None = None,
        offset: int = 0,
    ) -> pa.Table:
        """The rows of the newest version that match. `order` is (column, descending) pairs."""
        return await self._answered(partial(self._query, where, columns, order, limit, offset))

    async def _query(
        self,
        where: Expr | None,
        columns: Sequence[str] | None,
        order: Sequence[tuple[str, bool]],
        limit: int | None,
        offset: int,
    ) -> pa.Table:
        query = self._handle.query()
        if where is not None:
            query = query.where(where)
        if columns is not None:
            query = query.select(list(columns))
        if order:
            query = query.order_by([ColumnOrdering(column_name=name, ascending=not desc) for name, desc in order])
        if offset:
            query = query.offset(offset)
        if limit is not None:
            query = query.limit(limit)
        return await query.to_arrow()

    async def version(self) -> int:
        """The newest version that any process has committed."""
        return int(await self._answered(self._handle.version))

    async def rows(self) -> int:
        """How many rows there are, of all tenants."""
        return int(await self._answered(self._handle.count_rows))

    async def _answered(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask, and once more if that failed: upkeep may have pruned the version under a slow reader."""
        try:
            return await ask()
        except (RuntimeError, OSError):
            await asyncio.sleep(_READ_AGAIN_S)
        try:
            return await ask()
        except (RuntimeError, OSError) as error:
            raise StoreUnavailableError(f"table {self.spec.name!r} could not be read: {error}") from error

    async def drained(self) -> None:
        """Return when every write handed over so far has ended."""
        for group in (self._appends, self._upserts, self._changes):
            await group.drained()

    async def compact(self, *, keep: timedelta) -> None:
        """Merge small files and drop versions older than `keep`. Writers of changed rows take turns with it."""
        async with self._locks.rewrite.held() if self.spec.mode is WriteMode.UPSERT else nullcontext():
            self._crash_point("upkeep.before_compact")
            await self._handle.optimize(cleanup_older_than=keep)
            self._crash_point("upkeep.after_compact")

    async def build_index(self, column: str, config: Any) -> None:
        """Build or rebuild the index on `column`."""
        await self._handle.create_index(column, config=config, replace=True)

    async def indexed_columns(self) -> set[str]:
        """The columns that have an index."""
        return {column for index in await self._handle.list_indices() for column in index.columns}

    async def _append(self, rows: Sequence[Row]) -> int:
        missing = list(rows)
        first = True

        async def write() -> int:
            nonlocal missing, first
            if not first:
                missing = await self._not_stored(missing)
            first = False
            return await self._add(missing) if missing else await self.version()

        return await self._patiently(write)

    async def _add(self, rows: Sequence[Row]) -> int:
        batch = self._batch(rows)
        async with self._locks.commit.held():
            self._crash_point(f"{self.spec.name}.before_commit")
            result = await self._handle.add(batch)
            self._crash_point(f"{self.spec.name}.after_commit")
        return int(result.version)

    def _batch(self, rows: Sequence[Row]) -> pa.RecordBatch:
        try:
            return to_batch(self.spec.schema, rows)
        except BadRowError:
            return to_batch(self.spec.schema, [clean_row(row) for row in rows])

    async def _not_stored(self, rows: list[Row]) -> list[Row]:
        """An append may have been stored though its answer was lost: look before writing again."""
        names = self.spec.key
        at = [self.spec.schema.get_field_index(name) for name in names]
        keys = [clean_row(tuple(row[index] for index in at)) for row in rows]
        stored: set[Row] = set()
        for start in range(0, len(rows), _MAX_NAMED_IDS):
            wanted = [key[1] for key in keys[start : start + _MAX_NAMED_IDS]]
            found = await self.read(filters.one_of(names[1], wanted), columns=names)
            stored.update(zip(*(found.column(name).to_pylist() for name in names), strict=True))
        return [row for row, key in zip(rows, keys, strict=True) if key not in stored]

    async def _upsert(self, rows: Sequence[Row]) -> int:
        at = [self.spec.schema.get_field_index(name) for name in self.spec.key]
        newest = {tuple(row[index] for index in at): row for row in rows}
        batch = self._batch(list(newest.values()))
        return await self._patiently(partial(self._merge, batch, insert=True))

    async def _change(self, changes: Sequence[Change]) -> int:
        """Changes of one commit may name different columns: one merge for each set of columns, in order."""
        version = 0
        for columns in dict.fromkeys(change.columns for change in changes):
            names = (*self.spec.key, *(name for name in columns if name not in self.spec.key))
            schema = pa.schema([self.spec.schema.field(name) for name in names])
            newest = {change.row[: len(self.spec.key)]: change.row for change in changes if change.columns == columns}
            batch = to_batch(schema, [clean_row(row) for row in newest.values()])
            version = await self._patiently(partial(self._merge, batch, insert=False))
        return version

    async def _merge(self, batch: pa.RecordBatch, *, insert: bool) -> int:
        builder = self._handle.merge_insert(list(self.spec.key)).when_matched_update_all()
        if insert:
            builder = builder.when_not_matched_insert_all()
        async with self._locks.rewrite.held(), self._locks.commit.held():
            self._crash_point(f"{self.spec.name}.before_commit")
            result = await builder.execute(batch)
            self._crash_point(f"{self.spec.name}.after_commit")
        return int(result.version)

    async def _patiently(self, write: Callable[[], Awaitable[int]]) -> int:
        """Try again with jittered waits for `patience_s` seconds; a value that cannot be stored fails at once."""
        attempts = AsyncRetrying(
            stop=stop_after_delay(self._patience_s),
            wait=wait_random_exponential(multiplier=0.05, max=2.0),
            retry=retry_if_not_exception_type(BadRowError),
            reraise=True,
        )
        try:
            return int(await attempts(write))
        except BadRowError:
            raise
        except Exception as error:
            raise StoreUnavailableError(
                f"table {self.spec.name!r} could not be written for {self._patience_s:g} s ({error}); "
                "check the disk's space and rights, or the bucket, then try again"
            ) from error

    def _tell(self, rows: Sequence[Row], version: int) -> None:
        for hook in self._hooks:
            hook(rows, version)
