"""The wiring of a worker: its parts, put together but not started; the only place that knows all of them.

The order is that of who needs whom: what carries sessions, what takes actions from the queue, what moves lanes. The
handlers and the dispatcher also need what is made after them; `_taking` tells them of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runtime.approvals.deadlines import Deadlines
from runtime.bounded import RecordLimits
from runtime.budgets.keeping import BudgetKeeper
from runtime.budgets.ledger import Ledger
from runtime.comeback import Comeback
from runtime.context import Services
from runtime.contract import Files
from runtime.dispatcher import Dispatcher
from runtime.guard.onstep import GuardService
from runtime.guard.secretsgate import Secrets
from runtime.guests import Guests
from runtime.handlers import Handlers
from runtime.heartbeat import Heartbeat
from runtime.keeping import upkeep_rules, workspace_keeper
from runtime.leasing import Leasing
from runtime.llm.port import ChatModel, EmbeddingModel
from runtime.ownership import LeasedOwnership
from runtime.poller import Poller
from runtime.projector import Projector
from runtime.registry import MonikerCatalogue, Registry
from runtime.rehydration import Recovered
from runtime.retries import Retries, RetryPace, RetryPolicy
from runtime.sandbox.sealkey import FILE_NAME, SealKey
from runtime.sandbox.walls import Walls
from runtime.scheduler import Scheduler
from runtime.settings import WorkerSettings
from runtime.sleepers import Sleepers, SleepList
from runtime.slots import Slots
from runtime.takeover import Lanes
from runtime.tokens import TokenFeed
from runtime.tools.deployment import tool_offer
from runtime.tools.joining import Joining, ToolServers
from runtime.tools.tool import Tool
from runtime.tools.workspace.keeping import WorkspaceKeeper
from runtime.tracing.export import TraceExporter
from runtime.tracing.follower import TraceFollower
from runtime.tracing.otlp import otlp_collector
from runtime.watchdog import Watchdog
from store.actions import queue_of
from store.clock import SystemChance
from store.crashpoints import CrashPoint
from store.database import TenantStore
from store.lanes import HOUSEKEEPING
from store.options import StoreOptions
from store.spendingsums import FollowedSpending
from store.upkeep import Upkeep
from store.workers import Worker


@dataclass(frozen=True, slots=True)
class Outside:
    """What a worker is given from outside: the model, the monikers, the files, the log."""

    model: ChatModel
    catalogue: MonikerCatalogue
    moniker_names: list[str]
    files: Files
    log: Any
    crash_point: CrashPoint
    #: the model that embeds, if there is one
    embedder: EmbeddingModel | None = None
    #: tools beside the built-in ones
    tools: tuple[Tool, ...] = ()
    #: MCP servers, whose tools come and go
    tool_servers: ToolServers | None = None
    guard: GuardService | None = None
    secrets: Secrets = field(default_factory=Secrets)


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a running worker."""

    db: TenantStore
    worker: Worker
    guests: Guests
    budgets: BudgetKeeper
    handlers: Handlers
    projector: Projector
    dispatcher: Dispatcher
    poller: Poller
    scheduler: Scheduler
    sleepers: Sleepers
    comeback: Comeback
    heartbeat: Heartbeat
    lanes: Lanes
    leasing: Leasing
    watchdog: Watchdog
    upkeep: Upkeep
    #: None without MCP servers
    joining: Joining | None
    #: None where workspaces are kept for ever
    workspaces: WorkspaceKeeper | None
    traces: TraceFollower
    #: None unless traces are exported
    exporter: TraceExporter | None


@dataclass(frozen=True, slots=True)
class _Given:
    """What every part may need."""

    db: TenantStore
    settings: WorkerSettings
    outside: Outside
    worker: Worker
    ownership: LeasedOwnership

    def keeps_house(self) -> bool:
        """Whether this worker is the one that does what is to be done once for all workers."""
        return self.ownership.holds(HOUSEKEEPING)

    def house_epoch(self) -> int:
        """The epoch under which it is."""
        return self.ownership.epoch_of(HOUSEKEEPING)


@dataclass(frozen=True, slots=True)
class _Carrying:
    """What carries sessions from step to step."""

    guests: Guests
    projector: Projector
    sleeping: SleepList
    registry: Registry
    recovered: Recovered
    joining: Joining | None
    budgets: BudgetKeeper


@dataclass(frozen=True, slots=True)
class _Taking:
    """What takes actions from the queue."""

    handlers: Handlers
    dispatcher: Dispatcher
    poller: Poller


async def put_together(db: TenantStore, settings: WorkerSettings, outside: Outside, worker: Worker) -> Parts:
    """The parts of `worker`. The store is only read; a part does nothing until it is run."""
    ownership = LeasedOwnership(db, worker.worker_id, lease_s=settings.lease_s)
    given = _Given(db, settings, outside, worker, ownership)
    carrying = await _carrying(given)
    taking = await _taking(given, carrying)
    return _parts(given, carrying, taking, _lanes(given, carrying, taking))


async def _carrying(given: _Given) -> _Carrying:
    guests, sleeping = Guests(given.db), SleepList()
    await guests.refresh()
    projector = Projector(
        given.db,
        guests,
        given.ownership,
        interval_s=given.settings.projection_s,
        watermark=given.worker.journal_version,
        crash_point=given.outside.crash_point,
    )
    spending = FollowedSpending(given.db)
    ledger = Ledger(spending.sums, touch=projector.touch)
    budgets = BudgetKeeper(given.db, ledger, spending, given.outside.log)
    await budgets.refresh()
    services, servers = _services(given, ledger), given.outside.tool_servers
    registry = _registry(given, services, projector, sleeping)
    budgets.bind(registry)
    joining = None if servers is None else Joining(services.tools, servers)
    return _Carrying(guests, projector, sleeping, registry, Recovered(), joining, budgets)


def _registry(given: _Given, services: Services, projector: Projector, sleeping: SleepList) -> Registry:
    settings = given.settings
    return Registry(
        services,
        projector,
        given.outside.catalogue,
        given.ownership,
        hold_s=settings.hold_s,
        sleep=sleeping.add,
        retries=_retry_policy(settings),
        slots=Slots(settings.max_running),
    )


def _services(given: _Given, ledger: Ledger) -> Services:
    db, settings, outside = given.db, given.settings, given.outside
    limits = RecordLimits(settings.record_s, settings.record_bytes)
    folder = StoreOptions(settings.data).folder
    return Services(
        db,
        outside.model,
        outside.files,
        db.clock,
        outside.log,
        limits,
        settings.max_hops,
        embedder=outside.embedder,
        tokens=TokenFeed(db, db.clock, outside.log),
        tools=tool_offer(db, settings.tools_file, folder, outside.tools),
        walls=_walls(given, folder),
        budgets=ledger,
        guard=outside.guard,
        secrets=outside.secrets,
    )


def _walls(given: _Given, folder: Path | None) -> Walls:
    settings = given.settings
    key = SealKey(None if folder is None else folder / FILE_NAME, settings.seal_key)
    return Walls(given.db.clock, key, mode=settings.sandbox, most_running=settings.sandbox_runs)


async def _taking(given: _Given, carrying: _Carrying) -> _Taking:
    db, settings, log = given.db, given.settings, given.outside.log
    handlers = _handlers(given, carrying)
    retries = Retries(_retry_policy(settings), RetryPace(settings.retries_per_s))
    dispatcher = Dispatcher(
        db,
        handlers,
        given.ownership,
        claim_after_s=settings.claim_after_s,
        retries=retries,
        log=log,
        redact=given.outside.secrets.redact,
    )
    poller = Poller(db, dispatcher, version=await queue_of(db).version(), log=log, pace=retries.pace)
    handlers.on_resume(poller.reread)
    handlers.cancels.bind(dispatcher.withdraw, dispatcher.put_back)
    dispatcher.on_retry(poller.look_again)
    return _Taking(handlers, dispatcher, poller)


def _handlers(given: _Given, carrying: _Carrying) -> Handlers:
    return Handlers(
        db=given.db,
        registry=carrying.registry,
        projector=carrying.projector,
        catalogue=given.outside.catalogue,
        recovered=carrying.recovered,
        stop_grace_s=given.settings.stop_grace_s,
    )


def _lanes(given: _Given, carrying: _Carrying, taking: _Taking) -> Lanes:
    return Lanes(
        given.db,
        given.ownership,
        me=given.worker.worker_id,
        registry=carrying.registry,
        projector=carrying.projector,
        dispatcher=taking.dispatcher,
        poller=taking.poller,
        sleeping=carrying.sleeping,
        recovered=carrying.recovered,
        budgets=carrying.budgets,
        drain_s=given.settings.drain_s,
        max_losses=given.settings.max_losses,
        crash_point=given.outside.crash_point,
        log=given.outside.log,
    )


def _parts(given: _Given, carrying: _Carrying, taking: _Taking, lanes: Lanes) -> Parts:
    db, worker, log = given.db, given.worker, given.outside.log
    registry, poller = carrying.registry, taking.poller
    heartbeat = Heartbeat(db, carrying.projector, worker, log)
    deadlines = Deadlines(db, registry, carrying.projector, taking.handlers.read_again)
    return Parts(
        db=db,
        worker=worker,
        guests=carrying.guests,
        budgets=carrying.budgets,
        handlers=taking.handlers,
        projector=carrying.projector,
        dispatcher=taking.dispatcher,
        poller=poller,
        scheduler=Scheduler(db, log, may_run=given.keeps_house),
        sleepers=Sleepers(registry, carrying.sleeping, db.clock, log, deadlines),
        comeback=Comeback(registry, poller.reread, db.clock, log),
        heartbeat=heartbeat,
        lanes=lanes,
        watchdog=Watchdog(db.clock, log),
        leasing=Leasing(db, given.ownership, heartbeat, lanes, me=worker, log=log),
        joining=carrying.joining,
        upkeep=Upkeep(db.store, upkeep_rules(given.settings), log, may_run=given.keeps_house),
        workspaces=workspace_keeper(db, given.settings, log),
        traces=_traces(given),
        exporter=_exporter(given),
    )


def _traces(given: _Given) -> TraceFollower:
    return TraceFollower(
        given.db,
        given.outside.log,
        may_run=given.keeps_house,
        epoch=given.house_epoch,
        crash_point=given.outside.crash_point,
        redact=given.outside.secrets.redact,
    )


def _exporter(given: _Given) -> TraceExporter | None:
    if not given.settings.otel:
        return None
    return TraceExporter(
        given.db,
        otlp_collector(),
        given.outside.log,
        may_run=given.keeps_house,
        epoch=given.house_epoch,
        crash_point=given.outside.crash_point,
    )


def _retry_policy(settings: WorkerSettings) -> RetryPolicy:
    return RetryPolicy(SystemChance(), settings.max_attempts, settings.retry_base_s, settings.retry_cap_s)
