"""A temporary store with a real worker, and a real web process where a figure needs one."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from store.clock import SystemClock, SystemIds
from store.database import Store, open_store
from store.options import StoreOptions
from store.workers import list_workers

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def folder() -> Iterator[Path]:
    """A data folder that is removed afterwards."""
    path = Path(tempfile.mkdtemp(prefix="stepwell-bench-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[Store]:
    """The store in `path`."""
    store = await open_store(StoreOptions(str(path)), clock=SystemClock(), ids=SystemIds())
    try:
        yield store
    finally:
        await store.close()


@contextmanager
def process(path: Path, *arguments: str, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """One of the product's programs on the store in `path`, ended by SIGTERM afterwards."""
    environment = {**os.environ, "STEPWELL_DATA": str(path), "STEPWELL_LOG_LEVEL": "warning", **settings}
    child = subprocess.Popen([sys.executable, *arguments], cwd=ROOT, env=environment)
    try:
        yield child
    finally:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(timeout=30)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


async def worker_ready(store: Store, deadline_s: float = 60.0, *, workers: int = 1) -> None:
    """Return when so many workers have stored their first beats."""

    async def beating() -> bool:
        beats = [worker.alive(store.clock.now()) for worker in await list_workers(store.tenant())]
        return sum(beats) >= workers

    await eventually(beating, deadline_s)


async def eventually(check: Callable[[], Awaitable[bool]], deadline_s: float, every_s: float = 0.05) -> None:
    """Return when `check` holds; raise TimeoutError after `deadline_s`."""
    async with asyncio.timeout(deadline_s):
        while not await check():
            await asyncio.sleep(every_s)
