"""Start other programs from the set-up, and talk to the person who waits for it. Standard library only."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


class SetupError(Exception):
    """The checkout cannot be made ready; the text says what to do about it."""


def say(message: str) -> None:
    """A line for the person who waits. All of set-up's words go to the error output, away from the tests' own."""
    print(message, file=sys.stderr, flush=True)


def start(command: Sequence[str | Path], *, turn: int | None = None) -> int:
    """Run a program and show what it prints; its exit code, negative if a signal ended it.

    `turn` is the descriptor of a held lock: the program holds it too, for as long as it lives.
    """
    keep = () if turn is None else (turn,)
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=2, pass_fds=keep, check=False).returncode


def output(command: Sequence[str | Path]) -> str | None:
    """What a program prints; None if it cannot be started or fails."""
    try:
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, text=True, check=False)
    except OSError:  # for example the interpreter of an old .venv that has since been removed
        return None
    return done.stdout.strip() if done.returncode == 0 else None
