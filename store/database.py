"""Opening a store: the connection, its tables, its locks; and the tenant's view of it that everything else uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import lancedb
from lancedb.db import AsyncConnection
from lancedb.expr import Expr
from lancedb.table import AsyncTable
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from store import filters
from store.clock import Clock, Ids
from store.codec import RowCodec
from store.conditional import refuse_unconditional
from store.crashpoints import CrashPoint, no_crash
from store.errors import StoreUnavailableError
from store.ids import MAIN_TENANT, TenantId
from store.lock import WAIT_S, CommitLock
from store.migrations import READ_NEWEST, migrate
from store.newer import NewerGuard
from store.options import StoreOptions
from store.powercut import first_sync, ready_files
from store.schema import ALL_TABLES, TableSpec
from store.scope import ScopedTable
from store.table import Table, TableLocks
from store.watch import CommitWatch, watch_commits

T = TypeVar("T")
V = TypeVar("V")

# Lance fills its two caches to the brim. 4, 8 and 32 MB were as fast for a page of history out of a million steps.
_CACHE_BYTES = 4 << 20
# A migration of a large store takes a while; without the lock a second process would begin the same one.
_OPENING_S = 60.0
_MIGRATE_ATTEMPTS = 5


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
        tables = [self.tables[name] for name in names]
        return watch_commits(self.options.folder, tables, ask_s=self.options.ask_s)

    async def close(self) -> None:
        """Wait for the writes and the compaction in flight, then release the locks."""
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
    _views: dict[str, Any] = field(default_factory=dict)

    @property
    def clock(self) -> Clock:
        return self.store.clock

    @property
    def ids(self) -> Ids:
        return self.store.ids

    async def values(self, spec: TableSpec, column: str, *conditions: Expr | None) -> list[Any]:
        """One column of the rows of any table that meet every condition."""
        where = filters.every(filters.of_tenant(self.tenant), *conditions)
        found: list[Any] = (await self.store.tables[spec.name].read(where, columns=[column])).column(column).to_pylist()
        return found

    def view(self, name: str, make: Callable[[], V]) -> V:
        """Something that is derived from this tenant's tables and kept: made at first use."""
        if name not in self._views:
            self._views[name] = make()
        found: V = self._views[name]
        return found

    def table(self, codec: RowCodec[T]) -> ScopedTable[T]:
        """This tenant's rows of the codec's table."""
        name = codec.spec.name
        if name not in self._scoped:
            self._scoped[name] = ScopedTable(self.store.tables[name], codec, self.tenant)
        return self._scoped[name]


async def open_store(options: StoreOptions, *, clock: Clock, ids: Ids, crash_point: CrashPoint = no_crash) -> Store:
    """Open the store at `options.url`, made or migrated first where needed.

    Raises `StoreTooNewError` for a store from a newer version, `StoreUnavailableError` when it cannot be reached,
    `StoreDamagedError` when a file is cut or missing; with `options.fsync` what a power cut tore is set aside first.
    Two processes that open a new folder at once take turns. An object store that would lose rows of two writers is
    refused with `StoreUnsafeError`.
    """
    options.check()
    if options.folder is None:
        await refuse_unconditional(options.url, ids)
    lock_folder = _lock_folder(options.folder)
    try:
        async with AsyncExitStack() as stack:
            first = _lock(lock_folder, "migrate", wait_s=_OPENING_S)
            stack.callback(first.close)
            if not await stack.enter_async_context(first.held()):
                raise StoreUnavailableError(
                    f"another process has been opening the store at {options.url!r} for {_OPENING_S:g} s; "
                    "if it is stopped (SIGSTOP, a debugger), let it go on or end it"
                )
            await ready_files(options)
            connection = await lancedb.connect_async(
                options.url,
                read_consistency_interval=READ_NEWEST,
                storage_options=options.storage_options,
                session=lancedb.Session(index_cache_size_bytes=_CACHE_BYTES, metadata_cache_size_bytes=_CACHE_BYTES),
            )
            log = await (migrate(connection, clock) if options.folder else _migrate_beside_others(connection, clock))
            syncs = await first_sync(options)
    except (OSError, RuntimeError, ValueError) as error:
        raise StoreUnavailableError(
            f"cannot open the store at {options.url!r}: {error}; check STEPWELL_DATA, its rights and free space"
        ) from error
    locks = {
        spec.name: TableLocks(_lock(lock_folder, spec.name), _lock(lock_folder, f"{spec.name}.rewrite"))
        for spec in ALL_TABLES
    }
    guard = NewerGuard(log, clock)
    tables = {}
    for spec in ALL_TABLES:
        handle = await _open_table(connection, spec)
        tables[spec.name] = Table(
            spec,
            handle,
            locks[spec.name],
            patience_s=options.patience_s,
            crash_point=crash_point,
            sync=syncs[spec.name],
            may_write=guard,
            read_patience_s=options.read_patience_s,
            erase_sign=None if lock_folder is None else lock_folder / f"{spec.name}.erase",
        )
    return Store(options, clock, ids, tables, tuple(locks.values()))


async def _migrate_beside_others(connection: AsyncConnection, clock: Clock) -> AsyncTable:
    """On object storage nothing keeps two processes from migrating at once: the one that loses a race does it again.

    Migrations are repeatable, so the second time finds what the other one made.
    """
    attempts = AsyncRetrying(
        stop=stop_after_attempt(_MIGRATE_ATTEMPTS),
        wait=wait_random_exponential(multiplier=0.1, max=2.0),
        retry=retry_if_exception_type((OSError, RuntimeError, ValueError)),
        reraise=True,
    )
    log: AsyncTable = await attempts(migrate, connection, clock)
    return log


async def _open_table(connection: AsyncConnection, spec: TableSpec) -> AsyncTable:
    try:
        return await connection.open_table(spec.name)
    except (OSError, RuntimeError, ValueError) as error:
        raise StoreUnavailableError(
            f"the store has lost its table {spec.name!r}: {error}; restore it, or set STEPWELL_DATA to another folder"
        ) from error


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


def _lock(folder: Path | None, name: str, *, wait_s: float = WAIT_S) -> CommitLock:
    return CommitLock(None if folder is None else folder / f"{name}.lock", wait_s=wait_s)
