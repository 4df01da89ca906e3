"""Whether the disk under a store takes writes: asked before somebody's write has to find out."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from store.database import Store
from store.errors import StoreUnavailableError

# More than a file system may keep within the name's own entry.
_BYTES = 16_384


async def check_writable(store: Store) -> None:
    """Write, sync and remove a small file in the data folder; raises `StoreUnavailableError` if that fails.

    On object storage it asks nothing: a write there costs money. A crash in between leaves the file, which the next
    probe of a process with the same id replaces.
    """
    folder = store.options.folder
    if folder is None:
        return
    try:
        await asyncio.to_thread(_write, folder / "locks" / f"probe.{os.getpid()}")
    except OSError as error:
        raise StoreUnavailableError(
            f"the data folder {str(folder)!r} cannot be written: {error}; check the disk's space and health"
        ) from error


def _write(path: Path) -> None:
    try:
        with path.open("wb") as file:
            file.write(bytes(_BYTES))
            file.flush()
            os.fsync(file.fileno())
    finally:
        path.unlink(missing_ok=True)
