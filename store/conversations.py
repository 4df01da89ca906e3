"""Conversations: threads shared by users and sessions, and who takes part in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from urllib.parse import quote

from store import filters, paging
from store.codec import RowCodec
from store.database import TenantStore
from store.errors import BadFilterError, ConflictError, NotFoundError
from store.ids import AgentId, ConversationId, ParticipantId, SessionId, UserId
from store.jsontext import clean_text
from store.paging import Page
from store.schema import CONVERSATIONS, PARTICIPANTS
from store.scope import ScopedTable


class Delivery(StrEnum):
    """How a user's post reaches a session."""

    PUSH = "push"  # an action is queued for it
    PULL = "pull"  # it reads what is new when it takes its next step


@dataclass(frozen=True, slots=True)
class Conversation:
    """A thread."""

    conversation_id: ConversationId
    title: str
    created_by: str | None
    status: str
    tags: Any
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Participant:
    """A user or a session that takes part in a thread."""

    participant_id: ParticipantId
    conversation_id: ConversationId
    user_id: UserId | None
    agent_id: AgentId | None
    session_id: SessionId | None
    role: str
    delivery: Delivery
    joined_at: datetime
    left_at: datetime | None


CODEC: RowCodec[Conversation] = RowCodec(Conversation, CONVERSATIONS, json=frozenset({"tags"}))
PARTICIPANT_CODEC: RowCodec[Participant] = RowCodec(Participant, PARTICIPANTS, enums={"delivery": Delivery})


def _conversations(db: TenantStore) -> ScopedTable[Conversation]:
    return db.table(CODEC)


def participants_of(db: TenantStore) -> ScopedTable[Participant]:
    """Who takes part in this tenant's threads."""
    return db.table(PARTICIPANT_CODEC)


async def create_conversation(
    db: TenantStore,
    *,
    title: str = "",
    created_by: str | None = None,
    tags: Sequence[str] = (),
    conversation_id: ConversationId | None = None,
) -> Conversation:
    """Store a new thread; raises `ConflictError` when the id is in use."""
    if conversation_id is not None and await find_conversation(db, conversation_id) is not None:
        raise ConflictError(f"conversation_id {conversation_id!r} is already in use; leave it out to get a new one")
    new_id = conversation_id or ConversationId(db.ids.new())
    conversation = Conversation(new_id, title, created_by, "open", list(tags), db.clock.now())
    await _conversations(db).upsert(conversation)
    return conversation


async def find_conversation(db: TenantStore, conversation_id: ConversationId) -> Conversation | None:
    """A thread, if it is there."""
    return await _conversations(db).first(filters.equals("conversation_id", conversation_id))


async def find_conversations(
    db: TenantStore, conversation_ids: Sequence[ConversationId]
) -> dict[ConversationId, Conversation]:
    """Several threads in one read; ids that are not there are left out."""
    found = await _conversations(db).find(filters.one_of("conversation_id", conversation_ids))
    return {conversation.conversation_id: conversation for conversation in found}


async def get_conversation(db: TenantStore, conversation_id: ConversationId) -> Conversation:
    """A thread; raises `NotFoundError`."""
    found = await find_conversation(db, conversation_id)
    if found is None:
        raise NotFoundError("conversation", conversation_id)
    return found


async def list_conversations(db: TenantStore, *, limit: int = 100, cursor: str | None = None) -> Page[Conversation]:
    """Threads, newest first."""
    size = paging.checked_limit(limit)
    after = None
    if cursor is not None:
        values = paging.decode_cursor(cursor, (datetime, str))
        after = filters.beyond(("created_at", "conversation_id"), (values[0], values[1]), descending=True)
    order = [("created_at", True), ("conversation_id", True)]
    found = await _conversations(db).find(after, order=order, limit=size + 1)
    last = found[size - 1] if len(found) > size else None
    following = None if last is None else paging.encode_cursor((last.created_at, last.conversation_id))
    return Page(tuple(found[:size]), following)


async def add_participant(
    db: TenantStore,
    conversation_id: ConversationId,
    *,
    user_id: UserId | None = None,
    agent_id: AgentId | None = None,
    session_id: SessionId | None = None,
    role: str = "member",
    delivery: Delivery = Delivery.PUSH,
) -> Participant:
    """Let a user or a session take part; doing it again changes role and delivery, and ends an absence."""
    if (user_id is None) == (session_id is None):
        raise BadFilterError("a participant is either a user_id or a session_id")
    participant = Participant(
        participant_id=_participant_id(conversation_id, user_id, session_id),
        conversation_id=conversation_id,
        user_id=user_id,
        agent_id=agent_id,
        session_id=session_id,
        role=role,
        delivery=delivery,
        joined_at=db.clock.now(),
        left_at=None,
    )
    await participants_of(db).upsert(participant)
    return participant


def _participant_id(
    conversation_id: ConversationId, user_id: UserId | None, session_id: SessionId | None
) -> ParticipantId:
    kind, key = ("user", user_id) if user_id is not None else ("session", session_id)
    thread = quote(clean_text(conversation_id), safe="")  # without a slash, or two participants could be one
    return ParticipantId(f"{thread}/{kind}/{key}")


async def list_participants(db: TenantStore, conversation_id: ConversationId) -> list[Participant]:
    """Everybody who takes part now, in the order of joining."""
    same = filters.equals("conversation_id", conversation_id)
    found = await participants_of(db).find(same, order=[("joined_at", False), ("participant_id", False)])
    return [participant for participant in found if participant.left_at is None]


async def leave_conversation(db: TenantStore, participant: Participant) -> None:
    """Record that somebody no longer takes part."""
    await participants_of(db).change((participant.participant_id,), left_at=db.clock.now())
