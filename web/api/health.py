"""Health: is the process up, and can it serve."""

from __future__ import annotations

from typing_extensions import TypedDict

from web.routes import Answer, Api, One, Operation
from web.version import VERSION


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
    """The store can be read (503 otherwise); also whether a worker is alive."""
    vital = await api.vitals.fresh()
    return Answer({"status": "ready", "version": VERSION, "worker": vital.worker()})


OPERATIONS = (
    Operation("GET", "/healthz", healthz, "health", "Is the process up?", One(Alive)),
    Operation("GET", "/readyz", readyz, "health", "Can the store be read?", One(Ready), problems=(503,)),
)
