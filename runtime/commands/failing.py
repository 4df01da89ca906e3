"""How a program says why it ends: one line on standard error, without the secrets that a setting in it may hold."""

from __future__ import annotations

import click

from runtime.guard.sources import process_secrets


def failed(error: Exception, code: int, program: str = "agents.py") -> int:
    """Say `error` and return the exit code `code`."""
    click.echo(process_secrets().redact(f"{program}: {error}"), err=True)
    return code
