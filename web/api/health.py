"""Health: is the process up, and can it serve."""

from __future__ import annotations

import asyncio
from typing import Final

from typing_extensions import TypedDict

from store.probe import check_writable
from web.routes import Answer, Api, One, Operation
from web.version import VERSION

#: whoever asks whether this process can serve wants to know it now
READY_S: Final = 3.0


class Alive(TypedDict):
    """The process is up."""

    status: str
    version: str


class WorkerHealth(TypedDict):
    """Whether somebody carries sessions on."""

    alive: bool
    count: int


class Ready(TypedDict):
    """The store can be read. A worker that is not alive is told, but the pages work without one."""

    status: str
    version: str
    worker: WorkerHealth


async def healthz(api: Api) -> Answer:
    """The process is up; nothing is read."""
    return Answer({"status": "ok", "version": VERSION})


async def readyz(api: Api) -> Answer:
    """The store can be read and its disk takes writes (503 otherwise); also whether a worker is alive."""
    async with asyncio.timeout(READY_S):
        await check_writable(api.db.store)
        vital = await api.vitals.fresh()
    return Answer({"status": "ready", "version": VERSION, "worker": vital.worker()})


OPERATIONS = (
    Operation("GET", "/healthz", healthz, "health", "Is the process up?", One(Alive)),
    Operation("GET", "/readyz", readyz, "health", "Can the store be read and written?", One(Ready), problems=(503,)),
)
