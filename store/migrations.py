"""Numbered changes of the store's shape. Each records itself; a store from a newer version is refused.

Crash before a migration: nothing. During: its steps are repeatable, so the next start does it again. After: recorded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pyarrow as pa
from lancedb.db import AsyncConnection
from lancedb.table import AsyncTable

from store import filters
from store.clock import Clock
from store.errors import StoreTooNewError
from store.fulltext import full_text_index
from store.ids import MAIN_TENANT
from store.jsontext import json_dumps, safe_json_loads
from store.lanes import general_lane, lane_of
from store.schema import (
    AGENT_EVENTS,
    AGENT_STATE,
    AGENT_STEPS,
    ALL_TABLES,
    BUDGETS,
    COPILOT_AGENTS,
    FOLLOWERS,
    MEMORIES,
    MIGRATIONS,
    QUEUE,
    TOOL_PINS,
    TableSpec,
)

# Both can only be asked for when a table is made. Stable row ids keep `_row_created_at_version` exact when compacted.
# File version 2.1 finds 20 scattered rows of a million five times faster than 2.2 does (4 against 20 ms, measured).
_NEW_TABLE = {"new_table_enable_stable_row_ids": "true", "new_table_data_storage_version": "2.1"}
READ_NEWEST = timedelta(0)
#: the tables in which turns begin and end
TRACED = (QUEUE, AGENT_STEPS, AGENT_STATE)


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered change."""

    number: int
    name: str
    apply: Callable[[AsyncConnection], Awaitable[None]]


async def _create_tables(connection: AsyncConnection) -> None:
    for spec in ALL_TABLES:
        await create_table(connection, spec)


async def _add_ownership(connection: AsyncConnection) -> None:
    """Columns and the table that ownership, changes of state and schedules need; those that are there stay.

    Rows from before hold null there, and 0 for `epoch`.
    """
    await _add_missing(connection)
    await _place_in_lanes(connection)


async def _add_missing(connection: AsyncConnection) -> None:
    """Make the tables and columns of this version that are not there yet."""
    for spec in ALL_TABLES:
        table = await _open_or_create(connection, spec)
        there = set((await table.schema()).names)
        missing = [field for field in spec.schema if field.name not in there]
        if missing:
            await table.add_columns(missing)
        if any(field.name == "epoch" for field in missing):
            await table.update({"epoch": 0})  # a guarded change compares it, and null compares with nothing


async def _begin_traces(connection: AsyncConnection) -> None:
    """The columns of traces, and from which versions on turns are followed: what ended before has no trace."""
    await _add_missing(connection)
    followers = await connection.open_table(FOLLOWERS.name)
    if await followers.count_rows():
        return
    versions = {spec.name: await (await connection.open_table(spec.name)).version() for spec in TRACED}
    row = {"tenant": MAIN_TENANT, "name": "traces", "versions": json_dumps(versions), "epoch": 0}
    await followers.add(pa.Table.from_pylist([row], schema=FOLLOWERS.schema))


async def _shape_memories(connection: AsyncConnection) -> None:
    """Scopes, taint, vectors of fixed lengths; the full-text index while the table is empty, so that it always is.

    No version before this one wrote a memory, so the column of vectors of any length goes unread.
    """
    table = await _open_or_create(connection, MEMORIES)
    there = set((await table.schema()).names)
    if missing := [field for field in MEMORIES.schema if field.name not in there]:
        await table.add_columns(missing)
    if gone := sorted(there - set(MEMORIES.schema.names)):
        await table.drop_columns(gone)
    if not any("text" in index.columns for index in await table.list_indices()):
        await table.create_index("text", config=full_text_index())


async def _place_in_lanes(connection: AsyncConnection) -> None:
    """Write down the lanes of sessions and open actions from before there were lanes."""
    sessions = await connection.open_table(AGENT_STATE.name)
    columns = ["tenant", "session_id", "moniker", "lane"]
    rows = (await sessions.query().select(columns).to_arrow()).to_pylist()
    lanes = {(row["tenant"], row["session_id"]): lane_of(row["moniker"], row["session_id"]) for row in rows}
    placed = [{**row, "lane": lanes[row["tenant"], row["session_id"]]} for row in rows]
    await _set_columns(sessions, placed, ("tenant", "session_id", "lane"))
    queue = await connection.open_table(QUEUE.name)
    columns = ["tenant", "id", "session_id", "agent_id", "kind", "payload", "lane"]
    open_rows = await queue.query().where(~filters.equals("processed", True)).select(columns).to_arrow()
    for row in open_rows.to_pylist():
        if row["kind"] == "agent_create":
            moniker = str((safe_json_loads(row["payload"]) or {}).get("moniker", ""))
            lanes.setdefault((row["tenant"], row["session_id"]), lane_of(moniker, row["session_id"] or ""))
    placed = [
        {**row, "lane": lanes.get((row["tenant"], row["session_id"])) or _general(row)} for row in open_rows.to_pylist()
    ]
    await _set_columns(queue, placed, ("tenant", "id", "lane"))


def _general(row: dict[str, Any]) -> str:
    return general_lane(row["session_id"] or row["agent_id"] or "")


async def _set_columns(table: AsyncTable, rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    """Set some text columns of rows that are there; the first two of `columns` are the table's key."""
    if rows:
        schema = pa.schema([pa.field(name, pa.string()) for name in columns])
        batch = pa.RecordBatch.from_pylist([{name: row[name] for name in schema.names} for row in rows], schema=schema)
        await table.merge_insert(list(columns[:2])).when_matched_update_all().execute(batch)


async def _add_tool_pins(connection: AsyncConnection) -> None:
    await create_table(connection, TOOL_PINS)


async def _open_or_create(connection: AsyncConnection, spec: TableSpec) -> AsyncTable:
    try:
        return await create_table(connection, spec)
    except ValueError:  # it is there, in its older shape
        return await connection.open_table(spec.name)


async def _add_event_lanes(connection: AsyncConnection) -> None:
    """The lane of an event, which says whose it is; events from before hold null there and are shown."""
    table = await connection.open_table(AGENT_EVENTS.name)
    if "lane" not in (await table.schema()).names:
        await table.add_columns([AGENT_EVENTS.schema.field("lane")])


async def _add_budgets(connection: AsyncConnection) -> None:
    """The table of budgets."""
    await create_table(connection, BUDGETS)


async def _add_withdrawals(connection: AsyncConnection) -> None:
    """Who took an approval of a tool back, and the words that were agreed to.

    Of a tool that is what was agreed to they are the words it has; of one that had changed before they are not known.
    """
    await _add_missing(connection)
    table = await connection.open_table(TOOL_PINS.name)
    columns = ["tenant", "tool", "hash", "approved_hash", "description", "parameters"]
    rows = [
        {**row, "approved_description": row["description"], "approved_parameters": row["parameters"]}
        for row in (await table.query().select(columns).to_arrow()).to_pylist()
        if row["approved_hash"] == row["hash"]
    ]
    await _set_columns(table, rows, ("tenant", "tool", "approved_description", "approved_parameters"))


async def _add_copilot_agents(connection: AsyncConnection) -> None:
    """The table of saved agents."""
    await create_table(connection, COPILOT_AGENTS)


ALL_MIGRATIONS: tuple[Migration, ...] = (
    Migration(1, "create all tables", _create_tables),
    Migration(2, "ownership by lanes, changes of state, schedules", _add_ownership),
    Migration(3, "lanes of events", _add_event_lanes),
    Migration(4, "tools of MCP servers and who agreed to them", _add_tool_pins),
    Migration(5, "memories", _shape_memories),
    Migration(6, "budgets", _add_budgets),
    Migration(7, "traces, and the places of those that follow tables", _begin_traces),
    Migration(8, "approvals of tools that are withdrawn, and the words that were agreed to", _add_withdrawals),
    Migration(9, "saved agents of the copilot", _add_copilot_agents),
)


async def create_table(connection: AsyncConnection, spec: TableSpec) -> AsyncTable:
    """Open `spec`'s table, made first if it is not there."""
    return await connection.create_table(spec.name, schema=spec.schema, exist_ok=True, storage_options=_NEW_TABLE)


async def migrate(connection: AsyncConnection, clock: Clock) -> AsyncTable:
    """Bring the store to this version's shape; returns the table of migrations.

    Raises `StoreTooNewError` for a store from a newer version.
    """
    log = await create_table(connection, MIGRATIONS)
    applied = await refuse_newer(log)
    for migration in ALL_MIGRATIONS:
        if migration.number not in applied:
            await migration.apply(connection)
            await _record(log, migration, clock)
    return log


async def refuse_newer(log: AsyncTable) -> set[int]:
    """The numbers of the migrations that were applied; raises `StoreTooNewError` when one of them is not known here."""
    applied = {int(number) for number in (await log.query().select(["number"]).to_arrow()).column("number").to_pylist()}
    known = ALL_MIGRATIONS[-1].number
    if applied and max(applied) > known:
        raise StoreTooNewError(
            f"the store has migration {max(applied)}, this version of Stepwell knows {known}; "
            "start the newer version, or point STEPWELL_DATA at another folder"
        )
    return applied


async def _record(log: AsyncTable, migration: Migration, clock: Clock) -> None:
    row = {"tenant": MAIN_TENANT, "number": migration.number, "name": migration.name, "applied_at": clock.now()}
    await log.add(pa.Table.from_pylist([row], schema=MIGRATIONS.schema))
