"""Taking a whole workspace off the disk, through the same door as everything else (runtime/tools/workspace/root.py).

It is what deleting a folder is, one level further up: the workspace's folder is renamed to the staging name of the
folder of its scope, which is one step for whoever looks, and then emptied there. Whoever changes the workspace holds
its lock, and then it is left alone; whoever waits for the lock meanwhile finds that the folder is another one, and
begins with an empty workspace.

Crash before the rename: nothing. After: it is gone for everybody, and the next `claim` or `clear` in that scope takes
the rest off the disk.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runtime.tools.workspace.paths import STAGING
from runtime.tools.workspace.root import changing, folder, look, opened


def names_in(base: Path, scope: str) -> list[str]:
    """The folders of a scope; none where nobody has used a workspace of it. Links and files are left out."""
    if not base.is_dir():
        return []
    with opened(base, ()) as top, contextlib.suppress(FileNotFoundError), folder(top, (scope,)) as at:
        return sorted(name for name in os.listdir(at) if name != STAGING and _is_folder(at, name))
    return []


def clear(base: Path, scope: str) -> None:
    """Take off the disk what a crash left of a workspace that was being taken away."""
    if not base.is_dir():
        return
    with opened(base, ()) as top:
        used = look(top, scope) is not None
    if used:
        with changing(base, (scope,)):
            return


@dataclass(frozen=True, slots=True)
class Claim:
    """A workspace that nobody changes until `close`."""

    _at: int
    _name: str
    _held: contextlib.ExitStack

    def take_away(self) -> None:
        """Nobody finds it from here on; `close` empties it. Raises `OSError`."""
        os.rename(self._name, STAGING, src_dir_fd=self._at, dst_dir_fd=self._at)
        os.fsync(self._at)

    def close(self) -> None:
        """Let it go, or take what is left of it off the disk."""
        self._held.close()


def claim(base: Path, inside: Sequence[str], name: str) -> Claim | None:
    """Hold the workspace `name` of a scope; None when it is gone, is no folder, or somebody is changing it now.

    Only one workspace of a scope is held at a time, among all processes. Raises `OSError`.
    """
    with contextlib.ExitStack() as stack:
        at = stack.enter_context(changing(base, inside))
        try:
            root = stack.enter_context(folder(at, (name,)))
            fcntl.flock(root, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (FileNotFoundError, NotADirectoryError, BlockingIOError):
            return None
        return Claim(at, name, stack.pop_all())


def _is_folder(at: int, name: str) -> bool:
    status = look(at, name)
    return status is not None and stat.S_ISDIR(status.st_mode)
