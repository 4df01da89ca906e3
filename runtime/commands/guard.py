"""`agents.py guard`: what the guard of the settings looks at, and the measured quality of its classifier."""

from __future__ import annotations

import sys

import click

from runtime.commands.failing import failed
from runtime.errors import SettingError
from runtime.guard.deployment import GuardSettings, guard_service
from runtime.guard.errors import GuardError
from runtime.guard.report import report
from runtime.llm.offline import OfflineModel


@click.command(name="guard")
def guard_report() -> None:
    """Report the gates of the settings and how good the classifier is. Exits with 2 when a setting cannot be used."""
    try:
        # No model is asked: any will do to see what is in front of it.
        lines = list(report(guard_service(GuardSettings(), OfflineModel())))
    except (SettingError, GuardError, ValueError) as error:
        sys.exit(failed(error, 2))
    click.echo("\n".join(lines))
