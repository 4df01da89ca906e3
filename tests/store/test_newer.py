"""Two versions at once: the older process notices that a newer one has migrated the store, and writes no more."""

from __future__ import annotations

from datetime import timedelta

import lancedb
import pyarrow as pa
import pytest

from store.actions import ActionKind, queue_of
from store.database import Store
from store.enqueueing import NewAction, enqueue
from store.errors import StoreTooNewError
from store.ids import MAIN_TENANT
from store.marks import mark_action_processed_async
from store.migrations import ALL_MIGRATIONS
from store.schema import MIGRATIONS
from store.testing import START, FrozenClock

NEW = NewAction(ActionKind.INPUT)


async def migrate_as(url: str, number: int) -> None:
    """Record a migration, as the version that knows it would."""
    connection = await lancedb.connect_async(url)
    log = await connection.open_table(MIGRATIONS.name)
    row = {"tenant": MAIN_TENANT, "number": number, "name": "of a newer version", "applied_at": START}
    await log.add(pa.Table.from_pylist([row], schema=MIGRATIONS.schema))


async def test_a_running_process_stops_writing_when_a_newer_version_takes_over(
    store: Store, clock: FrozenClock
) -> None:
    db = store.tenant()
    action = await enqueue(db, NEW)
    newer = ALL_MIGRATIONS[-1].number + 1
    await migrate_as(store.options.url, newer)
    versions = {name: await table.version() for name, table in store.tables.items()}
    clock.advance(1)

    for write in (enqueue(db, NEW), mark_action_processed_async(db, action.id)):
        with pytest.raises(StoreTooNewError, match=f"migration {newer}.*start the newer version"):
            await write
    with pytest.raises(StoreTooNewError):
        await store.tables["queue"].compact(keep=timedelta(minutes=1))

    assert {name: await table.version() for name, table in store.tables.items()} == versions
    assert [found.id for found in await queue_of(db).find()] == [action.id]


async def test_a_migration_that_this_version_knows_stops_nobody(store: Store, clock: FrozenClock) -> None:
    db = store.tenant()
    await enqueue(db, NEW)
    await migrate_as(store.options.url, ALL_MIGRATIONS[-1].number)
    clock.advance(1)

    await enqueue(db, NEW)

    assert len(await queue_of(db).find()) == 2
