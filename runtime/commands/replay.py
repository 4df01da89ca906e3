"""`agents.py replay`: takes a session's stored steps again, from their records, and says what is different now."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import click

from runtime.commands.failing import failed
from runtime.contract import MonikerInputError
from runtime.errors import SettingError
from runtime.files import AllowedFiles
from runtime.registry import MonikerCatalogue
from runtime.replay import Replayed, replay_session
from runtime.settings import WorkerSettings, worker_settings
from runtime.tools.deployment import tool_offer
from store.clock import SystemClock, SystemIds
from store.crashpoints import no_crash
from store.database import open_store
from store.errors import StoreError, StoreUnavailableError
from store.ids import SessionId
from store.options import StoreOptions

_PATIENCE_S = 10.0


def replay_command(catalogue: Callable[[], MonikerCatalogue]) -> click.Command:
    """The command, for the monikers of `catalogue`."""

    @click.command(name="replay")
    @click.argument("session_id")
    @click.option("--from", "first", type=click.IntRange(min=0), default=0, show_default=True, help="First iteration.")
    @click.option("--to", "last", type=click.IntRange(min=0), default=None, help="Last iteration.")
    def replay(session_id: str, first: int, last: int | None) -> None:
        """Take a session's stored steps again, from their records, without a model or tool call.

        Exits with 0 when every step is as it was, 1 at the first difference, 2 when the session cannot be replayed.
        """
        try:
            settings = worker_settings()
            found = asyncio.run(_replay(settings, catalogue(), SessionId(session_id), first, last))
        except (SettingError, StoreError, MonikerInputError, ValueError) as error:
            sys.exit(failed(error, 2))
        click.echo(_report(session_id, found))
        sys.exit(1 if found.difference else 0)

    return replay


async def _replay(
    settings: WorkerSettings, catalogue: MonikerCatalogue, session_id: SessionId, first: int, last: int | None
) -> Replayed:
    options = StoreOptions(settings.data, _PATIENCE_S)
    if options.folder is not None and not (options.folder / "migrations.lance").exists():
        raise StoreUnavailableError(f"there is no store in {str(options.folder)!r}; set STEPWELL_DATA to one")
    files = AllowedFiles(settings.file_roots, forbidden=[Path(options.folder)] if options.folder else [])
    store = await open_store(options, clock=SystemClock(), ids=SystemIds(), crash_point=no_crash)
    try:
        db = store.tenant()
        tools = tool_offer(db, settings.tools_file, options.folder)
        return await replay_session(db, catalogue, files, session_id, first=first, last=last, tools=tools)
    finally:
        await store.close()


def _report(session_id: str, found: Replayed) -> str:
    counted = f"session {session_id}: {found.steps} steps replayed"
    counted += f", {found.passed_over} rows passed over" if found.passed_over else ""
    return f"{counted}, the same" if found.difference is None else f"{counted}; then {found.difference}"
