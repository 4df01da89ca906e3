"""Every operation of the API: what is served, and what /openapi.json describes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from web.api import (
    agents,
    approvals,
    budgets,
    conversations,
    copilot,
    forks,
    health,
    memories,
    monikers,
    queue,
    schedules,
    search,
    sessions,
    steps,
    tools,
    traces,
)
from web.routes import Operation

BLUEPRINTS: Final[Mapping[str, Sequence[Operation]]] = {
    "agents": agents.OPERATIONS,
    "sessions": (*sessions.OPERATIONS, *forks.OPERATIONS),
    "steps": steps.OPERATIONS,
    "traces": traces.OPERATIONS,
    "conversations": conversations.OPERATIONS,
    "copilot": copilot.OPERATIONS,
    "approvals": approvals.OPERATIONS,
    "budgets": budgets.OPERATIONS,
    "queue": queue.OPERATIONS,
    "schedules": schedules.OPERATIONS,
    "tools": tools.OPERATIONS,
    "memories": memories.OPERATIONS,
    "search": search.OPERATIONS,
    "monikers": monikers.OPERATIONS,
    "health": health.OPERATIONS,
}

OPERATIONS: Final = tuple(operation for operations in BLUEPRINTS.values() for operation in operations)
