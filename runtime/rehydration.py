"""What a starting worker does before it takes new work: repair the projections, then carry the sessions on.

1. Fold every journal row above the last watermark into its session's row and its conversation (repair).
2. Read the open actions; know which of them a stored step has answered already.
3. Carry on the sessions that were running, at `next_step_token`, iteration + 1; wake the sleeping ones in time.

Crash anywhere in here: the watermark has not moved, the next start does it again; folding twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from runtime.guests import Guests
from runtime.session import new_session, session_of_row
from runtime.spec import read_spec
from store.actions import CREATING_KINDS, Action, find_create, get_action
from store.agent_state import AgentState, SessionStatus, get_agent_states, upsert_agent_state
from store.agent_steps import AgentStep, answered_actions, journal_of, list_steps_since_version
from store.database import TenantStore
from store.errors import NotFoundError
from store.ids import ActionId, SessionId
from store.lanes import LaneId
from store.messages import messages_of, missing_messages
from store.session_cursors import save_cursor

#: a worker carries these on by itself
CARRIED_ON = (SessionStatus.CREATED, SessionStatus.RUNNING, SessionStatus.STOPPING)


@dataclass(slots=True)
class Recovered:
    """What the journal told a starting worker."""

    #: open actions that a stored step has answered
    answered_ids: set[ActionId] = field(default_factory=set)
    #: actions that were in hand before, with an earlier worker or here, and have not ended
    open_ids: set[ActionId] = field(default_factory=set)

    def answered(self, action_id: ActionId) -> bool:
        """Whether a stored step has read the action."""
        return action_id in self.answered_ids

    def note_tried(self, action_id: ActionId) -> None:
        """An action left the worker's hands without an end: what was done of it may be stored."""
        self.open_ids.add(action_id)

    def tried(self, action_id: ActionId) -> bool:
        """Whether the action may be half carried out: by an earlier worker, or here before it was put back."""
        return action_id in self.open_ids

    def forget(self, action_id: ActionId) -> None:
        """An action has ended for good: nobody asks for it again."""
        self.open_ids.discard(action_id)
        self.answered_ids.discard(action_id)


async def repair_projections(
    db: TenantStore, watermark: int, *, lanes: Collection[LaneId], epoch: int
) -> tuple[int, int]:
    """Bring every projection of the sessions of `lanes` up to the journal, as their owner of `epoch`.

    Returns how many sessions lacked something, and the journal version that is reached. A row for which a later owner
    has answered meanwhile is left as it is.
    """
    reached = await journal_of(db).version()
    steps = [step for step in await list_steps_since_version(db, watermark) if not step.lane or step.lane in lanes]
    guests = Guests(db)
    await guests.refresh()
    rows = await get_agent_states(db, {step.session_id for step in steps})
    for step in steps:
        if step.session_id not in rows and (row := await _row_of_create(db, step, epoch)) is not None:
            rows[step.session_id] = row
    # A step from before there were lanes does not say whose it is; its session's row does.
    steps = [step for step in steps if (row := rows.get(step.session_id)) is None or row.place in lanes]
    changed = [state for session_id, group in _by_session(steps) if (state := _fold(rows, session_id, group, epoch))]
    await _add_missing_messages(db, steps, rows, guests)
    await upsert_agent_state(db, changed)
    return len(changed), reached


def _by_session(steps: Iterable[AgentStep]) -> list[tuple[SessionId, list[AgentStep]]]:
    return [(session_id, list(group)) for session_id, group in groupby(steps, key=lambda step: step.session_id)]


async def _row_of_create(db: TenantStore, step: AgentStep, epoch: int) -> AgentState | None:
    """The row that a session began with, when the crash came before it was stored. Its create is in the queue."""
    create = await _create_of(db, step)
    if create is None:
        return None
    spec = read_spec(create.payload, create.id)
    return new_session(create, spec, step.step_token, owner="", epoch=epoch).snapshot()


async def _create_of(db: TenantStore, step: AgentStep) -> Action | None:
    """A first step that read nothing names its create; of two creates with one session_id that one was carried out."""
    try:
        named = None if step.action_id is None else await get_action(db, step.action_id)
    except NotFoundError:
        named = None
    return named if named is not None and named.kind in CREATING_KINDS else await find_create(db, step.session_id)


def _fold(
    rows: dict[SessionId, AgentState], session_id: SessionId, steps: list[AgentStep], epoch: int
) -> AgentState | None:
    """The session's row with `steps` folded in; None when it already had them or there is no row."""
    row = rows.get(session_id)
    if row is None or steps[-1].iteration <= row.iteration or row.epoch > epoch:
        return None
    session = session_of_row(row, owner=row.owner or "", epoch=epoch)
    for step in steps:
        session.apply(step)
    return session.snapshot()


async def _add_missing_messages(
    db: TenantStore, steps: Sequence[AgentStep], rows: dict[SessionId, AgentState], guests: Guests
) -> None:
    messages = [
        message
        for step in steps
        if (row := rows.get(step.session_id)) is not None
        for message in guests.messages_of(step, row.conversation_id)
    ]
    await messages_of(db).append_all(await missing_messages(db, messages))
    for step in steps:
        row = rows.get(step.session_id)
        reached = (step.guidance or {}).get("pulled_to") if isinstance(step.guidance, dict) else None
        if row is not None and row.conversation_id is not None and reached is not None:
            await save_cursor(db, step.session_id, row.conversation_id, reached)


async def know_answered(db: TenantStore, recovered: Recovered, actions: Iterable[Action]) -> None:
    """Note the open actions, and which of them were read by a stored step before the last worker died."""
    open_ids = {action.id for action in actions}
    recovered.open_ids |= open_ids
    recovered.answered_ids |= await answered_actions(db, list(open_ids))
