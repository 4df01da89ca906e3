"""Upkeep: merges small files, prunes old versions and rows, keeps the indexes, in the background, a process at a time.

Measured: an append costs 2.5 ms on a maintained table and 7 ms after 3,000 commits without upkeep; the cost grows with
the files a version names and with the versions kept, so both are kept small. A table's turn comes after `commits`
commits, and no sooner than ten times what its last turn took, so upkeep takes a tenth of the time at most, as long as
that is enough. A turn costs what there is to merge: where a table got many times the commits of a turn meanwhile, the
rest shrinks with them, else each turn would be longer than the one before, and so would its rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from store.clock import Clock
from store.database import Store
from store.erasure import TENANT, Erasure, index_of
from store.errors import StoreError
from store.ids import MAIN_TENANT, TenantId
from store.leftovers import MIN_AGE_S, Leftovers
from store.retention import RetentionRules, retain
from store.table import Table

_REST_FACTOR = 10.0
#: with so many times the commits of a turn a table is as far behind as it may be; beyond that it rests less
_FAR_BEHIND = 5
#: a table that got so many times the commits of a turn is compacted while its writers wait
_BUSY = 2
#: a turn that failed is made up for soon, else the table grows and the next one fails too
_LONGEST_REST_S = 2.0
_SWEEP_EVERY_S = 60.0


class UpkeepLog(Protocol):
    """Where upkeep says what it did."""

    def debug(self, event: str, **fields: object) -> object: ...

    def warning(self, event: str, **fields: object) -> object: ...


@dataclass(frozen=True, slots=True)
class UpkeepRules:
    """When a table's turn comes and what is kept."""

    every_s: float = 1.0
    commits: int = 40
    #: readers of an older version have this long to finish
    keep: timedelta = timedelta(seconds=15)
    #: a table with fewer rows is scanned faster than looked up
    index_rows: int = 20_000
    #: with fewer rows every text is looked through as fast as an index
    search_rows: int = 5_000
    #: seconds between two turns that take deleted rows off the disk, of tables that erase
    erase_every_s: float = 20.0
    #: a file that no version names stays for so many seconds, for a writer that is slow to name it
    leftover_s: float = MIN_AGE_S
    #: what is deleted by age and count; None deletes nothing
    retention: RetentionRules | None = None
    #: seconds between two looks for what may be deleted, at least
    retain_every_s: float = 60.0


@dataclass(slots=True)
class _Turn:
    version: int
    not_before: float = 0.0
    sweep_at: float = 0.0
    erase_at: float = 0.0
    #: the last turn failed: the next one keeps writers waiting
    failed: bool = False


def always() -> bool:
    """Nobody else does upkeep here."""
    return True


class Upkeep:
    """The background work on all tables of a store. Where several processes could do it, `may_run` says which one."""

    def __init__(
        self,
        store: Store,
        rules: UpkeepRules,
        log: UpkeepLog,
        *,
        may_run: Callable[[], bool] = always,
        tenant: TenantId = MAIN_TENANT,
    ) -> None:
        self._db = store.tenant(tenant)
        self._may_run = may_run
        self._retain_not_before = 0.0
        self._tables: Iterable[Table] = tuple(store.tables.values())
        self._clock: Clock = store.clock
        self._rules = rules
        self._log = log
        # Version 1 is the empty table: a store opened with much undone has its turn at once.
        folder = store.options.folder
        self._leftovers = {
            table.spec.name: Leftovers(
                folder / f"{table.spec.name}.lance", store.clock.monotonic, min_age_s=rules.leftover_s
            )
            for table in self._tables
            if folder is not None
        }
        self._erasures = {table.spec.name: Erasure(table, folder) for table in self._tables if table.spec.erases}
        self._turns = {table.spec.name: _Turn(1) for table in self._tables}

    async def run(self) -> None:
        """Work until cancelled. A table that fails is logged and tried again at its next turn."""
        while True:
            if self._may_run():
                await self.once()
            if self._may_run() and self._clock.monotonic() >= self._retain_not_before:
                await self.retain()
            await self._clock.sleep(self._rules.every_s)

    async def once(self, *, force: bool = False) -> list[str]:
        """Give every table that is due its turn; returns their names."""
        done = []
        for table in self._tables:
            if await self._due(table, force=force):
                await self._maintain(table)
                done.append(table.spec.name)
        return done

    async def retain(self) -> dict[str, int]:
        """One turn of retention; returns how many rows of which table were deleted. It ends early when it may not run.

        A failure is logged; what was deleted until then is gone, the next turn deletes the rest.
        """
        deleted: dict[str, int] = {}
        began = self._clock.monotonic()
        try:
            if self._rules.retention is not None:
                async for bite in retain(self._db, self._rules.retention):
                    deleted[bite.table] = deleted.get(bite.table, 0) + bite.rows
                    if not self._may_run():
                        break
        except StoreError as error:
            self._log.warning("retention failed; the next turn tries again", table="", error=str(error))
        took = self._clock.monotonic() - began
        rest = max(self._rules.retain_every_s, _REST_FACTOR * took)
        self._retain_not_before = self._clock.monotonic() + rest
        if deleted:
            self._log.debug("old rows deleted", table="", rows=deleted, took_ms=round(took * 1000, 1))
        return deleted

    async def _due(self, table: Table, *, force: bool) -> bool:
        turn = self._turns[table.spec.name]
        if force or self._clock.monotonic() < turn.not_before:
            return force
        try:
            return await table.version() - turn.version >= self._rules.commits or await self._must_erase(table, turn)
        except StoreError as error:
            self._log.warning("upkeep cannot read a table; it looks again", table=table.spec.name, error=str(error))
            return False

    async def _must_erase(self, table: Table, turn: _Turn) -> bool:
        erasure = self._erasures.get(table.spec.name)
        if erasure is None or self._clock.monotonic() < turn.erase_at:
            return False
        pending = await erasure.pending()
        if pending:
            turn.erase_at = self._clock.monotonic() + self._rules.erase_every_s
        return pending

    async def _maintain(self, table: Table) -> None:
        turn = self._turns[table.spec.name]
        began, behind = self._clock.monotonic(), 0
        try:
            behind = await table.version() - turn.version
            busy = behind >= _BUSY * self._rules.commits
            await self._build_missing_indexes(table)
            erasure = self._erasures.get(table.spec.name)
            if erasure is not None:
                await erasure.erase()
            await table.compact(keep=self._rules.keep, alone=busy or turn.failed)
            if erasure is not None:
                await erasure.settle()
            await self._sweep(table, turn)
            turn.version = await table.version()
            turn.failed = False
        except asyncio.CancelledError:
            raise
        except Exception as error:  # any failure of the engine: the table stays as it was, its next turn tries again
            turn.failed = True
            self._log.warning("upkeep failed; the next turn tries again", table=table.spec.name, error=str(error))
        took = self._clock.monotonic() - began
        rest = took * self._rest_factor(behind)
        turn.not_before = self._clock.monotonic() + (min(rest, _LONGEST_REST_S) if turn.failed else rest)
        self._log.debug("upkeep done", table=table.spec.name, took_ms=round(took * 1000, 1))

    def _rest_factor(self, behind: int) -> float:
        """How many times what a turn took a table rests that was so many commits behind."""
        return max(1.0, _REST_FACTOR / max(1.0, behind / (_FAR_BEHIND * self._rules.commits)))

    async def _sweep(self, table: Table, turn: _Turn) -> None:
        leftovers = self._leftovers.get(table.spec.name)
        if leftovers is None or self._clock.monotonic() < turn.sweep_at:
            return
        if removed := await table.remove(leftovers):
            self._log.debug("upkeep removed files that no version names", table=table.spec.name, files=len(removed))
        turn.sweep_at = self._clock.monotonic() + min(_SWEEP_EVERY_S, self._rules.leftover_s)

    async def _build_missing_indexes(self, table: Table) -> None:
        wanted = await self._indexed(table)
        if wanted and (missing := [column for column in wanted if column not in await table.indexed_columns()]):
            for column in missing:
                await table.build_index(column, index_of(table.spec, column))

    async def _indexed(self, table: Table) -> list[str]:
        """The columns that should have an index by now."""
        spec = table.spec
        if not spec.indexed and spec.searched is None:
            return []
        rows = await table.rows()
        wanted = list(spec.indexed) if rows >= self._rules.index_rows else []
        # A search has to know the tenant's rows: read from the rows that takes ten times as long as the search.
        return [*wanted, spec.searched, TENANT] if spec.searched and rows >= self._rules.search_rows else wanted
