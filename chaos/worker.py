"""A worker for chaos: what agents.py runs, with one more moniker and a clock that can be set wrong."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import uvloop

from chaos.child import begin
from chaos.clock import JumpingClock
from chaos.moniker import CHAOS
from monikers.catalogue import Catalogue, catalogue
from runtime.files import AllowedFiles
from runtime.llm.factory import ModelSettings, chat_model, close_chat_model
from runtime.logs import configure_logs
from runtime.settings import WorkerSettings, worker_settings
from runtime.stopping import stop_event
from runtime.wiring import Outside
from runtime.worker import run_worker
from store.clock import SystemIds
from store.crashpoints import crash_at, no_crash
from store.database import open_store
from store.options import StoreOptions


def known_monikers() -> Catalogue:
    """What ships, and the moniker of chaos."""
    return Catalogue.of(*catalogue(), CHAOS)


def be_worker(said: str, settings: Mapping[str, str]) -> None:
    """Run a worker in this process until it is asked to end; the exit code is that of agents.py."""
    begin(said, settings)
    clock = JumpingClock()
    clock.follow_signals()
    uvloop.run(_work(worker_settings(), clock))
    sys.exit(0)


async def _work(settings: WorkerSettings, clock: JumpingClock) -> None:
    crash_point = crash_at(settings.crash_at) if settings.crash_at else no_crash
    log = configure_logs(settings.log_format, settings.log_level)
    model = chat_model(ModelSettings())
    options = StoreOptions(settings.data, settings.patience_s)
    store = await open_store(options, clock=clock, ids=SystemIds(), crash_point=crash_point)
    known = known_monikers()
    outside = Outside(
        model, known, [str(name) for name in known.names()], AllowedFiles(settings.file_roots), log, crash_point
    )
    await run_worker(store, settings, outside, stop_event(until_stdin_closes=False))
    await close_chat_model(model)
    await store.close()
