"""What every child process of the harness does first: its own group, settings and log, and an end with its parent."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path


def begin(said: str, settings: Mapping[str, str]) -> None:
    """Become a child whose output goes to the file `said` and that dies when the harness does, however that dies."""
    os.setsid()
    os.environ.update(settings)
    with Path(said).open("ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGKILL)
