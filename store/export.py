"""Export: the rows of a store as files that other programs read, Parquet or one JSON object a line.

Each table is read at one version, a few rows at a time. The files are written to a folder under another name, which
gets its own name when it is whole: crash before, and a folder `.<name>.<id>.part` is left that may be removed; after,
the export is there. An export never replaces anything.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, Protocol, assert_never

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from lancedb.expr import Expr

from store import filters
from store.database import TenantStore
from store.errors import ConflictError, StoreError, StoreUnavailableError
from store.ids import SessionId
from store.schema import ALL_TABLES, TableSpec
from store.table import Table

CONTENTS = "export.json"
_BATCH_ROWS = 256
_GROUP_BYTES = 16 << 20
_TRIES = 3
#: the first of these that a table has says how old a row is
_TIMES = ("created_at", "started_at", "joined_at", "updated_at", "saved_at")
_NOT_IN_JSON = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


class ExportFormat(StrEnum):
    """What the files are."""

    PARQUET = "parquet"  # columns with their exact types
    JSONL = "jsonl"  # a line a row; times as ISO 8601 in UTC, JSON columns as the text that is stored


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """What to export; an empty `tables` means all of them."""

    format: ExportFormat
    tables: tuple[str, ...] = ()
    #: only rows of this session, and only tables that have some
    session_id: SessionId | None = None
    #: only rows made at or after this moment
    since: datetime | None = None

    def specs(self) -> list[TableSpec]:
        """The tables that are exported; raises `ConflictError` that names an unknown one."""
        known = {spec.name: spec for spec in ALL_TABLES}
        if unknown := sorted(set(self.tables) - known.keys()):
            raise ConflictError(f"there is no table {unknown[0]!r}; the tables are {', '.join(known)}")
        chosen = [spec for name, spec in known.items() if not self.tables or name in self.tables]
        return [spec for spec in chosen if self.session_id is None or "session_id" in spec.schema.names]


@dataclass(frozen=True, slots=True)
class Exported:
    """One exported table: its file, the version that was read, and how many rows that gave."""

    table: str
    file: str
    version: int
    rows: int


async def export(db: TenantStore, request: ExportRequest, folder: Path) -> list[Exported]:
    """Write the request's tables into `folder`, which must not exist yet.

    Raises `ConflictError` when it does or a table is unknown, `StoreUnavailableError` when a table cannot be read, or
    the files not written.
    """
    specs = request.specs()
    _refuse_existing(folder)
    try:
        with _part_of(folder, db.ids.new()) as part:
            done = [await _export_table(db, spec, request, part) for spec in specs]
            _write_contents(part / CONTENTS, db, request, done)
            _publish(part, folder)
    except (OSError, pa.ArrowException) as error:
        raise StoreUnavailableError(
            f"the export to {str(folder)!r} could not be written ({error}); check its rights and the free space"
        ) from error
    return done


def _refuse_existing(folder: Path) -> None:
    if folder.exists():
        raise ConflictError(f"{str(folder)!r} is there already and an export replaces nothing; name a new folder")


@contextmanager
def _part_of(folder: Path, name: str) -> Iterator[Path]:
    part = folder.with_name(f".{folder.name}.{name}.part")
    part.mkdir(parents=True)
    try:
        yield part
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _publish(part: Path, folder: Path) -> None:
    _sync(part)
    _refuse_existing(folder)
    part.rename(folder)
    _sync(folder.parent)


def _sync(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _write_contents(path: Path, db: TenantStore, request: ExportRequest, done: list[Exported]) -> None:
    contents = {
        "exported_at": db.clock.now(),
        "format": request.format.value,
        "tenant": db.tenant,
        "session_id": request.session_id,
        "since": request.since,
        "tables": [asdict(item) for item in done],
    }
    with path.open("wb") as file:
        file.write(orjson.dumps(contents, option=orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z))
        _flush(file)


async def _export_table(db: TenantStore, spec: TableSpec, request: ExportRequest, part: Path) -> Exported:
    """A version that is pruned under the reader is given up for the newest one, a few times."""
    table, where = db.store.tables[spec.name], _condition(db, spec, request)
    path = part / f"{spec.name}.{request.format.value}"
    for left in reversed(range(_TRIES)):
        try:
            async with table.pinned() as version:
                return Exported(spec.name, path.name, version, await _write(table, where, request.format, path))
        except StoreError as error:
            if not left:
                raise StoreUnavailableError(
                    f"{error}; if a worker prunes versions faster than they are read, give it a longer "
                    "STEPWELL_KEEP_VERSIONS_S or stop it for the export"
                ) from error
    raise AssertionError("the last try returns or raises")


def _condition(db: TenantStore, spec: TableSpec, request: ExportRequest) -> Expr | None:
    time = next((name for name in _TIMES if name in spec.schema.names), None)
    return filters.every(
        filters.of_tenant(db.tenant),
        None if request.session_id is None else filters.equals("session_id", request.session_id),
        None if request.since is None or time is None else filters.at_least(time, request.since),
    )


async def _write(table: Table, where: Expr | None, kind: ExportFormat, path: Path) -> int:
    rows = 0
    with path.open("wb") as file:
        async with _writer(kind, file, table.spec.schema) as writer:
            async for group in _groups(table, where):
                writer.write(group)
                rows += group.num_rows
        _flush(file)
    return rows


async def _groups(table: Table, where: Expr | None) -> AsyncIterator[pa.Table]:
    """The rows in groups of a bounded size: what is in memory does not grow with the table."""
    waiting: list[pa.RecordBatch] = []
    async for batch in table.batches(where, size=_BATCH_ROWS, columns=table.spec.schema.names):
        waiting.append(batch)
        if sum(item.nbytes for item in waiting) >= _GROUP_BYTES:
            yield pa.Table.from_batches(waiting, table.spec.schema)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting, table.spec.schema)


class _Writer(Protocol):
    def write(self, rows: pa.Table) -> None: ...

    async def __aenter__(self) -> _Writer: ...

    async def __aexit__(self, *error: object) -> None: ...


def _writer(kind: ExportFormat, file: BinaryIO, schema: pa.Schema) -> _Writer:
    match kind:
        case ExportFormat.PARQUET:
            return _ParquetWriter(file, schema)
        case ExportFormat.JSONL:
            return _JsonLinesWriter(file, schema)
        case _:
            assert_never(kind)


class _ParquetWriter:
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._writer = pq.ParquetWriter(file, schema, compression="zstd")

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)

    async def __aenter__(self) -> _ParquetWriter:
        return self

    async def __aexit__(self, *error: object) -> None:
        self._writer.close()


class _JsonLinesWriter:
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._file = file
        floating = [field.name for field in schema if pa.types.is_floating(field.type)]
        listed = [field.name for field in schema if pa.types.is_list(field.type)]
        self._plain: Mapping[str, Callable[[Any], Any]] = {
            **dict.fromkeys(floating, _number),
            **dict.fromkeys(listed, _numbers),
        }

    def write(self, rows: pa.Table) -> None:
        for row in rows.to_pylist():
            for name, plain in self._plain.items():
                row[name] = plain(row[name])
            self._file.write(orjson.dumps(row, option=orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE))

    async def __aenter__(self) -> _JsonLinesWriter:
        return self

    async def __aexit__(self, *error: object) -> None:
        """The file belongs to the caller."""


def _number(value: float | None) -> float | str | None:
    """JSON has no word for some numbers; they are written as text."""
    return value if value is None or math.isfinite(value) else _NOT_IN_JSON[str(value)]


def _numbers(values: list[float] | None) -> list[float | str | None] | None:
    return None if values is None else [_number(value) for value in values]


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
