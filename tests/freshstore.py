"""New stores for tests: copies of one that each test process makes once, since to open a copy takes half the time."""

from __future__ import annotations

import asyncio
import atexit
import functools
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from store.database import open_store
from store.options import StoreOptions
from store.testing import CountingIds, FrozenClock


def put_fresh_store(folder: Path) -> None:
    """Put the files of a store in which nothing happened yet into `folder`, unless something is there."""
    if not folder.exists() or not any(folder.iterdir()):
        shutil.copytree(_made_once(), folder, dirs_exist_ok=True)


@functools.cache
def _made_once() -> Path:
    kept = Path(tempfile.mkdtemp(prefix="stepwell-fresh-"))
    atexit.register(shutil.rmtree, kept, ignore_errors=True)
    with ThreadPoolExecutor(1) as thread:  # whoever asks may be in a loop of its own
        thread.submit(asyncio.run, _make(kept / "data")).result()
    return kept / "data"


async def _make(folder: Path) -> None:
    store = await open_store(StoreOptions(str(folder)), clock=FrozenClock(), ids=CountingIds())
    await store.close()
