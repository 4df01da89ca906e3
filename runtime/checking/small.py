"""The small tables: actions, who takes part where, and places in tables."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial

from runtime.checking.finding import Finding, FindingKind, Level
from runtime.checking.image import Image
from store import conversations
from store.actions import CODEC as ACTIONS
from store.actions import OPEN_STATUSES, Action, ActionStatus, queue_of
from store.agent_state import CODEC as STATES
from store.agent_state import AgentState
from store.agent_steps import journal_of
from store.audit import audit
from store.conversations import Participant, leave_conversation
from store.database import TenantStore
from store.ids import SessionId
from store.marks import mark_action_processed_async
from store.messages import messages_of
from store.session_cursors import CODEC as CURSORS
from store.session_cursors import SessionCursor, save_cursor
from store.workers import CODEC as WORKERS
from store.workers import Worker, workers_of


async def check_small(db: TenantStore, image: Image) -> AsyncIterator[Finding]:
    """The faults of the small tables."""
    columns = ["session_id", "status", "moniker", "updated_at"]
    states = {row.item.session_id: row.item for row in (await audit(db, STATES, columns=columns)).rows}
    for action in (await audit(db, ACTIONS)).rows:
        for fault in [*_flag(db, action.item), *_of_ended(db, image, action.item, states)]:
            yield fault
    async for fault in _participants(db):
        yield fault
    async for fault in _places(db, image):
        yield fault


def _flag(db: TenantStore, action: Action) -> Iterator[Finding]:
    processed = action.status not in OPEN_STATUSES
    if action.processed == processed and (action.processed_at is not None) == processed:
        return
    problem = f"it is {action.status.value}, yet processed={action.processed} and processed_at={action.processed_at}"
    cure = "set both by its status"
    mend = partial(_set_flag, db, action, processed=processed)
    yield Finding(FindingKind.FLAG, Level.WRONG, ACTIONS.spec.name, action.id, problem, cure, mend)


async def _set_flag(db: TenantStore, action: Action, *, processed: bool) -> str:
    # Every column of a mark, so that of two in one commit the later one wins whole.
    moment = (action.processed_at or db.clock.now()) if processed else None
    await queue_of(db).change((action.id,), processed=processed, processed_at=moment)
    return f"set processed={processed}"


def _of_ended(
    db: TenantStore, image: Image, action: Action, states: Mapping[SessionId, AgentState]
) -> Iterator[Finding]:
    state = None if action.session_id is None else states.get(action.session_id)
    if state is None or not state.ended or action.status not in OPEN_STATUSES:
        return
    due = max(action.created_at, action.not_before or action.created_at, state.updated_at)
    if not image.had_time(due, state.moniker):
        return  # the next worker answers it
    problem = f"{action.kind.value} is {action.status.value}, and session {state.session_id!r} is {state.status.value}"
    mend = partial(_fail, db, action, state)
    cure = "mark it failed; it can be requeued"
    yield Finding(FindingKind.ACTION_OF_ENDED, Level.WRONG, ACTIONS.spec.name, action.id, problem, cure, mend)


async def _fail(db: TenantStore, action: Action, state: AgentState) -> str:
    error = f"session {state.session_id!r} is {state.status.value}; found open by a check"
    await mark_action_processed_async(
        db,
        action.id,
        status=ActionStatus.FAILED,
        error=error,
        attempts=action.attempts,
        owner=action.owner,
        epoch=action.epoch,
    )
    return "marked failed"


async def _participants(db: TenantStore) -> AsyncIterator[Finding]:
    joined = (await audit(db, conversations.PARTICIPANT_CODEC)).rows
    threads = {row.item.conversation_id for row in (await audit(db, conversations.CODEC)).rows}
    for row in joined:
        if row.item.left_at is None and row.item.conversation_id not in threads:
            yield Finding(
                FindingKind.PARTICIPANT,
                Level.WRONG,
                conversations.PARTICIPANT_CODEC.spec.name,
                row.item.participant_id,
                f"there is no conversation {row.item.conversation_id!r}",
                "let it take part no more",
                partial(_leave, db, row.item),
            )


async def _leave(db: TenantStore, participant: Participant) -> str:
    await leave_conversation(db, participant)
    return "it takes part no more"


async def _places(db: TenantStore, image: Image) -> AsyncIterator[Finding]:
    """What was read before is no further than what is read now, unless the table has gone back."""
    newest = await messages_of(db).version()
    for row in (await audit(db, CURSORS)).rows:
        cursor = row.item
        if (
            not cursor.message_cursor.isascii()
            or not cursor.message_cursor.isdecimal()
            or int(cursor.message_cursor) > newest
        ):
            what, problem = f"{cursor.session_id}/{cursor.conversation_id}", _beyond(cursor.message_cursor, newest)
            cure, mend = "set it to the newest version", partial(_set_cursor, db, cursor, newest)
            yield Finding(FindingKind.CURSOR, Level.WRONG, CURSORS.spec.name, what, problem, cure, mend)
    reached = await journal_of(db).version()
    for worker in image.workers:
        if worker.journal_version > reached:
            problem = _beyond(str(worker.journal_version), reached)
            cure, mend = "set it to 0: the next worker folds the whole journal", partial(_forget, db, worker)
            yield Finding(FindingKind.CURSOR, Level.WRONG, WORKERS.spec.name, worker.worker_id, problem, cure, mend)


def _beyond(place: str, newest: int) -> str:
    return f"it has read up to version {place}, and the table is at {newest}"


async def _set_cursor(db: TenantStore, cursor: SessionCursor, version: int) -> str:
    await save_cursor(db, cursor.session_id, cursor.conversation_id, version)
    return f"set to {version}"


async def _forget(db: TenantStore, worker: Worker) -> str:
    await workers_of(db).change((worker.worker_id,), journal_version=0)
    return "set to 0"
