"""A small disk of its own for the data, where this user may mount one, so that it can be filled."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FILLER = "filler"
_BLOCK = b"\0" * (1 << 20)


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[bool]:
    """Mount a tmpfs of this size on `folder` for a while; tells whether that was possible.

    What was on it is kept in `folder` afterwards.
    """
    folder.mkdir(parents=True, exist_ok=True)
    mounted = _run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "stepwell-chaos", str(folder))
    try:
        yield mounted
    finally:
        if mounted:
            kept = folder.with_name(f"{folder.name}.kept")
            shutil.copytree(folder, kept)
            _run("umount", str(folder))
            folder.rmdir()
            kept.rename(folder)


def _run(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def fill(folder: Path) -> None:
    """Write until there is no room left."""
    with contextlib.suppress(OSError), (folder / _FILLER).open("ab", buffering=0) as file:
        while True:
            if file.write(_BLOCK) < len(_BLOCK):
                return


def free(folder: Path) -> None:
    """Take the filler away."""
    (folder / _FILLER).unlink(missing_ok=True)
