"""Migrations: each is applied and recorded once; one that was cut off is done again; a newer store is refused."""

from __future__ import annotations

import asyncio
import dataclasses
import json
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
from store.lanes import general_lane, lane_of
from store.migrations import ALL_MIGRATIONS, READ_NEWEST, Migration, create_table, migrate
from store.options import StoreOptions
from store.schema import (
    AGENT_EVENTS,
    ALL_TABLES,
    BUDGETS,
    COPILOT_AGENTS,
    MEMORIES,
    MIGRATIONS,
    QUEUE,
    TOOL_PINS,
    TableSpec,
)
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
    known = len(ALL_MIGRATIONS)
    monkeypatch.setattr(migrations, "ALL_MIGRATIONS", (*ALL_MIGRATIONS, step(known + 1), step(known + 2)))

    await migrate(connection, FrozenClock())
    await migrate(connection, FrozenClock())

    assert applied == [known + 1, known + 2]
    assert [row["number"] for row in await recorded(connection)] == list(range(1, known + 3))


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


async def test_a_store_from_before_there_were_lanes_gets_them(connection: AsyncConnection) -> None:
    """Its sessions and open actions are placed where this version's would be; epochs compare from then on."""
    old = {spec.name: _without_lanes(spec) for spec in ALL_TABLES if spec.name not in {"leases", "schedules"}}
    await create_table(connection, MIGRATIONS)
    await record(connection, 1)
    for spec in old.values():
        await create_table(connection, spec)
    await _add(connection, old["agent_state"], session_id="s", moniker="echo", agent_id="a")
    asked: dict[str, dict[str, Any]] = {
        "input": {"kind": "agent_input", "session_id": "s"},
        "create": {"kind": "agent_create", "session_id": "new", "payload": '{"moniker": "joke"}'},
        "early": {"kind": "agent_input", "session_id": "new"},
        "nameless": {"kind": "agent_pause", "agent_id": "a"},
        "done": {"kind": "agent_input", "session_id": "s", "processed": True},
    }
    for name, about in asked.items():
        await _add(connection, old["queue"], id=name, **{"processed": False, **about})
    for _ in range(2):  # cut off before it was recorded, it is done again
        await ALL_MIGRATIONS[1].apply(connection)

    states = await _rows(connection, "agent_state")
    assert [(row["lane"], row["epoch"]) for row in states] == [(lane_of("echo", "s"), 0)]
    assert {row["id"]: row["lane"] for row in await _rows(connection, "queue")} == {
        "input": lane_of("echo", "s"),
        "create": lane_of("joke", "new"),
        "early": lane_of("joke", "new"),
        "nameless": general_lane("a"),
        "done": None,
    }
    assert {row["epoch"] for row in await _rows(connection, "queue")} == {0}
    await migrate(connection, FrozenClock())
    assert await tables(connection) == {spec.name for spec in (*ALL_TABLES, MIGRATIONS)}


async def test_a_store_from_before_there_were_budgets_gets_their_table(connection: AsyncConnection) -> None:
    await create_table(connection, MIGRATIONS)
    for number in (1, 2):
        await record(connection, number)
    for spec in ALL_TABLES:
        if spec is not BUDGETS:
            await create_table(connection, spec)
    await migrate(connection, FrozenClock())
    assert await tables(connection) == {spec.name for spec in (*ALL_TABLES, MIGRATIONS)}


async def test_a_store_from_before_agents_were_saved_gets_their_table(connection: AsyncConnection) -> None:
    await create_table(connection, MIGRATIONS)
    for number in range(1, 9):
        await record(connection, number)
    for spec in ALL_TABLES:
        if spec is not COPILOT_AGENTS:
            await create_table(connection, spec)
    (adds,) = [migration for migration in ALL_MIGRATIONS if migration.name == "saved agents of the copilot"]
    await adds.apply(connection)  # cut off before it was recorded, it is done again
    await migrate(connection, FrozenClock())
    table = await connection.open_table(COPILOT_AGENTS.name)
    assert await table.schema() == COPILOT_AGENTS.schema
    assert [row["number"] for row in await recorded(connection)] == list(range(1, len(ALL_MIGRATIONS) + 1))


async def test_events_from_before_they_had_lanes_stay(connection: AsyncConnection) -> None:
    """They hold null there: nobody can say whose they are, and they are shown."""
    await migrate(connection, FrozenClock())
    await connection.drop_table(AGENT_EVENTS.name)
    old = _without_lanes(AGENT_EVENTS)
    await create_table(connection, old)
    await _add(connection, old, id="e", session_id="s")
    (adds_lanes,) = (migration for migration in ALL_MIGRATIONS if migration.name == "lanes of events")
    for _ in range(2):
        await adds_lanes.apply(connection)

    assert [(row["id"], row["lane"]) for row in await _rows(connection, AGENT_EVENTS.name)] == [("e", None)]
    assert (await (await connection.open_table(AGENT_EVENTS.name)).schema()) == AGENT_EVENTS.schema


def _without_lanes(spec: TableSpec) -> TableSpec:
    left = [field for field in spec.schema if field.name != "lane" and (field.name != "epoch" or spec is not QUEUE)]
    return dataclasses.replace(spec, schema=pa.schema(left))


async def _add(connection: AsyncConnection, spec: TableSpec, **values: Any) -> None:
    row = {"tenant": "main", **values} | ({"epoch": 0} if "epoch" in spec.schema.names else {})
    await (await connection.open_table(spec.name)).add(pa.Table.from_pylist([row], schema=spec.schema))


async def _rows(connection: AsyncConnection, table: str) -> list[dict[str, Any]]:
    return list((await (await connection.open_table(table)).query().to_arrow()).to_pylist())


async def test_memories_of_an_older_shape_get_the_new_one(connection: AsyncConnection) -> None:
    left = [field for field in MEMORIES.schema if not field.name.startswith(("vector", "taint", "expires"))]
    older = dataclasses.replace(MEMORIES, schema=pa.schema([*left, pa.field("vector", pa.list_(pa.float32()))]))
    await create_table(connection, older)
    (memories,) = [migration for migration in ALL_MIGRATIONS if migration.name == "memories"]
    for _ in range(2):  # a crash after it, before its record: it is done again
        await memories.apply(connection)
    table = await connection.open_table(MEMORIES.name)
    assert set((await table.schema()).names) == set(MEMORIES.schema.names)
    assert [index.columns for index in await table.list_indices()] == [["text"]]


async def test_a_store_from_before_there_were_traces_gets_them(connection: AsyncConnection) -> None:
    """Turns are followed from where the store stands: what ended before has no trace."""
    kept = ("tenant", "trace_id", "session_id", "conversation_id", "status", "spans", "usage", "started_at", "ended_at")
    for spec in ALL_TABLES:
        if spec.name != "followers":
            old = pa.schema([field for field in spec.schema if spec.name != "traces" or field.name in kept])
            await create_table(connection, dataclasses.replace(spec, schema=old))
    for number in (1, 2):
        await record(connection, number)
    for _ in range(3):
        await _add(connection, QUEUE, id="q")
    (begins,) = [migration for migration in ALL_MIGRATIONS if migration.name.startswith("traces")]
    for _ in range(2):  # cut off before it was recorded, it is done again
        await begins.apply(connection)

    await migrate(connection, FrozenClock())
    (place,) = await _rows(connection, "followers")
    assert (place["name"], place["epoch"]) == ("traces", 0)
    versions = json.loads(place["versions"])
    assert versions["queue"] == await (await connection.open_table("queue")).version() == 4
    assert versions["agent_steps"] == 1
    for spec in ALL_TABLES:
        assert await (await connection.open_table(spec.name)).schema() == spec.schema


async def test_approvals_from_before_they_could_be_withdrawn_keep_their_words(connection: AsyncConnection) -> None:
    """Those of a tool that had changed by then are not known."""
    new = ("approved_description", "approved_parameters", "withdrawn_at", "withdrawn_by")
    older = [field for field in TOOL_PINS.schema if field.name not in new]
    old = dataclasses.replace(TOOL_PINS, schema=pa.schema(older))
    await create_table(connection, old)
    said = {"hash": "h", "description": "words", "parameters": "{}"}
    for tool, approved in {"same": "h", "changed": "g", "new": ""}.items():
        await _add(connection, old, tool=tool, approved_hash=approved, **said)
    (adds,) = [migration for migration in ALL_MIGRATIONS if "withdrawn" in migration.name]
    for _ in range(2):  # cut off before it was recorded, it is done again
        await adds.apply(connection)
    rows = {row["tool"]: row for row in await _rows(connection, TOOL_PINS.name)}
    told = {tool: (row["approved_description"], row["approved_parameters"]) for tool, row in rows.items()}
    assert told == {"same": ("words", "{}"), "changed": (None, None), "new": (None, None)}
    assert {row["withdrawn_at"] for row in rows.values()} == {None}
    assert {row["approved_hash"] for row in rows.values()} == {"h", "g", ""}
    assert (await (await connection.open_table(TOOL_PINS.name)).schema()) == TOOL_PINS.schema
