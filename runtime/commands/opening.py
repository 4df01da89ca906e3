"""What every command does first: read the settings, open the store; and last: close it and say what went wrong."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

from runtime.commands.failing import failed
from runtime.errors import SettingError
from runtime.settings import WorkerSettings, worker_settings
from store.clock import SystemClock, SystemIds
from store.crashpoints import crash_at, no_crash
from store.database import Store, open_store
from store.errors import ConflictError, StoreError, StoreUnavailableError
from store.lock import ProcessRole, is_held
from store.options import StoreOptions
from store.workers import Worker, WorkerStatus, list_workers

#: a command gives up sooner than a worker: somebody waits for it
PATIENCE_S = 10.0
_SILENCE = timedelta(seconds=10)

Work = Callable[[Store, WorkerSettings], Awaitable[int]]
First = Callable[[WorkerSettings], Awaitable[int | None]]


async def _nothing(_: WorkerSettings) -> int | None:
    return None


def carry_out(work: Work, first: First = _nothing) -> int:
    """Do `work` on the store of the settings; its exit code, or 2 when the store or a setting cannot be used.

    `first` is done before the store is opened; what it returns, unless None, is the exit code and ends the command.
    """
    try:
        return asyncio.run(_on_store(work, first, worker_settings()))
    except (SettingError, StoreError, ValueError) as error:
        return failed(error, 2)


async def _on_store(work: Work, first: First, settings: WorkerSettings) -> int:
    options = StoreOptions(settings.data, PATIENCE_S)
    _refuse_nothing(options.folder)
    code = await first(settings)
    if code is not None:
        return code
    point = crash_at(settings.crash_at) if settings.crash_at else no_crash
    store = await open_store(options, clock=SystemClock(), ids=SystemIds(), crash_point=point)
    try:
        return await work(store, settings)
    finally:
        await store.close()


def _refuse_nothing(folder: Path | None) -> None:
    """A command looks after a store; where none is, it does not make one."""
    if folder is not None and not (folder / "migrations.lance").exists():
        raise StoreUnavailableError(f"there is no store in {str(folder)!r}; set STEPWELL_DATA to the folder of one")


async def living_workers(store: Store) -> list[Worker]:
    """The workers that may be at work. On this machine the kernel knows; elsewhere one is believed dead late."""
    running = [worker for worker in await list_workers(store.tenant()) if worker.status is WorkerStatus.RUNNING]
    return [worker for worker in running if _lives(store, worker)]


def _lives(store: Store, worker: Worker) -> bool:
    folder, now = store.options.folder, store.clock.now()
    if folder is not None and worker.host == socket.gethostname():
        return is_held(ProcessRole.of_worker(folder, worker.worker_id))
    return worker.alive(now) or worker.heartbeat_at + _SILENCE > now


def refuse_beside_workers_here(folder: Path | None) -> None:
    """Raise `ConflictError` when a worker of this machine holds the folder, before the store is opened."""
    signs = [] if folder is None else sorted((folder / "locks" / "workers").glob("*.lock"))
    if held := [sign for sign in signs if is_held(sign)]:
        raise ConflictError(f"worker {held[0].stem!r} is at work; stop it, or leave --repair out")
