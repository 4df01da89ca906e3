"""Every operation of the API: what is served, and what /openapi.json describes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from web.api import agents, conversations, health, monikers, queue, sessions, steps
from web.routes import Operation

BLUEPRINTS: Final[Mapping[str, Sequence[Operation]]] = {
    "agents": agents.OPERATIONS,
    "sessions": sessions.OPERATIONS,
    "steps": steps.OPERATIONS,
    "conversations": conversations.OPERATIONS,
    "queue": queue.OPERATIONS,
    "monikers": monikers.OPERATIONS,
    "health": health.OPERATIONS,
}

OPERATIONS: Final = tuple(operation for operations in BLUEPRINTS.values() for operation in operations)
