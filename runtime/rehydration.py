"""What a starting worker does before it takes new work: repair the projections, then carry the sessions on.

1. Fold every journal row above the last watermark into its session's row and its conversation (repair).
2. Read the open actions; know which of them a stored step has answered already.
3. Carry on the sessions that were running, at `next_step_token`, iteration + 1; wake the sleeping ones in time.

Crash anywhere in here: the watermark has not moved, the next start does it again; folding twice changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from runtime.session import session_of_row
from store.actions import Action
from store.agent_state import AgentState, SessionStatus, get_agent_states, upsert_agent_state
from store.agent_steps import AgentStep, answered_actions, journal_of, list_steps_since_version
from store.database import TenantStore
from store.ids import ActionId, SessionId
from store.messages import message_of_step, messages_of, missing_messages
from store.session_cursors import save_cursor

#: a worker carries these on by itself
CARRIED_ON = (SessionStatus.CREATED, SessionStatus.RUNNING, SessionStatus.STOPPING)


@dataclass(slots=True)
class Recovered:
    """What the journal told a starting worker."""

    #: open actions that a stored step has answered
    answered_ids: set[ActionId] = field(default_factory=set)
    #: steps of sessions whose row was never stored; their create is still open
    orphans: dict[SessionId, list[AgentStep]] = field(default_factory=lambda: defaultdict(list))
    repaired: int = 0

    def answered(self, action_id: ActionId) -> bool:
        """Whether a step read the action before this worker started."""
        return action_id in self.answered_ids

    def take_orphans(self, session_id: SessionId) -> Sequence[AgentStep]:
        """The stored steps of a session that is created again."""
        return self.orphans.pop(session_id, [])


async def repair_projections(db: TenantStore, watermark: int) -> tuple[Recovered, int]:
    """Bring every projection up to the journal; returns what else was found and the new watermark."""
    reached = await journal_of(db).version()
    steps = await list_steps_since_version(db, watermark)
    recovered = Recovered()
    rows = await get_agent_states(db, {step.session_id for step in steps})
    changed = [
        state for session_id, group in _by_session(steps) if (state := _fold(rows, session_id, group, recovered))
    ]
    await _add_missing_messages(db, steps, rows)
    await upsert_agent_state(db, changed)
    recovered.repaired = len(changed)
    return recovered, reached


def _by_session(steps: Iterable[AgentStep]) -> list[tuple[SessionId, list[AgentStep]]]:
    return [(session_id, list(group)) for session_id, group in groupby(steps, key=lambda step: step.session_id)]


def _fold(
    rows: dict[SessionId, AgentState], session_id: SessionId, steps: list[AgentStep], recovered: Recovered
) -> AgentState | None:
    """The session's row with `steps` folded in; None when it already had them or there is no row."""
    row = rows.get(session_id)
    if row is None:
        recovered.orphans[session_id].extend(steps)
        return None
    if steps[-1].iteration <= row.iteration:
        return None
    session = session_of_row(row, owner=row.owner or "", epoch=row.epoch)
    for step in steps:
        session.apply(step)
    return session.snapshot()


async def _add_missing_messages(db: TenantStore, steps: Sequence[AgentStep], rows: dict[SessionId, AgentState]) -> None:
    messages = [
        message_of_step(step, row.conversation_id)
        for step in steps
        if (row := rows.get(step.session_id)) is not None and row.conversation_id is not None
    ]
    await messages_of(db).append_all(await missing_messages(db, messages))
    for step in steps:
        row = rows.get(step.session_id)
        reached = (step.guidance or {}).get("pulled_to") if isinstance(step.guidance, dict) else None
        if row is not None and row.conversation_id is not None and reached is not None:
            await save_cursor(db, step.session_id, row.conversation_id, reached)


async def know_answered(db: TenantStore, recovered: Recovered, actions: Iterable[Action]) -> None:
    """Note which of the open actions were read by a stored step before the last worker died."""
    recovered.answered_ids |= await answered_actions(db, [action.id for action in actions])
