"""Migrations: each is applied and recorded once; one that was cut off is done again; a newer store is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
import pytest
from lancedb.db import AsyncConnection

from store import migrations
from store.database import open_store
from store.errors import StoreTooNewError
from store.migrations import ALL_MIGRATIONS, READ_NEWEST, Migration, create_table, migrate
from store.options import StoreOptions
from store.schema import ALL_TABLES, MIGRATIONS, QUEUE
from store.testing import START, CountingIds, FrozenClock


@pytest.fixture
async def connection(tmp_path: Path) -> AsyncIterator[AsyncConnection]:
    """A folder without a store."""
    made = await lancedb.connect_async(tmp_path, read_consistency_interval=READ_NEWEST)
    yield made
    made.close()  # type: ignore[no-untyped-call]


async def recorded(connection: AsyncConnection) -> list[dict[str, Any]]:
    """What the store says was applied to it."""
    log = await connection.open_table(MIGRATIONS.name)
    return list((await log.query().to_arrow()).to_pylist())


async def tables(connection: AsyncConnection) -> set[str]:
    return set((await connection.list_tables()).tables)


async def record(connection: AsyncConnection, number: int) -> None:
    """Say that a migration was applied."""
    log = await create_table(connection, MIGRATIONS)
    row = {"tenant": "main", "number": number, "name": "from the future", "applied_at": START}
    await log.add(pa.Table.from_pylist([row], schema=MIGRATIONS.schema))


def test_numbers_count_from_one_without_a_gap() -> None:
    assert [migration.number for migration in ALL_MIGRATIONS] == list(range(1, len(ALL_MIGRATIONS) + 1))


async def test_a_fresh_folder_gets_every_table_and_a_record_of_each_migration(connection: AsyncConnection) -> None:
    await migrate(connection, FrozenClock())

    assert await tables(connection) == {spec.name for spec in (*ALL_TABLES, MIGRATIONS)}
    assert [(row["number"], row["applied_at"]) for row in await recorded(connection)] == [
        (migration.number, START) for migration in ALL_MIGRATIONS
    ]


async def test_every_table_has_its_columns_tenant_first(connection: AsyncConnection) -> None:
    await migrate(connection, FrozenClock())

    for spec in ALL_TABLES:
        assert await (await connection.open_table(spec.name)).schema() == spec.schema
        assert spec.schema.names[0] == spec.key[0] == "tenant"
        assert set(spec.key) | set(spec.indexed) <= set(spec.schema.names)


async def test_a_migration_is_applied_once(connection: AsyncConnection) -> None:
    for _ in range(3):
        await migrate(connection, FrozenClock())

    assert len(await recorded(connection)) == len(ALL_MIGRATIONS)


async def test_one_that_was_cut_off_is_done_again(connection: AsyncConnection) -> None:
    """The process died after the first table: nothing is recorded yet."""
    await create_table(connection, MIGRATIONS)
    await create_table(connection, QUEUE)

    await migrate(connection, FrozenClock())

    assert await tables(connection) == {spec.name for spec in (*ALL_TABLES, MIGRATIONS)}


async def test_only_what_is_missing_is_applied_in_order(
    connection: AsyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied: list[int] = []

    def step(number: int) -> Migration:
        async def apply(_: AsyncConnection) -> None:
            applied.append(number)

        return Migration(number, f"number {number}", apply)

    await migrate(connection, FrozenClock())
    monkeypatch.setattr(migrations, "ALL_MIGRATIONS", (*ALL_MIGRATIONS, step(2), step(3)))

    await migrate(connection, FrozenClock())
    await migrate(connection, FrozenClock())

    assert applied == [2, 3]
    assert [row["number"] for row in await recorded(connection)] == [1, 2, 3]


async def test_a_migration_that_fails_is_not_recorded(
    connection: AsyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(_: AsyncConnection) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(migrations, "ALL_MIGRATIONS", (Migration(1, "fails", fails),))

    with pytest.raises(OSError, match="disk full"):
        await migrate(connection, FrozenClock())

    assert await recorded(connection) == []


async def test_a_store_from_a_newer_version_is_refused_untouched(connection: AsyncConnection) -> None:
    await record(connection, ALL_MIGRATIONS[-1].number + 1)

    with pytest.raises(StoreTooNewError, match=r"has migration \d+, .* knows \d+; .*STEPWELL_DATA"):
        await migrate(connection, FrozenClock())

    assert await tables(connection) == {MIGRATIONS.name}


async def test_a_newer_store_is_refused_when_it_is_opened(connection: AsyncConnection, tmp_path: Path) -> None:
    await record(connection, 99)

    for _ in range(2):  # the first refusal leaves no lock behind
        with pytest.raises(StoreTooNewError):
            await open_store(StoreOptions(str(tmp_path)), clock=FrozenClock(), ids=CountingIds())


async def test_openers_at_the_same_time_migrate_once(connection: AsyncConnection, tmp_path: Path) -> None:
    options = StoreOptions(str(tmp_path))
    stores = await asyncio.gather(*[open_store(options, clock=FrozenClock(), ids=CountingIds()) for _ in range(4)])

    assert len(await recorded(connection)) == len(ALL_MIGRATIONS)
    for store in stores:
        await store.close()
