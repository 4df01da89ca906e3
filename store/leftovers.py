"""Data files that no version names: a killed commit or compaction wrote them and never came to name them.

LanceDB keeps such files for seven days, for it cannot know whether a commit is still under way. On a local folder we
can: commits and compactions hold the table's locks. A file is removed when it was unnamed twice, `min_age_s` of this
process's running time apart, both times with the locks in our hands: a writer that went on without a stuck lock, or a
machine that slept, has had that long to name it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

MIN_AGE_S = 600.0


class Leftovers:
    """The unnamed data files of one table."""

    def __init__(self, table: Path, monotonic: Callable[[], float], *, min_age_s: float = MIN_AGE_S) -> None:
        self._table = table
        self._monotonic = monotonic
        self._min_age_s = min_age_s
        self._seen: dict[Path, float] = {}

    def sweep(self) -> list[Path]:
        """Remove what has been unnamed for long enough; call it only while nobody can commit.

        Crash in the middle: the rest goes at a later sweep.
        """
        now = self._monotonic()
        unnamed = _unnamed(self._table)
        self._seen = {path: self._seen.get(path, now) for path in unnamed}
        old = [path for path, since in self._seen.items() if now - since >= self._min_age_s]
        for path in old:
            path.unlink(missing_ok=True)
            del self._seen[path]
        return old


def _unnamed(table: Path) -> list[Path]:
    # The files come first: one that is named meanwhile is found in a manifest that is read after.
    files = sorted(path for path in (table / "data").glob("*") if path.is_file())
    named = bytearray()
    for manifest in (table / "_versions").glob("*.manifest*"):
        with contextlib.suppress(FileNotFoundError):
            named += manifest.read_bytes()
    return [path for path in files if path.name.encode() not in named]
