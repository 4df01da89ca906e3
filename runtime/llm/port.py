"""The port to a chat model: what a moniker asks, what it gets, and the closed set of ways it can fail."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
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


_DATA_BLOCK = re.compile(r"<data>\n(.*?)\n</data>", re.DOTALL)


def data_block(data: dict[str, Any]) -> str:
    """What people and files said, as JSON between two marks, for the inside of a prompt.

    Nothing in `data` can close the block: "<" is written as its JSON escape. Characters that are not text
    (lone surrogates) become "?".
    """
    body = json.dumps(data, ensure_ascii=False, default=str).replace("<", "\\u003c")
    return f"<data>\n{body.encode('utf-8', 'replace').decode()}\n</data>"


def read_data_block(messages: Sequence[ChatMessage]) -> dict[str, Any] | None:
    """The data of the newest user message that carries a block, or None when there is none."""
    for message in reversed(messages):
        if message.role == "user" and (found := _DATA_BLOCK.search(message.content)):
            return _json_object(found.group(1))
    return None


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
