"""The last text of some sessions: what a row of a list says about each."""

from __future__ import annotations

from collections.abc import Iterable

from store import TenantStore, filters
from store.agent_steps import journal_of
from store.ids import SessionId, step_id


async def last_texts(db: TenantStore, steps: Iterable[tuple[SessionId, int]]) -> dict[str, str | None]:
    """The texts of some steps, each named by session and iteration, by step id. One read for all."""
    ids = [step_id(session_id, iteration) for session_id, iteration in steps if iteration >= 0]
    if not ids:
        return {}
    found = await journal_of(db).find(filters.one_of("id", ids), columns=["id", "text"])
    return {step.id: step.text for step in found}
