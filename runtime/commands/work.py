"""Runs a worker: everything from outside is opened, handed over, and closed in the end."""

from __future__ import annotations

import os

from runtime.files import AllowedFiles
from runtime.guard.deployment import GuardSettings, guard_service
from runtime.guard.sources import process_secrets
from runtime.llm.factory import ModelSettings, close_chat_model, models_of
from runtime.logs import configure_logs
from runtime.registry import MonikerCatalogue
from runtime.settings import WorkerSettings
from runtime.stopping import stop_event
from runtime.tools.mcp.opening import mcp_servers, open_mcp
from runtime.wiring import Outside
from runtime.worker import run_worker
from store.clock import SystemClock, SystemIds
from store.crashpoints import crash_at, no_crash
from store.database import open_store
from store.options import StoreOptions


async def work(settings: WorkerSettings, catalogue: MonikerCatalogue, *, until_stdin_closes: bool) -> None:
    """Carry out the queue's actions and the steps of its sessions until a signal, or the end of standard input.

    Raises `SettingError` for a setting or a file that cannot be used, `StoreError` when the store cannot be opened,
    `StopTimedOutError` when it could not be written in the end.
    """
    crash_point = crash_at(settings.crash_at) if settings.crash_at else no_crash
    secrets = process_secrets()
    log = configure_logs(settings.log_format, settings.log_level, secrets.redact)
    models, servers = models_of(ModelSettings()), mcp_servers(settings.tools_file)
    options = StoreOptions(settings.data, settings.patience_s, settings.fsync, settings.ask_s)
    store = await open_store(options, clock=SystemClock(), ids=SystemIds(), crash_point=crash_point)
    files = AllowedFiles(settings.file_roots, forbidden=[options.folder] if options.folder else [])
    names, stop = list(map(str, catalogue.names())), stop_event(until_stdin_closes=until_stdin_closes)
    async with open_mcp(servers, store.tenant(), log=log, environ=os.environ) as mcp:
        outside = Outside(
            models.chat,
            catalogue,
            names,
            files,
            log,
            crash_point,
            embedder=models.embedder,
            tool_servers=mcp,
            guard=guard_service(GuardSettings(), models.chat),
            secrets=secrets,
        )
        await run_worker(store, settings, outside, stop)
    await close_chat_model(models.chat)
    await store.close()
