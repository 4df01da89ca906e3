"""Rooms: what a live connection can follow. Built and parsed here only, from checked ids."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from web.ids import Id


class RoomKind(StrEnum):
    """What a room is about."""

    SESSION = "session"  # one session: step, state, action, token, approval
    CONVERSATION = "conversation"  # one thread: message, state, approval
    SESSIONS = "sessions"  # all sessions: state
    QUEUE = "queue"  # all actions: action
    APPROVALS = "approvals"  # all questions to people: approval
    TOOLS = "tools"  # all tools of MCP servers: tool


TOPICS = frozenset({RoomKind.SESSIONS, RoomKind.QUEUE, RoomKind.APPROVALS, RoomKind.TOOLS})


@dataclass(frozen=True, slots=True)
class Room:
    """One room; `key` is the id it is about, empty for a topic."""

    kind: RoomKind
    key: str = ""

    @property
    def name(self) -> str:
        """Its name on the wire."""
        return self.kind.value if self.kind in TOPICS else f"{self.kind.value}:{self.key}"


class RoomRequest(BaseModel):
    """What a client sends to follow a room or to leave it."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    session_id: Id | None = None
    conversation_id: Id | None = None
    topic: Annotated[RoomKind | None, Field(strict=False)] = None
    cursor: Annotated[str, Field(max_length=2000)] | None = None

    @model_validator(mode="after")
    def _one_room(self) -> Self:
        if sum(value is not None for value in (self.session_id, self.conversation_id, self.topic)) != 1:
            raise ValueError("give one of session_id, conversation_id and topic")
        if self.topic is not None and self.topic not in TOPICS:
            raise ValueError("topic is 'sessions', 'queue', 'approvals' or 'tools'")
        return self

    @property
    def room(self) -> Room:
        """The room that is meant."""
        if self.session_id is not None:
            return Room(RoomKind.SESSION, self.session_id)
        if self.conversation_id is not None:
            return Room(RoomKind.CONVERSATION, self.conversation_id)
        return Room(RoomKind(self.topic or ""))


def room_request(payload: Any) -> RoomRequest:
    """The request in what a client sent; raises pydantic's `ValidationError`."""
    return RoomRequest.model_validate(payload)
