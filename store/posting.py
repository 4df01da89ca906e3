"""A user's post to a conversation: a message for the transcript and an action for every session it is pushed to.

The message is stored first, then the actions, each with a key made of message and session. Crash in between: the
client had no answer and posts again with its idempotency key; the message is found and the missing actions are added.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from store.actions import Action, WhenBusy
from store.agent_requests import agent_input, agent_interrupt
from store.agent_state import get_agent_states
from store.conversations import Delivery, Participant, get_conversation, list_participants
from store.database import TenantStore
from store.errors import ConflictError
from store.ids import ConversationId, MessageId, SessionId, UserId
from store.messages import Message, find_message, post_message


class PostAs(StrEnum):
    """How a post reaches the sessions of the thread."""

    INPUT = "input"  # a turn: read when the session takes its next input
    INTERRUPT = "interrupt"  # guidance: read by the session's next step


@dataclass(frozen=True, slots=True)
class Posted:
    """A stored post and what it set in motion."""

    message: Message
    actions: tuple[Action, ...]


async def post_to_conversation(
    db: TenantStore,
    conversation_id: ConversationId,
    *,
    text: str,
    data: Any = None,
    user_id: UserId | None = None,
    post_as: PostAs = PostAs.INPUT,
    when_busy: WhenBusy = WhenBusy.ENQUEUE,
    idempotency_key: str | None = None,
) -> Posted:
    """Store a post and reach every pushed session that has not ended.

    Raises `NotFoundError` for an unknown thread, `ConflictError` for a key that was used in another one.
    """
    await get_conversation(db, conversation_id)
    message_id = None if idempotency_key is None else _message_id(idempotency_key)
    message = await post_message(db, conversation_id, text=text, data=data, user_id=user_id, message_id=message_id)
    if message.conversation_id != conversation_id:
        raise ConflictError("the idempotency_key was used before, in another conversation; give a new one")
    targets = await pushed_sessions(db, conversation_id)
    actions = await asyncio.gather(*[_reach(db, message, target, lane, post_as, when_busy) for target, lane in targets])
    return Posted(message, tuple(actions))


async def was_posted(db: TenantStore, idempotency_key: str | None) -> bool:
    """Whether a post with this key is stored."""
    return idempotency_key is not None and await find_message(db, _message_id(idempotency_key)) is not None


def _message_id(idempotency_key: str) -> MessageId:
    return MessageId(f"post:{idempotency_key}")


async def pushed_sessions(db: TenantStore, conversation_id: ConversationId) -> list[tuple[Participant, str]]:
    """The sessions that a post is pushed to, with their lanes as far as they are known."""
    members = await list_participants(db, conversation_id)
    pushed = [member for member in members if member.session_id is not None and member.delivery is Delivery.PUSH]
    known = await get_agent_states(db, [SessionId(member.session_id or "") for member in pushed])
    rows = [(member, known.get(SessionId(member.session_id or ""))) for member in pushed]
    return [(member, "" if row is None else row.place) for member, row in rows if row is None or not row.ended]


async def _reach(
    db: TenantStore, message: Message, target: Participant, lane: str, post_as: PostAs, when_busy: WhenBusy
) -> Action:
    about = {"message_id": message.message_id, "sender": message.user_id}
    key = f"{message.message_id}>{target.session_id}"
    if post_as is PostAs.INTERRUPT:
        return await agent_interrupt(
            db,
            guidance=message.text,
            agent_id=target.agent_id,
            session_id=target.session_id,
            conversation_id=message.conversation_id,
            metadata=about,
            idempotency_key=key,
            lane=lane,
        )
    return await agent_input(
        db,
        text=message.text or "",
        data=message.data,
        when_busy=when_busy,
        agent_id=target.agent_id,
        session_id=target.session_id,
        conversation_id=message.conversation_id,
        metadata=about,
        idempotency_key=key,
        lane=lane,
    )
