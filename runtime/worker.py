"""The worker: puts the parts together, starts them in order, and stops them in order.

Start: take the role, repair the projections, read what is open, carry running sessions on, then follow the queue.
Stop (SIGTERM, Ctrl-C, or a helper that died):
1. the poller and the dispatcher take nothing new, *because* what they took now would only be parked;
2. the runners leave after their step, while the projector still runs, *because* they wait for their rows;
3. the handlers end, and mark what is finished;
4. the projector flushes and the last beat stores the watermark, so that the next start has nothing to repair.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.context import Services
from runtime.contract import Files, MonikerInputError
from runtime.dispatcher import Dispatcher
from runtime.errors import ParkedError, RefusedError, StopTimedOutError
from runtime.firstof import first_of
from runtime.guests import Guests
from runtime.handlers import Handlers
from runtime.heartbeat import Heartbeat, worker_row
from runtime.llm.port import ChatModel
from runtime.poller import Poller
from runtime.projector import Projector
from runtime.registry import MonikerCatalogue, Ownership, Registry
from runtime.rehydration import CARRIED_ON, Recovered, know_answered, repair_projections
from runtime.settings import WorkerSettings
from runtime.sleepers import Sleepers, SleepList
from store.actions import list_open_actions, queue_of
from store.agent_state import AgentState, SessionStatus, list_sleeping, list_states_in
from store.crashpoints import CrashPoint
from store.database import Store, TenantStore
from store.lock import ProcessRole
from store.upkeep import Upkeep, UpkeepRules
from store.workers import Worker, WorkerStatus, list_workers

_CLAIM_EVERY_S = 0.25
#: what the store may take for the last rows when the worker stops
_LAST_WRITES_S = 10.0


@dataclass(frozen=True, slots=True)
class Outside:
    """What a worker is given from outside: the model, the monikers, the files, the log."""

    model: ChatModel
    catalogue: MonikerCatalogue
    moniker_names: list[str]
    files: Files
    log: Any
    crash_point: CrashPoint


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a running worker."""

    db: TenantStore
    guests: Guests
    registry: Registry
    projector: Projector
    dispatcher: Dispatcher
    poller: Poller
    sleepers: Sleepers
    heartbeat: Heartbeat
    upkeep: Upkeep
    recovered: Recovered


async def run_worker(store: Store, settings: WorkerSettings, outside: Outside, stop: asyncio.Event) -> None:
    """Work on the store until `stop` is set; returns when everything is stored.

    One worker at a time works on a folder: a second one waits and takes over when the first ends, however it ends.
    Raises what a helper task raised if one dies: a worker does not go on half alive.
    """
    role = await _take_role(store, outside.log, stop)
    if stop.is_set():
        return
    try:
        await _work(store, settings, outside, stop)
    finally:
        if role is not None:
            role.close()


async def _take_role(store: Store, log: Any, stop: asyncio.Event) -> ProcessRole | None:
    folder = store.options.folder
    if folder is None:
        return None
    role = ProcessRole(Path(folder) / "locks" / "worker.lock")
    if not role.try_take():
        log.info("another worker works on this folder; standing by to take over when it ends")
        await first_of(_take_in_turn(store, role), stop.wait())
    return role


async def _take_in_turn(store: Store, role: ProcessRole) -> None:
    # Asking again and again, not blocking in a thread: a thread that waits for a lock cannot be ended.
    while not role.try_take():
        await store.clock.sleep(0.1)


async def _work(store: Store, settings: WorkerSettings, outside: Outside, stop: asyncio.Event) -> None:
    parts, worker = await _prepare(store.tenant(), settings, outside)
    projecting = asyncio.create_task(parts.projector.run(), name="projector")
    beating = asyncio.create_task(parts.heartbeat.run(), name="heartbeat")
    upkeeping = asyncio.create_task(parts.upkeep.run(), name="upkeep")
    claiming = asyncio.create_task(_claim_slow(parts.dispatcher, store), name="claims")
    following = asyncio.create_task(parts.guests.run(outside.log), name="guests")
    try:
        await _carry_on(parts, outside.log)
        polling = asyncio.create_task(parts.poller.run(), name="poller")
        waking = asyncio.create_task(parts.sleepers.run(), name="sleepers")
        outside.log.info("worker ready", worker_id=worker.worker_id, epoch=worker.epoch, model=worker.model)
        await _until_stopped(stop, [projecting, beating, upkeeping, claiming, following, polling, waking])
        outside.log.info("worker stopping; running steps may finish", grace_s=settings.drain_s)
        async with _stop_within(settings.drain_s + _LAST_WRITES_S):
            await _end([polling, waking, claiming])
            await _stop(parts, settings, [projecting, beating, upkeeping])
        outside.log.info("worker stopped; everything is stored", worker_id=worker.worker_id)
    finally:
        await _end([projecting, beating, upkeeping, claiming, following])


async def _stop(parts: Parts, settings: WorkerSettings, writing: list[asyncio.Task[None]]) -> None:
    parts.dispatcher.close()
    await parts.registry.drain(grace_s=settings.drain_s)
    await parts.dispatcher.settled()
    await _end(writing)
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


async def _prepare(db: TenantStore, settings: WorkerSettings, outside: Outside) -> tuple[Parts, Worker]:
    earlier = await list_workers(db)
    watermark = max((worker.journal_version for worker in earlier), default=0)
    epoch = max((worker.epoch for worker in earlier), default=0) + 1
    recovered, watermark = await repair_projections(db, watermark)
    if recovered.repaired:
        outside.log.info("sessions brought up to their journal after a crash", sessions=recovered.repaired)
    worker = worker_row(
        db,
        epoch=epoch,
        model=outside.model.label,
        monikers=outside.moniker_names,
        heartbeat_s=settings.heartbeat_s,
        watermark=watermark,
    )
    return await _build(db, settings, outside, worker, recovered), worker


async def _build(
    db: TenantStore, settings: WorkerSettings, outside: Outside, worker: Worker, recovered: Recovered
) -> Parts:
    services = Services(db, outside.model, outside.files, db.clock, outside.log)
    guests = Guests(db)
    await guests.refresh()
    projector = Projector(
        db,
        guests,
        interval_s=settings.projection_s,
        watermark=worker.journal_version,
        crash_point=outside.crash_point,
    )
    sleeping = SleepList()
    registry = Registry(
        services,
        projector,
        outside.catalogue,
        Ownership(worker.worker_id, worker.epoch),
        hold_s=settings.hold_s,
        sleep=sleeping.add,
    )
    handlers = Handlers(
        db=db,
        registry=registry,
        projector=projector,
        catalogue=outside.catalogue,
        recovered=recovered,
        stop_grace_s=settings.stop_grace_s,
    )
    dispatcher = Dispatcher(db, handlers, owner=worker.worker_id, claim_after_s=settings.claim_after_s, log=outside.log)
    poller = Poller(db, dispatcher, version=await queue_of(db).version(), log=outside.log)
    handlers.on_resume(poller.reread)
    for session_id, wake_at in await list_sleeping(db):
        sleeping.add(session_id, wake_at)
    return Parts(
        db=db,
        guests=guests,
        registry=registry,
        projector=projector,
        dispatcher=dispatcher,
        poller=poller,
        sleepers=Sleepers(registry, sleeping, db.clock, outside.log),
        heartbeat=Heartbeat(db, projector, worker, outside.log),
        upkeep=Upkeep(db.store, UpkeepRules(), outside.log),
        recovered=recovered,
    )


async def _carry_on(parts: Parts, log: Any) -> None:
    """Hand out what was open, then carry the sessions on that were running: control comes before the next step."""
    ticket = parts.dispatcher.ticket()
    waiting = await list_open_actions(parts.db)
    await know_answered(parts.db, parts.recovered, waiting)
    running = await list_states_in(parts.db, CARRIED_ON)
    parts.poller.offer(waiting, ticket)
    if waiting or running:
        log.info("carrying on", open_actions=len(waiting), sessions=len(running))
    await asyncio.gather(*[_carry_on_session(parts.registry, row, log) for row in running])


async def _carry_on_session(registry: Registry, row: AgentState, log: Any) -> None:
    async with registry.lane(row.session_id):
        if row.session_id in registry.SESSIONS:
            return
        try:
            runner = await registry.open_row(row)
        except (MonikerInputError, RefusedError, ParkedError) as error:
            log.warning("a session was left as it is", session_id=row.session_id, error=str(error))
            return
        if runner.session.status is SessionStatus.STOPPING:
            runner.request_stop()


async def _claim_slow(dispatcher: Dispatcher, store: Store) -> None:
    while True:
        await store.clock.sleep(_CLAIM_EVERY_S)
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
