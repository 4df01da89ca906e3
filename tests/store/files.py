"""What this process has open, and who holds a lock file."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def open_files() -> list[str]:
    """The paths behind this process's descriptors."""
    paths = []
    for name in os.listdir("/proc/self/fd"):
        try:
            paths.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
    return paths


def is_free(path: Path) -> bool:
    """Whether somebody else could have the lock now."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
