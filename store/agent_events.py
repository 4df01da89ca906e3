"""Agent events: what happens inside a step (progress, tokens). Live fare: short-lived, and no part of the truth."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from store.codec import RowCodec
from store.database import TenantStore
from store.ids import SessionId
from store.schema import AGENT_EVENTS
from store.scope import ScopedTable


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """One event of a running step."""

    id: str
    created_at: datetime
    session_id: SessionId
    iteration: int
    event_seq: int
    kind: str
    data: Any


CODEC: RowCodec[AgentEvent] = RowCodec(AgentEvent, AGENT_EVENTS, json=frozenset({"data"}))


def events_of(db: TenantStore) -> ScopedTable[AgentEvent]:
    """This tenant's events."""
    return db.table(CODEC)


async def append_event(db: TenantStore, event: AgentEvent) -> None:
    """Store an event; several share a commit."""
    await events_of(db).append(event)
