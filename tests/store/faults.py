"""A table handle that fails on demand, wrapped around the real one."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any, cast

import lancedb
from lancedb.table import AsyncTable

from store.crashpoints import no_crash
from store.database import Store
from store.lock import CommitLock
from store.table import Table, TableLocks


class FaultyHandle:
    """Passes calls on to the real handle, except for those that a test wants to fail.

    `lost`: so many additions are stored though their caller gets an error. `refused`: so many calls of a method fail
    before they do anything; -1 means all of them.
    """

    def __init__(self, real: AsyncTable) -> None:
        self._real = real
        self.lost = 0
        self.refused: dict[str, int] = {}
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def call(*values: Any, **named: Any) -> Any:
            self._may_fail(name)
            return getattr(self._real, name)(*values, **named)

        return call

    async def add(self, batch: Any) -> Any:
        """Store `batch`; the answer may get lost."""
        self._may_fail("add")
        result = await self._real.add(batch)
        if self.lost:
            self.lost -= 1
            raise RuntimeError("the answer was lost")
        return result

    def _may_fail(self, name: str) -> None:
        self.calls.append(name)
        if left := self.refused.get(name, 0):
            self.refused[name] = left - 1
            raise OSError("the disk is away")


async def with_faulty(store: Store, name: str) -> tuple[Store, FaultyHandle]:
    """The same store with a faulty handle under one of its tables."""
    connection = await lancedb.connect_async(store.options.url, read_consistency_interval=timedelta(0))
    handle = FaultyHandle(await connection.open_table(name))
    locks = TableLocks(CommitLock(None), CommitLock(None))
    patience = store.options.patience_s
    table = Table(store.tables[name].spec, cast(AsyncTable, handle), locks, patience_s=patience, crash_point=no_crash)
    return dataclasses.replace(store, tables={**store.tables, name: table}), handle
