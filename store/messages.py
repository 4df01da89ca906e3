"""The transcript of a conversation, append only. A step's message has the step's id: it is never there twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from store import filters, paging
from store.agent_steps import AgentStep, StepStatus, is_rollback
from store.codec import RowCodec
from store.database import TenantStore
from store.ids import AgentId, ConversationId, MessageId, SessionId, UserId
from store.insights import insights_in
from store.paging import Order, Page
from store.schema import MESSAGES
from store.scope import ScopedTable

_MAX_NAMED = 1000


class SenderType(StrEnum):
    """Who wrote a message."""

    USER = "user"
    AGENT = "agent"
    SYSTEM = "system"


class EventType(StrEnum):
    """What a message reports."""

    POST = "post"  # a user wrote it
    STEP = "step"  # a session's step
    ERROR = "error"  # a session's step failed
    INSIGHT = "insight"  # what an agent of a copilot tells people; `data` is the insight
    ROLLBACK = "rollback"  # a session's turn was taken back; `data.rolled_back` names its first and last step


@dataclass(frozen=True, slots=True)
class Message:
    """A row of the transcript."""

    message_id: MessageId
    conversation_id: ConversationId
    created_at: datetime
    sender_type: SenderType
    user_id: UserId | None
    agent_id: AgentId | None
    session_id: SessionId | None
    text: str | None
    data: Any
    status: str
    event_type: EventType
    iteration: int | None
    step_token: str | None
    next_step_token: str | None
    notes: str | None


CODEC: RowCodec[Message] = RowCodec(
    Message, MESSAGES, json=frozenset({"data"}), enums={"sender_type": SenderType, "event_type": EventType}
)


def messages_of(db: TenantStore) -> ScopedTable[Message]:
    """This tenant's messages."""
    return db.table(CODEC)


def messages_of_step(step: AgentStep, conversation_id: ConversationId, *, as_guest: bool = False) -> list[Message]:
    """What a step says in its session's conversation, or in another one that the session takes part in.

    One message; a step that tells insights says one for each, and one of its own when it has a text.
    """
    if is_rollback(step):
        return [_message_of_rollback(step, conversation_id, as_guest=as_guest)]
    failed = step.status is StepStatus.ERROR
    insights = None if failed else insights_in(step.data)
    said = [] if insights is not None and step.text is None else [_message_of(step, conversation_id, as_guest=as_guest)]
    for number, insight in enumerate(insights or ()):
        said.append(
            replace(
                _message_of(step, conversation_id, as_guest=as_guest),
                message_id=_id_of(step, conversation_id, as_guest=as_guest, part=f":{number:03}"),
                text=insight.content,
                data=insight.row(),
                status=insight.status.value,
                event_type=EventType.INSIGHT,
                notes=None,
            )
        )
    return said


def _message_of(step: AgentStep, conversation_id: ConversationId, *, as_guest: bool) -> Message:
    failed = step.status is StepStatus.ERROR
    return Message(
        message_id=_id_of(step, conversation_id, as_guest=as_guest),
        conversation_id=conversation_id,
        created_at=step.created_at,
        sender_type=SenderType.AGENT,
        user_id=None,
        agent_id=step.agent_id,
        session_id=step.session_id,
        text=step.error if failed else step.text,
        data=step.data,
        status=step.status.value,
        event_type=EventType.ERROR if failed else EventType.STEP,
        iteration=step.iteration,
        step_token=step.step_token,
        next_step_token=step.next_step_token,
        notes=step.notes,
    )


def _span_of(taken_back: Sequence[int] | None) -> str:
    if not taken_back:
        return " before its first step."
    first, last = taken_back
    return f": step {first} no longer counts." if first == last else f": steps {first} to {last} no longer count."


def _message_of_rollback(step: AgentStep, conversation_id: ConversationId, *, as_guest: bool) -> Message:
    taken_back = step.data.get("rolled_back") if isinstance(step.data, dict) else None
    return Message(
        message_id=_id_of(step, conversation_id, as_guest=as_guest),
        conversation_id=conversation_id,
        created_at=step.created_at,
        sender_type=SenderType.SYSTEM,
        user_id=None,
        agent_id=step.agent_id,
        session_id=step.session_id,
        text=f"A turn was taken back{_span_of(taken_back)}",
        data=step.data,
        status=step.status.value,
        event_type=EventType.ROLLBACK,
        iteration=step.iteration,
        step_token=step.step_token,
        next_step_token=step.next_step_token,
        notes=step.notes,
    )


def _id_of(step: AgentStep, conversation_id: ConversationId, *, as_guest: bool, part: str = "") -> MessageId:
    return MessageId(f"{step.id}{part}@{conversation_id}" if as_guest else f"{step.id}{part}")


async def post_message(
    db: TenantStore,
    conversation_id: ConversationId,
    *,
    text: str,
    data: Any = None,
    user_id: UserId | None = None,
    message_id: MessageId | None = None,
) -> Message:
    """Store a user's post. With a `message_id` that is stored already, that message is given back."""
    if message_id is not None and (earlier := await find_message(db, message_id)) is not None:
        return earlier
    message = Message(
        message_id=message_id or MessageId(db.ids.new()),
        conversation_id=conversation_id,
        created_at=db.clock.now(),
        sender_type=SenderType.USER,
        user_id=user_id,
        agent_id=None,
        session_id=None,
        text=text,
        data=data,
        status="sent",
        event_type=EventType.POST,
        iteration=None,
        step_token=None,
        next_step_token=None,
        notes=None,
    )
    await messages_of(db).append(message)
    return message


async def find_message(db: TenantStore, message_id: MessageId) -> Message | None:
    """A message, if it is there."""
    return await messages_of(db).first(filters.equals("message_id", message_id))


async def list_messages(
    db: TenantStore,
    conversation_id: ConversationId,
    *,
    order: Order = "asc",
    limit: int = 100,
    cursor: str | None = None,
) -> Page[Message]:
    """The transcript, in the order of time."""
    size = paging.checked_limit(limit)
    descending = order == "desc"
    after = None
    if cursor is not None:
        values = paging.decode_cursor(cursor, (datetime, str))
        after = filters.beyond(("created_at", "message_id"), (values[0], values[1]), descending=descending)
    found = await messages_of(db).find(
        filters.equals("conversation_id", conversation_id),
        after,
        order=[("created_at", descending), ("message_id", descending)],
        limit=size + 1,
    )
    last = found[size - 1] if len(found) > size else None
    following = None if last is None else paging.encode_cursor((last.created_at, last.message_id))
    return Page(tuple(_once(found[:size])), following)


def _once(messages: Iterable[Message]) -> list[Message]:
    """Each message once. Two owners of a session, one after the other, may both have stored what a step says."""
    return list({message.message_id: message for message in messages}.values())


async def missing_messages(db: TenantStore, messages: Sequence[Message]) -> list[Message]:
    """Those of `messages` that are not stored yet."""
    stored: set[str] = set()
    for start in range(0, len(messages), _MAX_NAMED):
        wanted = [message.message_id for message in messages[start : start + _MAX_NAMED]]
        stored.update((await messages_of(db).values("message_id", filters.one_of("message_id", wanted))).to_pylist())
    return [message for message in messages if message.message_id not in stored]


async def posts_after(
    db: TenantStore, conversation_id: ConversationId, cursor: int | None, *, limit: int = 50
) -> tuple[list[Message], int]:
    """Users' posts committed after a message-table version, and the version up to which this has looked."""
    table = messages_of(db)
    newest = await table.version()
    if cursor is None:
        return [], newest
    rows = await table.created_since(
        cursor, filters.equals("conversation_id", conversation_id), filters.equals("sender_type", SenderType.USER)
    )
    taken = rows[:limit]
    while len(taken) < len(rows) and taken and rows[len(taken)].version == taken[-1].version:
        taken.append(rows[len(taken)])  # a cursor cannot stop inside one commit
    reached = taken[-1].version if len(taken) < len(rows) else max([newest, *(row.version for row in taken)])
    return _once(row.item for row in taken), reached
