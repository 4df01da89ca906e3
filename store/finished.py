"""What is over: sessions that ended for good long ago, and conversations in which nothing happens any more.

Asked by whoever keeps something for them outside the store, and may throw it away.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from store import filters
from store.actions import OPEN_STATUSES, queue_of
from store.agent_state import ENDED_FOR_GOOD, states_of
from store.database import TenantStore
from store.messages import messages_of
from store.schedules import schedules_of


async def finished_sessions(db: TenantStore, ids: Collection[str], before: datetime) -> set[str]:
    """Those of some sessions that ended for good before a moment. One that failed is none: it can be resumed."""
    if not ids:
        return set()
    ended = filters.one_of("status", ENDED_FOR_GOOD) & filters.below("updated_at", before)
    found = await states_of(db).values("session_id", filters.one_of("session_id", sorted(ids)), ended)
    return set(found.to_pylist())


async def idle_conversations(db: TenantStore, ids: Collection[str], before: datetime) -> set[str]:
    """Those of some conversations whose sessions, one at least, all ended for good before a moment.

    Nothing was said in them since, nothing is asked for in them now, and no schedule begins anything in them.
    """
    if not ids:
        return set()
    named = filters.one_of("conversation_id", sorted(ids))
    columns = ["conversation_id", "status", "updated_at"]
    states = await states_of(db).find(named, columns=columns)
    busy = {one.conversation_id for one in states if one.status not in ENDED_FOR_GOOD or one.updated_at >= before}
    idle = {str(one.conversation_id) for one in states if one.conversation_id not in busy}
    if not idle:
        return set()
    named = filters.one_of("conversation_id", sorted(idle))
    asked = await queue_of(db).values("conversation_id", named, filters.one_of("status", OPEN_STATUSES))
    said = await messages_of(db).values("conversation_id", named, filters.at_least("created_at", before))
    return idle - set(asked.to_pylist()) - set(said.to_pylist()) - await _scheduled(db)


async def _scheduled(db: TenantStore) -> set[str]:
    """The conversations that sessions will begin in by themselves."""
    found = await schedules_of(db).find(filters.equals("enabled", True), columns=["payload"])
    return {one.payload["conversation_id"] for one in found if _names_one(one.payload)}


def _names_one(payload: Any) -> bool:
    return isinstance(payload, dict) and isinstance(payload.get("conversation_id"), str)


async def session_ids(db: TenantStore) -> set[str]:
    """Every session that has a row."""
    return set((await states_of(db).values("session_id")).to_pylist())


async def conversation_ids(db: TenantStore) -> set[str]:
    """Every conversation that a session belongs to."""
    return {one for one in (await states_of(db).values("conversation_id")).to_pylist() if one is not None}
