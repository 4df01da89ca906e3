"""Agent events: what happens inside a step (progress, tokens). Live fare: short-lived, and no part of the truth.

An event of an owner that was replaced is not shown: it carries its lane and epoch, and a fence of a higher epoch on
that lane hides it, wherever it stands. What it tells of is told again by the new owner, or is stored as a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from store import filters
from store.agent_steps import fences_of
from store.codec import RowCodec
from store.database import TenantStore
from store.ids import SessionId
from store.schema import AGENT_EVENTS
from store.scope import ScopedTable, Versioned

#: a piece of what a model says: {"call", "stream", "offset", "text", "restart"?} (runtime/tokens.py)
LIVE_TEXT: Final = "token"


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
    epoch: int = 0
    lane: str = ""


CODEC: RowCodec[AgentEvent] = RowCodec(AgentEvent, AGENT_EVENTS, json=frozenset({"data"}))


def events_of(db: TenantStore) -> ScopedTable[AgentEvent]:
    """This tenant's events."""
    return db.table(CODEC)


async def append_events(db: TenantStore, events: Sequence[AgentEvent]) -> None:
    """Store some events in one commit."""
    await events_of(db).append_all(events)


async def append_event(db: TenantStore, event: AgentEvent) -> None:
    """Store an event; several share a commit."""
    await events_of(db).append(event)


async def shown_events(db: TenantStore, rows: Sequence[Versioned[AgentEvent]]) -> list[Versioned[AgentEvent]]:
    """The events among `rows` whose owner has not been replaced."""
    fences = fences_of(db)
    await fences.refresh()
    return [row for row in rows if not fences.outdates(row.item)]


async def running_text(
    db: TenantStore, session_ids: Sequence[SessionId], after: Mapping[SessionId, int]
) -> list[AgentEvent]:
    """The live text of steps that are not stored yet, in its order: those behind the iterations in `after`."""
    if not session_ids:
        return []
    found = await events_of(db).created_since(
        0, filters.one_of("session_id", session_ids), filters.equals("kind", LIVE_TEXT)
    )
    shown = [row.item for row in await shown_events(db, found)]
    running = [event for event in shown if _is_piece(event) and event.iteration > after.get(event.session_id, -1)]
    return sorted(running, key=lambda event: (event.session_id, event.iteration, event.epoch, event.event_seq))


async def running_events(db: TenantStore, session_id: SessionId, kind: str, *, after: int) -> list[AgentEvent]:
    """What steps of a session that are not stored yet have told of one kind: those behind the iteration `after`."""
    found = await events_of(db).created_since(
        0,
        filters.equals("session_id", session_id),
        filters.equals("kind", kind),
        filters.at_least("iteration", after + 1),
    )
    shown = [row.item for row in await shown_events(db, found)]
    return sorted(shown, key=lambda event: (event.iteration, event.epoch, event.event_seq))


def _is_piece(event: AgentEvent) -> bool:
    """Whether it says where it belongs; a moniker may call an event of its own the same."""
    return isinstance(event.data, dict) and {"call", "stream", "offset", "text"} <= event.data.keys()
