"""The worker: starts its parts (runtime/wiring.py) in order, and stops them in order.

Start: take a share of the lanes (runtime/takeover.py folds their journals and carries their sessions on), then follow
the queue and keep the share.
Stop (SIGTERM, Ctrl-C, or a helper that died):
1. the poller and the dispatcher take nothing new, *because* what they took now would only be parked;
2. the lanes are given up: idle ones at once, the others when their runners have left after their step and their rows
   are stored, *because* another worker may go on with a session the moment its lane is released;
3. the projector flushes and the last beat says that the worker has stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from runtime.dispatcher import Dispatcher
from runtime.errors import StopTimedOutError
from runtime.heartbeat import worker_row
from runtime.settings import WorkerSettings
from runtime.wiring import Outside, Parts, put_together
from store.agent_steps import journal_of
from store.clock import Clock
from store.database import Store, TenantStore
from store.errors import StoreError
from store.ids import WorkerId
from store.lock import ProcessRole
from store.workers import Worker, WorkerStatus, list_workers

_CLAIM_EVERY_S = 0.25
#: what the store may take for the last rows when the worker stops
_LAST_WRITES_S = 10.0


async def run_worker(store: Store, settings: WorkerSettings, outside: Outside, stop: asyncio.Event) -> None:
    """Work on the store until `stop` is set; returns when everything is stored.

    Any number of workers share one store, each running the sessions of the lanes that it owns.
    Raises what a helper task raised if one dies: a worker does not go on half alive.
    """
    worker = await _first_row(store.tenant(), settings, outside)
    role = _live_sign(store, worker.worker_id)
    try:
        await _work(await put_together(store.tenant(), settings, outside, worker), settings, outside, stop)
    finally:
        if role is not None:
            role.close()


def _live_sign(store: Store, worker_id: WorkerId) -> ProcessRole | None:
    """A lock that the kernel holds as long as this process lives: workers of this machine see its end at once."""
    folder = store.options.folder
    if folder is None:
        return None
    role = ProcessRole(ProcessRole.of_worker(folder, worker_id))
    role.try_take()
    return role


async def _work(parts: Parts, settings: WorkerSettings, outside: Outside, stop: asyncio.Event) -> None:
    worker, clock = parts.worker, parts.db.clock
    projecting = asyncio.create_task(parts.projector.run(), name="projector")
    following = asyncio.create_task(parts.guests.run(outside.log), name="guests")
    budgeting = asyncio.create_task(parts.budgets.follow(), name="budgets")
    upkeeping = asyncio.create_task(parts.upkeep.run(), name="upkeep")
    claiming = asyncio.create_task(_claim_slow(parts.dispatcher, clock), name="claims")
    returning = asyncio.create_task(parts.comeback.run(), name="comeback")
    raising = asyncio.create_task(parts.budgets.wake(parts.handlers.read_again), name="raised budgets")
    helpers = [projecting, following, budgeting, upkeeping, claiming, returning, raising]
    if parts.joining is not None:
        helpers.append(asyncio.create_task(parts.joining.run(), name="tool servers"))
    if parts.workspaces is not None:
        helpers.append(asyncio.create_task(parts.workspaces.run(), name="workspaces"))
    tracing = asyncio.create_task(parts.traces.run(), name="traces")
    exporting = [] if parts.exporter is None else [asyncio.create_task(parts.exporter.run(), name="otel")]
    helpers += [tracing, *exporting]
    try:
        await parts.leasing.begin()
        beating = asyncio.create_task(parts.leasing.keep_beating(), name="beats")
        sharing = asyncio.create_task(parts.leasing.keep_sharing(), name="leases")
        polling = asyncio.create_task(parts.poller.run(), name="poller")
        waking = asyncio.create_task(parts.sleepers.run(), name="sleepers")
        scheduling = asyncio.create_task(parts.scheduler.run(), name="scheduler")
        watching = asyncio.create_task(parts.watchdog.run(), name="watchdog")
        helpers += [watching, beating, sharing, polling, waking, scheduling]
        outside.log.info("worker ready", worker_id=worker.worker_id, epoch=worker.epoch, model=worker.model)
        await _until_stopped(stop, helpers)
        outside.log.info("worker stopping; running steps may finish", grace_s=settings.drain_s)
        async with _stop_within(settings.drain_s + _LAST_WRITES_S):
            await _end([polling, waking, scheduling, claiming, sharing, returning, raising, tracing, *exporting])
            await _stop(parts, [projecting, upkeeping, beating])
        outside.log.info("worker stopped; everything is stored", worker_id=worker.worker_id)
    finally:
        await _end(helpers)


async def _stop(parts: Parts, last: list[asyncio.Task[None]]) -> None:
    parts.dispatcher.close()
    giving = asyncio.create_task(parts.lanes.give_all(), name="giving everything")
    await asyncio.sleep(0)  # the runners know of it before anything is written
    await parts.heartbeat.beat(WorkerStatus.DRAINING)
    await giving
    await parts.dispatcher.settled()
    await _end(last)
    await parts.projector.flush()
    await parts.heartbeat.beat(WorkerStatus.STOPPED)


@asynccontextmanager
async def _stop_within(seconds: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise StopTimedOutError(
            f"the store could not be written within {seconds:g} s of the request to stop; "
            "the next start repairs what is missing from the journal"
        ) from error


async def _first_row(db: TenantStore, settings: WorkerSettings, outside: Outside) -> Worker:
    earlier = await list_workers(db)
    return worker_row(
        db,
        epoch=max((worker.epoch for worker in earlier), default=0) + 1,
        model=outside.model.label,
        monikers=outside.moniker_names,
        heartbeat_s=settings.heartbeat_s,
        lease_s=settings.lease_s,
        watermark=await journal_of(db).version(),
    )


async def _claim_slow(dispatcher: Dispatcher, clock: Clock) -> None:
    while True:
        await clock.sleep(_CLAIM_EVERY_S)
        with contextlib.suppress(StoreError):  # a claim is only shown to people; the store's users say what is wrong
            await dispatcher.claim_slow()


async def _until_stopped(stop: asyncio.Event, helpers: list[asyncio.Task[None]]) -> None:
    """Return when `stop` is set; raise when a helper dies: a worker without its poller would only look alive."""
    stopping = asyncio.create_task(stop.wait())
    done, _ = await asyncio.wait([stopping, *helpers], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    for task in done - {stopping}:
        task.result()
        raise RuntimeError(f"the worker's {task.get_name()} ended by itself")


async def _end(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
