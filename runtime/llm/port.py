"""The port to a chat model: what a moniker asks, what it gets, and the closed set of ways it can fail."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field


class FrozenModel(BaseModel):
    """A pydantic model that cannot be changed and refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ChatMessage(FrozenModel):
    """One message of the prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


class ChatRequest(FrozenModel):
    """One call. `purpose` names the contract ("joke.tell"); it labels logs and steers the offline model."""

    purpose: str
    messages: tuple[ChatMessage, ...]
    json_schema: dict[str, Any] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: float | None = None
    deadline_s: Annotated[float, Field(gt=0)] = 60.0


class Usage(FrozenModel):
    """What a call used, in tokens."""

    input_tokens: int = 0
    output_tokens: int = 0
    calls: int = 0

    def plus(self, other: Usage) -> Usage:
        """The sum of two usages."""
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            calls=self.calls + other.calls,
        )


class ChatReply(FrozenModel):
    """A whole answer; a cut one is an error, never a reply."""

    text: str
    model: str
    usage: Usage = Usage()
    finish_reason: str = "stop"


class LlmErrorKind(StrEnum):
    """Why a call failed."""

    TIMEOUT = "timeout"
    RATE_LIMIT = "rate_limit"
    AUTH = "auth"
    SERVER = "server"
    BAD_REQUEST = "bad_request"
    TRUNCATED = "truncated"
    MALFORMED = "malformed"
    UNAVAILABLE = "unavailable"


class LlmError(Exception):
    """A model call failed; `kind` says why and `retry_after_s` when the provider asked to come back."""

    def __init__(self, kind: LlmErrorKind, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(f"{kind.value}: {message}")
        self.kind = kind
        self.retry_after_s = retry_after_s


class ChatModel(Protocol):
    """A chat model behind one method."""

    @property
    def label(self) -> str:
        """A short name for people: "offline", or the model's name at its endpoint."""
        ...

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Answer `request` within `request.deadline_s` seconds, or raise `LlmError`."""
        ...
