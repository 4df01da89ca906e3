"""How far a session that pulls its messages has read. A projection: the steps hold the same in `guidance.pulled_to`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from store import filters
from store.codec import RowCodec
from store.database import TenantStore
from store.ids import ConversationId, SessionId
from store.schema import SESSION_CURSORS
from store.scope import ScopedTable


@dataclass(frozen=True, slots=True)
class SessionCursor:
    """A session's place in a conversation, as a version of the message table."""

    session_id: SessionId
    conversation_id: ConversationId
    message_cursor: str
    updated_at: datetime


CODEC: RowCodec[SessionCursor] = RowCodec(SessionCursor, SESSION_CURSORS)


def cursors_of(db: TenantStore) -> ScopedTable[SessionCursor]:
    """This tenant's cursors."""
    return db.table(CODEC)


async def find_cursor(db: TenantStore, session_id: SessionId, conversation_id: ConversationId) -> int | None:
    """The message-table version a session has read up to; None if it never has."""
    same = filters.equals("session_id", session_id)
    found = await cursors_of(db).first(same, filters.equals("conversation_id", conversation_id))
    return None if found is None else int(found.message_cursor)


async def save_cursor(db: TenantStore, session_id: SessionId, conversation_id: ConversationId, version: int) -> None:
    """Remember how far a session has read."""
    await cursors_of(db).upsert(SessionCursor(session_id, conversation_id, str(version), db.clock.now()))
