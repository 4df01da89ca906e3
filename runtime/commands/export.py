"""`agents.py export`: the store's rows as Parquet or JSON lines, beside a running worker if need be."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from runtime.commands.opening import carry_out
from store.database import Store
from store.errors import BadFilterError
from store.export import ExportFormat, ExportRequest
from store.export import export as export_rows
from store.ids import SessionId


@click.command()
@click.option("--to", "folder", required=True, type=click.Path(path_type=Path), help="A folder that is not there yet.")
@click.option(
    "--format",
    "kind",
    type=click.Choice([kind.value for kind in ExportFormat]),
    default=ExportFormat.PARQUET.value,
    show_default=True,
)
@click.option("--tables", default="", help="Only these, separated by commas.")
@click.option("--session", default=None, help="Only this session's rows, of the tables that have some.")
@click.option("--since", default=None, help="Only rows made since then: ISO 8601, UTC unless it says otherwise.")
def export(folder: Path, kind: str, tables: str, session: str | None, since: str | None) -> None:
    """Write the store's rows to files, a file a table, each table as it was at one moment."""

    def request() -> ExportRequest:
        names = tuple(name.strip() for name in tables.split(",") if name.strip())
        session_id = None if session is None else SessionId(session)
        return ExportRequest(ExportFormat(kind), names, session_id, None if since is None else _moment(since))

    async def work(store: Store, _: object) -> int:
        for done in await export_rows(store.tenant(), request(), folder):
            click.echo(f"{done.rows:>10,}  {done.file}  (version {done.version})")
        return 0

    sys.exit(carry_out(work))


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadFilterError(f"--since {text!r} is no ISO 8601 time; write it like 2026-01-31T12:00") from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
