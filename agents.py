"""The worker's entry point: settings -> store -> worker -> exit code."""

from __future__ import annotations

import gc
import sys

import click
import uvloop

from monikers.catalogue import catalogue
from runtime.commands.check import check_store
from runtime.commands.export import export
from runtime.commands.failing import failed
from runtime.commands.guard import guard_report
from runtime.commands.replay import replay_command
from runtime.commands.upkeep import upkeep
from runtime.commands.work import work
from runtime.errors import SettingError, StopTimedOutError
from runtime.settings import worker_settings
from store.errors import StoreAwayError, StoreError
from store.heap import keep_heap_small


@click.group(invoke_without_command=True)
@click.option("--until-stdin-closes", is_flag=True, help="Stop when standard input ends: a parent process died.")
@click.pass_context
def main(context: click.Context, until_stdin_closes: bool) -> None:
    """Run the Stepwell worker: it carries out the queue's actions and its sessions' steps."""
    if context.invoked_subcommand is None:
        sys.exit(_run(until_stdin_closes=until_stdin_closes))


for command in (replay_command(catalogue), check_store, export, upkeep, guard_report):
    main.add_command(command)


def _run(*, until_stdin_closes: bool) -> int:
    keep_heap_small()
    # Imports make what stays, steps little that refers to itself: fewer looks for garbage, a tenth more steps a second.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    try:
        settings = worker_settings()
        uvloop.run(work(settings, catalogue(), until_stdin_closes=until_stdin_closes))
    except (StoreAwayError, StopTimedOutError) as error:
        return failed(error, 1)
    except (SettingError, StoreError, ValueError) as error:
        return failed(error, 2)
    return 0


if __name__ == "__main__":
    main()
