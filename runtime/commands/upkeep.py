"""`agents.py upkeep`: one turn of retention, compaction, pruning and index building on every table, by hand."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from datetime import timedelta

import click
from rich.console import Console
from rich.table import Table

from runtime.commands.opening import carry_out, living_workers
from runtime.keeping import upkeep_rules, workspace_keeper
from runtime.settings import WorkerSettings
from store.database import Store
from store.errors import ConflictError
from store.figures import TableFigures, table_figures
from store.upkeep import Upkeep

#: what the engine takes for "all old versions"
_AT_ONCE = timedelta(milliseconds=1)
_WIDTH = 100


class _Told:
    """Upkeep's log: warnings go to standard error and into the exit code."""

    def __init__(self) -> None:
        self.warnings = 0

    def debug(self, event: str, **fields: object) -> None:
        """The table says it."""

    def info(self, event: str, **fields: object) -> None:
        """The last line says it."""

    def warning(self, event: str, **fields: object) -> None:
        self.warnings += 1
        click.echo(f"{event}: {', '.join(f'{name}={value}' for name, value in fields.items() if value)}", err=True)


@click.command()
@click.option("--now", is_flag=True, help="Drop every old version at once; for when no worker runs.")
def upkeep(now: bool) -> None:
    """Delete what is to be deleted, merge files, drop old versions, build indexes: one turn on every table."""
    sys.exit(carry_out(lambda store, settings: _upkeep(store, settings, now=now)))


async def _upkeep(store: Store, settings: WorkerSettings, *, now: bool) -> int:
    rules = upkeep_rules(settings)
    if now:
        if working := await living_workers(store):
            raise ConflictError(
                f"worker {working[0].worker_id!r} (pid {working[0].pid} on {working[0].host}) may be reading an older "
                "version; stop it, or leave --now out"
            )
        rules = dataclasses.replace(rules, keep=_AT_ONCE)
    told = _Told()
    before = await table_figures(store)
    turn = Upkeep(store, rules, told)
    deleted = await turn.retain()
    await turn.once(force=True)
    keeper = workspace_keeper(store.tenant(), settings, told)
    removed = 0 if keeper is None else await keeper.once()
    _show(before, await table_figures(store), deleted)
    if removed:
        click.echo(f" {removed} {'workspace' if removed == 1 else 'workspaces'} of ended sessions removed")
    return 1 if told.warnings else 0


def _show(before: Sequence[TableFigures], after: Sequence[TableFigures], deleted: dict[str, int]) -> None:
    shown = Table("table", box=None, header_style="")
    for heading in ("rows", "deleted", "files", "bytes", "versions"):
        shown.add_column(heading, justify="right")
    for was, is_now in zip(before, after, strict=True):
        shown.add_row(
            was.table,
            _change(was.rows, is_now.rows),
            str(deleted.get(was.table, 0)),
            _change(was.files, is_now.files),
            _change(was.bytes, is_now.bytes),
            _change(was.versions, is_now.versions),
        )
    Console(width=_WIDTH).print(shown)


def _change(before: int, after: int) -> str:
    return f"{before:,}" if before == after else f"{before:,} > {after:,}"
