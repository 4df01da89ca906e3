"""The worker's entry point: settings -> store -> worker -> exit code."""

from __future__ import annotations

import gc
import sys

import click
import uvloop

from monikers.catalogue import catalogue
from runtime.errors import SettingError, StopTimedOutError
from runtime.files import AllowedFiles
from runtime.llm.factory import ModelSettings, chat_model, close_chat_model
from runtime.logs import configure_logs
from runtime.settings import WorkerSettings, worker_settings
from runtime.stopping import stop_event
from runtime.worker import Outside, run_worker
from store.clock import SystemClock, SystemIds
from store.crashpoints import crash_at, no_crash
from store.database import open_store
from store.errors import StoreError
from store.options import StoreOptions


@click.group(invoke_without_command=True)
@click.option("--until-stdin-closes", is_flag=True, help="Stop when standard input ends: a parent process died.")
@click.pass_context
def main(context: click.Context, until_stdin_closes: bool) -> None:
    """Run the Stepwell worker: it carries out the queue's actions and its sessions' steps."""
    if context.invoked_subcommand is None:
        sys.exit(_run(until_stdin_closes=until_stdin_closes))


def _run(*, until_stdin_closes: bool) -> int:
    # What the imports made lives as long as the process, and steps make little that refers to itself: looking for
    # garbage less often gives a tenth more steps a second.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    try:
        settings = worker_settings()
        uvloop.run(_work(settings, until_stdin_closes=until_stdin_closes))
    except (SettingError, StoreError, ValueError) as error:
        click.echo(f"agents.py: {error}", err=True)
        return 2
    except StopTimedOutError as error:
        click.echo(f"agents.py: {error}", err=True)
        return 1
    return 0


async def _work(settings: WorkerSettings, *, until_stdin_closes: bool) -> None:
    crash_point = crash_at(settings.crash_at) if settings.crash_at else no_crash
    log = configure_logs(settings.log_format, settings.log_level)
    model = chat_model(ModelSettings())
    options = StoreOptions(settings.data, settings.patience_s)
    store = await open_store(options, clock=SystemClock(), ids=SystemIds(), crash_point=crash_point)
    files = AllowedFiles(settings.file_roots, forbidden=[options.folder] if options.folder else [])
    known = catalogue()
    outside = Outside(model, known, [str(name) for name in known.names()], files, log, crash_point)
    await run_worker(store, settings, outside, stop_event(until_stdin_closes=until_stdin_closes))
    await close_chat_model(model)
    await store.close()


if __name__ == "__main__":
    main()
