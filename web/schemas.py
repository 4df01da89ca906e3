"""What a request's body may hold. A wrong type, an unknown field or a number out of range is a 422 naming the field."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from store import Delivery
from web.ids import Id, Key

MAX_TEXT_CHARS: Final = 500_000
MAX_TITLE_CHARS: Final = 500
MAX_TAGS: Final = 50
MAX_STEPS: Final = 1_000_000_000
MAX_RUNTIME_S: Final = 10 * 365 * 24 * 3600.0

Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT_CHARS)]
LongText = Annotated[str, Field(max_length=MAX_TEXT_CHARS)]
JsonObject = dict[str, Any]
HowDelivered = Annotated[Delivery, Field(strict=False)]


class Body(BaseModel):
    """The base of all bodies: frozen, strict, and without fields that nobody knows."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class CreateAgent(Body):
    """Start a session of a moniker."""

    moniker: Annotated[str, Field(min_length=1, max_length=200, description="a name of GET /api/monikers")]
    task: LongText | None = None
    config: JsonObject | None = None
    agent_id: Annotated[Id | None, Field(description="the moniker's name when left out")] = None
    session_id: Annotated[Id | None, Field(description="a new id when left out; 409 when it is in use")] = None
    conversation_id: Id | None = None
    stop_on_done: Annotated[bool | None, Field(description="the moniker's own habit when left out")] = None
    max_steps: Annotated[int, Field(ge=1, le=MAX_STEPS)] | None = None
    max_runtime_s: Annotated[float, Field(gt=0, le=MAX_RUNTIME_S, allow_inf_nan=False)] | None = None
    delivery: Annotated[HowDelivered, Field(description="how the conversation's posts reach it")] = Delivery.PUSH
    idempotency_key: Annotated[Key | None, Field(description="the same key gives the same answer")] = None


class Control(Body):
    """Nothing: the address says it all."""


class Interrupt(Body):
    """Guide a session: its next step reads it."""

    guidance: Text | JsonObject
    idempotency_key: Key | None = None


class Input(Body):
    """Say something to a session: it begins a turn."""

    text: Text
    data: JsonObject | None = None
    idempotency_key: Key | None = None


class CreateConversation(Body):
    """Open a thread."""

    title: Annotated[str, Field(max_length=MAX_TITLE_CHARS)] = ""
    tags: Annotated[list[Annotated[str, Field(min_length=1, max_length=100)]], Field(max_length=MAX_TAGS)] = []
    created_by: Annotated[Id | None, Field(description="a user, who also joins the thread")] = None
    conversation_id: Id | None = None


class AddParticipant(Body):
    """Let a user or a session take part."""

    user_id: Id | None = None
    session_id: Id | None = None
    role: Annotated[str, Field(min_length=1, max_length=100)] = "member"
    delivery: HowDelivered = Delivery.PUSH

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.user_id is None) == (self.session_id is None):
            raise ValueError("give either user_id or session_id")
        return self


class PostMode(StrEnum):
    """How a post reaches the sessions of a thread."""

    INPUT = "input"  # a turn
    INTERRUPT = "interrupt"  # guidance for the next step
    AUTO = "auto"  # guidance when every session of the thread is at work, else a turn


class PostMessage(Body):
    """Write to a thread."""

    text: Text
    data: JsonObject | None = None
    user_id: Id | None = None
    mode: Annotated[PostMode, Field(alias="as", strict=False)] = PostMode.INPUT
    idempotency_key: Key | None = None
