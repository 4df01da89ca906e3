"""A worker with one moniker whose state grows by a piece of text a step, as a conversation's does."""

from __future__ import annotations

import asyncio
from typing import Any

from bench.peers.work import growth
from monikers.catalogue import Catalogue
from runtime.contract import Ctx, FrozenModel, Moniker, MonikerName, StepFrame, StepOut
from runtime.files import AllowedFiles
from runtime.llm.factory import ModelSettings, chat_model, close_chat_model
from runtime.logs import configure_logs
from runtime.settings import worker_settings
from runtime.stopping import stop_event
from runtime.wiring import Outside
from runtime.worker import run_worker
from store.clock import SystemClock, SystemIds
from store.crashpoints import no_crash
from store.database import open_store
from store.options import StoreOptions


class GrowerConfig(FrozenModel):
    """How often and by how many characters the state grows."""

    steps: int
    size: int


async def step(ctx: Ctx[GrowerConfig], frame: StepFrame) -> StepOut:
    """Add one piece to the log."""
    log: list[Any] = [*frame.state.get("log", []), growth(int(frame.step), ctx.config.size)]
    return StepOut(
        step=frame.step,
        next_step=str(int(frame.step) + 1),
        state={"count": len(log), "log": log},
        done=len(log) >= ctx.config.steps,
    )


GROWER = Moniker(
    name=MonikerName("grower"),
    summary="Adds a piece of text to its state, step after step.",
    config_model=GrowerConfig,
    step=step,
    first_step="0",
)


async def main() -> None:
    """Work on STEPWELL_DATA until SIGTERM."""
    settings = worker_settings()
    log = configure_logs(settings.log_format, settings.log_level)
    model = chat_model(ModelSettings())
    options = StoreOptions(settings.data, settings.patience_s)
    store = await open_store(options, clock=SystemClock(), ids=SystemIds())
    files = AllowedFiles(settings.file_roots, forbidden=[])
    outside = Outside(model, Catalogue.of(GROWER), [GROWER.name], files, log, no_crash)
    await run_worker(store, settings, outside, stop_event(until_stdin_closes=False))
    await close_chat_model(model)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main())
