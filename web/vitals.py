"""What surrounds every page: is a worker alive, which model answers, what failed. Read at most every two seconds."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from store import ActionStatus, SessionStatus, TenantStore, Worker, count_actions, count_sessions, list_workers
from store.approvals import count_approvals
from store.tool_pins import count_waiting_tools
from web.catalogue import ModelInfo
from web.version import VERSION

FRESH_S: Final = 2.0
OFFLINE: Final = "offline"


@dataclass(frozen=True, slots=True)
class Vital:
    """The state of the whole at one moment."""

    workers_alive: int
    model: ModelInfo
    failed_sessions: int
    dead_actions: int
    #: questions that wait for a person
    open_questions: int = 0
    #: tools of MCP servers that wait for a person
    waiting_tools: int = 0

    def frame(self) -> dict[str, Any]:
        """What a page shows around its content; see `web.pages.Views.frame`."""
        return {
            "model": model_shape(self.model),
            "worker": self.worker(),
            "badges": {
                "sessions": self.failed_sessions,
                "approvals": self.open_questions,
                "queue": self.dead_actions,
                "tools": self.waiting_tools,
            },
            "version": VERSION,
        }

    def worker(self) -> dict[str, Any]:
        """Whether somebody carries sessions on."""
        return workers_shape(self.workers_alive)


class Vitals:
    """Gives the newest `Vital`, from memory while it is fresh."""

    def __init__(self, db: TenantStore, model: ModelInfo) -> None:
        self._db = db
        self._model = model
        self._reading = asyncio.Lock()  # many pages at once cause one read
        self._read_at: float | None = None
        self._vital = Vital(0, model, 0, 0)

    @property
    def model(self) -> ModelInfo:
        """The model as last seen; reads nothing."""
        return self._vital.model

    async def now(self) -> Vital:
        """The state of the whole, at most `FRESH_S` old."""
        async with self._reading:
            if self._read_at is None or self._db.clock.monotonic() - self._read_at > FRESH_S:
                await self._refresh()
        return self._vital

    async def fresh(self) -> Vital:
        """The state of the whole, read just now."""
        async with self._reading:
            await self._refresh()
        return self._vital

    async def workers(self) -> dict[str, Any]:
        """Whether somebody carries sessions on, read just now."""
        now = self._db.clock.now()
        return workers_shape(sum(worker.alive(now) for worker in await list_workers(self._db)))

    async def _refresh(self) -> None:
        self._vital = await self._read()
        self._read_at = self._db.clock.monotonic()

    async def _read(self) -> Vital:
        now = self._db.clock.now()
        alive = [worker for worker in await list_workers(self._db) if worker.alive(now)]
        sessions = await count_sessions(self._db)
        actions = await count_actions(self._db)
        return Vital(
            workers_alive=len(alive),
            model=_model_of(alive[0]) if alive else self._model,
            failed_sessions=sessions[SessionStatus.ERROR],
            dead_actions=actions[ActionStatus.DEAD],
            open_questions=await count_approvals(self._db),
            waiting_tools=await count_waiting_tools(self._db),
        )


def workers_shape(alive: int) -> dict[str, Any]:
    """How many workers there are, as JSON."""
    return {"alive": alive > 0, "count": alive}


def model_shape(model: ModelInfo) -> dict[str, Any]:
    """The model as JSON."""
    return {"label": model.label, "offline": model.offline}


def _model_of(worker: Worker) -> ModelInfo:
    return ModelInfo(worker.model, worker.model == OFFLINE)
