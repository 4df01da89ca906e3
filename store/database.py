"""Opening a store: the connection, its tables, its locks; and the tenant's view of it that everything else uses."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import lancedb
from lancedb.db import AsyncConnection

from store.clock import Clock, Ids
from store.codec import RowCodec
from store.crashpoints import CrashPoint, no_crash
from store.errors import StoreUnavailableError
from store.ids import MAIN_TENANT, TenantId
from store.lock import CommitLock
from store.migrations import READ_NEWEST, migrate
from store.options import StoreOptions
from store.schema import ALL_TABLES, TableSpec
from store.scope import ScopedTable
from store.table import Table, TableLocks
from store.watch import CommitWatch, watch_commits

T = TypeVar("T")

_CACHE_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Store:
    """An open store. Close it to finish what was handed over and to let the locks go."""

    options: StoreOptions
    clock: Clock
    ids: Ids
    tables: Mapping[str, Table]
    locks: tuple[TableLocks, ...]

    def tenant(self, tenant: TenantId = MAIN_TENANT) -> TenantStore:
        """One tenant's view: what every function of this folder takes first."""
        return TenantStore(self, tenant)

    def watch(self, *names: str) -> CommitWatch:
        """Something to wait on until one of the named tables has a new version, by any process."""
        return watch_commits(self.options.folder, [self.tables[name] for name in names])

    async def close(self) -> None:
        """Wait for the writes in flight, then release the locks."""
        for table in self.tables.values():
            await table.drained()
        for lock in self.locks:
            lock.commit.close()
            lock.rewrite.close()


@dataclass(frozen=True, slots=True)
class TenantStore:
    """One tenant's view of a store."""

    store: Store
    tenant: TenantId
    _scoped: dict[str, ScopedTable[Any]] = field(default_factory=dict)

    @property
    def clock(self) -> Clock:
        return self.store.clock

    @property
    def ids(self) -> Ids:
        return self.store.ids

    def table(self, codec: RowCodec[T]) -> ScopedTable[T]:
        """This tenant's rows of the codec's table."""
        name = codec.spec.name
        if name not in self._scoped:
            self._scoped[name] = ScopedTable(self.store.tables[name], codec, self.tenant)
        return self._scoped[name]


async def open_store(options: StoreOptions, *, clock: Clock, ids: Ids, crash_point: CrashPoint = no_crash) -> Store:
    """Open the store at `options.url`, made or migrated first where needed.

    Raises `StoreTooNewError` for a store from a newer version, `StoreUnavailableError` when it cannot be reached.
    Two processes that open a new folder at once take turns.
    """
    folder = options.folder
    lock_folder = _lock_folder(folder)
    try:
        connection = await lancedb.connect_async(
            options.url,
            read_consistency_interval=READ_NEWEST,
            session=lancedb.Session(index_cache_size_bytes=_CACHE_BYTES, metadata_cache_size_bytes=_CACHE_BYTES),
        )
        async with AsyncExitStack() as stack:
            first = _lock(lock_folder, "migrate")
            stack.callback(first.close)
            await stack.enter_async_context(first.held())
            await migrate(connection, clock)
    except (OSError, RuntimeError, ValueError) as error:
        raise StoreUnavailableError(
            f"cannot open the store at {options.url!r}: {error}; check STEPWELL_DATA, its rights and free space"
        ) from error
    locks = {
        spec.name: TableLocks(_lock(lock_folder, spec.name), _lock(lock_folder, f"{spec.name}.rewrite"))
        for spec in ALL_TABLES
    }
    tables = {
        spec.name: await _open_table(connection, spec, locks[spec.name], options, crash_point) for spec in ALL_TABLES
    }
    return Store(options, clock, ids, tables, tuple(locks.values()))


async def _open_table(
    connection: AsyncConnection, spec: TableSpec, locks: TableLocks, options: StoreOptions, crash_point: CrashPoint
) -> Table:
    try:
        handle = await connection.open_table(spec.name)
    except (OSError, RuntimeError, ValueError) as error:
        raise StoreUnavailableError(
            f"the store has lost its table {spec.name!r}: {error}; restore it, or set STEPWELL_DATA to another folder"
        ) from error
    return Table(spec, handle, locks, patience_s=options.patience_s, crash_point=crash_point)


def _lock_folder(folder: Path | None) -> Path | None:
    if folder is None:
        return None
    locks = folder / "locks"
    try:
        locks.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailableError(
            f"cannot write to the data folder {str(folder)!r}: {error}; set STEPWELL_DATA to a folder of your own"
        ) from error
    return locks


def _lock(folder: Path | None, name: str) -> CommitLock:
    return CommitLock(None if folder is None else folder / f"{name}.lock")
