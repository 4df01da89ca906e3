"""Export: every value comes back as it was, one version a table, all or nothing, and nothing is replaced."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from store import filters
from store.actions import ActionKind
from store.agent_steps import append_agent_step, journal_of
from store.database import Store, TenantStore, open_store
from store.enqueueing import NewAction, enqueue
from store.errors import ConflictError, StoreUnavailableError
from store.export import CONTENTS, ExportFormat, ExportRequest, export
from store.ids import SessionId, TenantId
from store.options import StoreOptions
from store.schema import ALL_TABLES, VECTOR_WIDTHS, TableSpec
from store.table import Table
from store.testing import START, CountingIds, FrozenClock
from tests.store.rows import a_step

PARQUET = ExportRequest(ExportFormat.PARQUET)
JSONL = ExportRequest(ExportFormat.JSONL)

#: for each type of a column, values at its edges
EDGES: dict[pa.DataType, list[Any]] = {
    pa.string(): ["", "text", 'quote " \\ \n ', "\u0000\u2028ä😀", "\ufffd", '{"a": [1, 2.0]}', None],
    pa.int64(): [0, -1, 2**63 - 1, -(2**63), 2**53 + 1, 7, None],
    pa.float64(): [0.1, -0.0, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, None],
    pa.bool_(): [True, False, None, True, False, None, True],
    pa.timestamp("us", tz="UTC"): [
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, 12, 30, 59, 999_999, tzinfo=UTC),
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(2026, 3, 29, 2, 30, tzinfo=UTC),
        START,
        None,
    ],
    **{
        pa.list_(pa.float32(), width): [[value] * width for value in (0.5, -1.25, 3.4028234663852886e38)] + [None] * 4
        for width in VECTOR_WIDTHS
    },
}


def edge_rows(spec: TableSpec) -> list[tuple[Any, ...]]:
    """Rows with the edges of every column's type."""
    columns = [[f"{at}" for at in range(7)] if field.name in spec.key else EDGES[field.type] for field in spec.schema]
    if spec.schema.field(spec.key[-1]).type == pa.int64():
        columns[spec.schema.get_field_index(spec.key[-1])] = list(range(7))
    columns[0] = ["main"] * 7
    return list(zip(*columns, strict=True))


def read_jsonl(path: Path, schema: pa.Schema) -> pa.Table:
    """What a program that knows the schema makes of the lines."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    for row in rows:
        for field in schema:
            row[field.name] = _typed(row[field.name], field.type)
    return pa.Table.from_pylist(rows, schema=schema)


def _typed(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, list):
        return [_typed(item, pa.float64()) for item in value]
    if pa.types.is_timestamp(kind) and value is not None:
        return datetime.fromisoformat(value)
    return float(value) if pa.types.is_floating(kind) and isinstance(value, str) else value


def read(path: Path, schema: pa.Schema) -> pa.Table:
    return read_jsonl(path, schema) if path.suffix == ".jsonl" else pq.read_table(path)


@pytest.mark.parametrize("request_", [PARQUET, JSONL], ids=lambda request: request.format.value)
async def test_every_value_of_every_table_comes_back_with_its_type(
    store: Store, tmp_path: Path, request_: ExportRequest
) -> None:
    mine = filters.of_tenant(store.tenant().tenant)
    there = {spec.name: (await store.tables[spec.name].read(mine)).num_rows for spec in ALL_TABLES}
    for spec in ALL_TABLES:
        await store.tables[spec.name].append(*edge_rows(spec))

    done = await export(store.tenant(), request_, tmp_path / "out")

    assert [item.table for item in done] == [spec.name for spec in ALL_TABLES]
    for item, spec in zip(done, ALL_TABLES, strict=True):
        stored = await store.tables[spec.name].read(filters.of_tenant(store.tenant().tenant))
        found = read(tmp_path / "out" / item.file, spec.schema)
        assert found.schema.equals(spec.schema)
        assert found.to_pylist() == stored.to_pylist()
        assert (item.rows, item.version) == (there[spec.name] + 7, await store.tables[spec.name].version())


async def test_the_contents_say_what_was_exported(db: TenantStore, tmp_path: Path) -> None:
    await append_agent_step(db, a_step())

    await export(db, ExportRequest(ExportFormat.JSONL, ("agent_steps",), SessionId("s"), START), tmp_path / "out")

    contents = json.loads((tmp_path / "out" / CONTENTS).read_bytes())
    version = await db.store.tables["agent_steps"].version()
    assert contents == {
        "exported_at": "2026-01-01T00:00:00Z",
        "format": "jsonl",
        "tenant": "main",
        "session_id": "s",
        "since": "2026-01-01T00:00:00Z",
        "tables": [{"table": "agent_steps", "file": "agent_steps.jsonl", "version": version, "rows": 1}],
    }
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["agent_steps.jsonl", CONTENTS]


async def test_one_session_one_tenant_since_a_moment(store: Store, tmp_path: Path) -> None:
    db = store.tenant()
    for session in ("s", "t"):
        for at in range(4):
            await append_agent_step(db, a_step(session, at))
    await append_agent_step(store.tenant(TenantId("other")), a_step("s", 9))
    await enqueue(db, NewAction(ActionKind.PAUSE, session_id=SessionId("s")))

    wanted = ExportRequest(ExportFormat.PARQUET, (), SessionId("s"), START + timedelta(seconds=2))
    done = {item.table: item.rows for item in await export(db, wanted, tmp_path / "out")}

    assert pq.read_table(tmp_path / "out" / "agent_steps.parquet").column("id").to_pylist() == ["s:2", "s:3"]
    assert done["queue"] == 0
    assert "agents" not in done  # no row of it belongs to a session


async def test_it_refuses_to_overwrite(db: TenantStore, tmp_path: Path) -> None:
    with pytest.raises(ConflictError, match="there already"):
        await export(db, PARQUET, tmp_path)
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(ConflictError, match="there already"):
        await export(db, PARQUET, file)
    assert file.read_text() == "mine"


async def test_an_unknown_table_is_named(db: TenantStore, tmp_path: Path) -> None:
    with pytest.raises(ConflictError, match="no table 'nothing'; the tables are queue, agents"):
        await export(db, ExportRequest(ExportFormat.JSONL, ("queue", "nothing")), tmp_path / "out")
    assert not (tmp_path / "out").exists()


async def test_an_export_that_fails_leaves_nothing(
    db: TenantStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "exports" / "out"

    async def cut(self: Table, *_: Any, **__: Any) -> AsyncIterator[pa.RecordBatch]:
        for batch in pa.table({"id": ["s:0"]}).to_batches():
            yield batch
            raise StoreUnavailableError("the version is gone")

    monkeypatch.setattr(Table, "batches", cut)
    with pytest.raises(StoreUnavailableError, match=r"the version is gone.*STEPWELL_KEEP_VERSIONS_S"):
        await export(db, PARQUET, out)
    assert list(out.parent.iterdir()) == []


async def test_a_version_that_was_pruned_is_given_up_for_the_newest(
    db: TenantStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await enqueue(db, NewAction(ActionKind.PAUSE))
    whole, tries = Table.batches, []

    async def pruned_once(self: Table, *values: Any, **options: Any) -> AsyncIterator[pa.RecordBatch]:
        tries.append(self.spec.name)
        async for batch in whole(self, *values, **options):
            yield batch
            if len(tries) == 1:
                raise StoreUnavailableError("the version is gone")

    monkeypatch.setattr(Table, "batches", pruned_once)
    (done,) = await export(db, ExportRequest(ExportFormat.JSONL, ("queue",)), tmp_path / "out")

    assert tries == ["queue", "queue"]
    assert (done.rows, len((tmp_path / "out" / "queue.jsonl").read_text().splitlines())) == (1, 1)


async def test_what_is_written_meanwhile_is_not_in_it(
    db: TenantStore, options: StoreOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(3):
        await append_agent_step(db, a_step(iteration=at))
    whole, another = Table.batches, await open_store(options, clock=FrozenClock(), ids=CountingIds())

    async def written_meanwhile(self: Table, *values: Any, **named: Any) -> AsyncIterator[pa.RecordBatch]:
        await append_agent_step(another.tenant(), a_step(iteration=3))
        async for batch in whole(self, *values, **named):
            yield batch

    monkeypatch.setattr(Table, "batches", written_meanwhile)
    version = await db.store.tables["agent_steps"].version()
    (done,) = await export(db, ExportRequest(ExportFormat.PARQUET, ("agent_steps",)), tmp_path / "out")

    assert (done.rows, done.version) == (3, version)
    assert len(await journal_of(db).find()) == 4
    await another.close()
