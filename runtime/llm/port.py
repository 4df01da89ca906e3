"""The port to a chat model: what a moniker asks, what it gets, and the closed set of ways it can fail.

Fields that came later are left out of the JSON while they hold their default: the digest of a stored call, and the
rows that an older worker reads, stay what they were.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Literal, Protocol, Self, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field, model_validator

from runtime.escapes import escaped_json


class FrozenModel(BaseModel):
    """A pydantic model that cannot be changed and refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _is_default(value: Any) -> bool:
    """Whether a later field says nothing; used to leave it out of the JSON."""
    return value in (None, 0, (), "auto")


class ToolSpec(FrozenModel):
    """A tool that the model may ask for. `parameters` is the JSON Schema of its arguments."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})


class ToolCall(FrozenModel):
    """A tool that the model asked for. `arguments` is JSON text, as the model wrote it."""

    id: str
    name: str
    arguments: str = "{}"

    def parsed(self) -> dict[str, Any]:
        """The arguments as an object; empty text means none.

        Raises `LlmError` (MALFORMED) when the text is not one JSON object. The other calls of the reply stay good.
        """
        found = {} if not self.arguments.strip() else _json_object(self.arguments)
        if found is None:
            shown = self.arguments[:_SHOWN_ARGUMENTS]
            raise LlmError(
                LlmErrorKind.MALFORMED,
                f"the arguments of the tool call {self.name!r} are no JSON object: {shown!r}; tell the model so",
            )
        return found


class ChatMessage(FrozenModel):
    """One message of the prompt. An assistant's may ask for tools; a tool's answers the call `tool_call_id`."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None

    @model_validator(mode="after")
    def _fits_its_role(self) -> Self:
        if self.tool_calls and self.role != "assistant":
            raise ValueError(f"a message of role {self.role!r} cannot ask for tools; only the assistant's can")
        if (self.tool_call_id is not None) != (self.role == "tool"):
            raise ValueError("tool_call_id belongs to messages of role 'tool', and each of them needs one")
        return self


class ChatRequest(FrozenModel):
    """One call. `purpose` names the contract ("joke.tell"); it labels logs and steers the offline model."""

    purpose: str
    messages: tuple[ChatMessage, ...]
    json_schema: dict[str, Any] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: float | None = None
    deadline_s: Annotated[float, Field(gt=0)] = 60.0
    #: what the model may call natively
    tools: Annotated[tuple[ToolSpec, ...], Field(exclude_if=_is_default)] = ()
    tool_choice: Annotated[Literal["auto", "none", "required"], Field(exclude_if=_is_default)] = "auto"
    #: further fields of the endpoint's own, sent as they are (`top_p`, `seed`, ...)
    params: Annotated[dict[str, Any], Field(exclude_if=lambda params: not params)] = Field(default_factory=dict)


class Usage(FrozenModel):
    """What a call used, in tokens. `cached_tokens` are those of the input that the provider had at hand."""

    input_tokens: int = 0
    output_tokens: int = 0
    calls: int = 0
    cached_tokens: Annotated[int, Field(exclude_if=_is_default)] = 0

    def plus(self, other: Usage) -> Usage:
        """The sum of two usages."""
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            calls=self.calls + other.calls,
            cached_tokens=self.cached_tokens + other.cached_tokens,
        )


NO_USAGE = Usage()


class LlmErrorKind(StrEnum):
    """Why a call failed."""

    TIMEOUT = "timeout"  # no answer in time
    RATE_LIMIT = "rate_limit"  # too many requests or tokens, by the provider's count or ours
    AUTH = "auth"  # the key is not accepted, or its credit is used up
    SERVER = "server"  # the provider broke
    BAD_REQUEST = "bad_request"  # the request cannot be answered; `BadRequestReason` says why
    TRUNCATED = "truncated"  # the model ran out of tokens before the end
    MALFORMED = "malformed"  # the answer is not what was agreed
    UNAVAILABLE = "unavailable"  # nobody there, or the connection was cut


class BadRequestReason(StrEnum):
    """Why a request cannot be answered."""

    CONTEXT_LENGTH = "context_length"  # the prompt is longer than the model takes
    CONTENT_FILTER = "content_filter"  # the provider's filter stopped it
    REFUSAL = "refusal"  # the model said no
    MODEL_NOT_FOUND = "model_not_found"  # this endpoint has no such model
    UNSUPPORTED = "unsupported"  # the model cannot do what is asked for, tools for example
    OTHER = "other"


class Attempt(FrozenModel):
    """One try of a call, for traces. `kind` is None when it was answered; no key but its fingerprint is in it.

    `latency_ms` includes the wait for a turn at the provider; of a stream it is the time to the first part.
    """

    provider: str
    model: str
    key_fingerprint: str | None
    kind: LlmErrorKind | None
    latency_ms: float


class ChatReply(FrozenModel):
    """A whole answer; a cut one is an error, never a reply."""

    text: str
    model: str
    usage: Usage = Usage()
    finish_reason: str = "stop"
    tool_calls: Annotated[tuple[ToolCall, ...], Field(exclude_if=_is_default)] = ()
    #: how the answer was bound to the request's `json_schema`; None when none was asked for
    json_mode: Annotated[Literal["json_schema", "json_object", "none"] | None, Field(exclude_if=_is_default)] = None
    #: in the currency of models.toml; None when a price is not known, which is not the same as free
    cost: Annotated[Decimal | None, Field(exclude_if=lambda cost: cost is None)] = None
    attempts: Annotated[tuple[Attempt, ...], Field(exclude_if=_is_default)] = ()


class LlmError(Exception):
    """A model call failed; `kind` says why and `retry_after_s` when the provider asked to come back.

    `reason` is set for BAD_REQUEST, `partial` is the text that had come when an answer was cut, `attempts` are the
    tries of a call to a pool.
    """

    def __init__(
        self,
        kind: LlmErrorKind,
        message: str,
        *,
        retry_after_s: float | None = None,
        reason: BadRequestReason | None = None,
        partial: str = "",
        attempts: tuple[Attempt, ...] = (),
    ) -> None:
        super().__init__(f"{kind.value}: {message}")
        self.message = message
        self.kind = kind
        self.retry_after_s = retry_after_s
        self.reason = BadRequestReason.OTHER if reason is None and kind is LlmErrorKind.BAD_REQUEST else reason
        self.partial = partial
        self.attempts = attempts

    def told(self) -> dict[str, Any]:
        """The failure as JSON; `as_told` makes it again."""
        return {
            "kind": self.kind.value,
            "message": self.message,
            "retry_after_s": self.retry_after_s,
            "reason": None if self.reason is None else self.reason.value,
            "partial": self.partial,
            "attempts": [attempt.model_dump(mode="json") for attempt in self.attempts],
        }

    @classmethod
    def as_told(cls, told: dict[str, Any]) -> LlmError:
        """The failure that `told` described."""
        return cls(
            LlmErrorKind(told["kind"]),
            told["message"],
            retry_after_s=told["retry_after_s"],
            reason=None if told["reason"] is None else BadRequestReason(told["reason"]),
            partial=told["partial"],
            attempts=tuple(Attempt.model_validate(attempt) for attempt in told["attempts"]),
        )

    def changed(
        self,
        *,
        message: str | None = None,
        partial: str | None = None,
        attempts: tuple[Attempt, ...] | None = None,
        retry_after_s: float | None = None,
    ) -> LlmError:
        """The same failure, told with more or less."""
        return LlmError(
            self.kind,
            self.message if message is None else message,
            retry_after_s=self.retry_after_s if retry_after_s is None else retry_after_s,
            reason=self.reason,
            partial=self.partial if partial is None else partial,
            attempts=self.attempts if attempts is None else attempts,
        )


class TextDelta(FrozenModel):
    """A piece of the answer's text."""

    text: str


class ToolCallDelta(FrozenModel):
    """A piece of the tool call number `index`: its name comes once, its arguments in pieces of JSON text."""

    index: int
    name: str = ""
    arguments: str = ""


class StreamRestart(FrozenModel):
    """The stream was cut and begins anew, as the caller allowed: what came so far is void."""

    because: LlmErrorKind


class StreamEnd(FrozenModel):
    """The last part of a stream: the whole answer, with its usage."""

    reply: ChatReply


StreamPart = TextDelta | ToolCallDelta | StreamRestart | StreamEnd
Stream = AsyncGenerator[StreamPart, None]


class EmbeddingReply(FrozenModel):
    """One vector a text, in the order of the texts, all of one length."""

    vectors: tuple[tuple[float, ...], ...]
    model: str
    usage: Usage = Usage()
    cost: Decimal | None = None
    attempts: tuple[Attempt, ...] = ()


class ChatModel(Protocol):
    """A chat model behind one method."""

    @property
    def label(self) -> str:
        """A short name for people: "offline", or the model's name at its endpoint."""
        ...

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Answer `request` within `request.deadline_s` seconds, or raise `LlmError`."""
        ...


@runtime_checkable
class StreamingModel(ChatModel, Protocol):
    """A chat model that can also answer piece by piece."""

    def stream(self, request: ChatRequest, *, restart: bool = False) -> Stream:
        """The answer in parts, `StreamEnd` last; leave it early with `contextlib.aclosing`, which closes the request.

        Raises `LlmError`; its `partial` is the text that came before a cut. After the first part nothing is tried
        again, unless `restart` allows it: then a `StreamRestart` says that what came is void.
        """
        ...


class EmbeddingModel(Protocol):
    """Turns texts into vectors of which near ones mean alike."""

    @property
    def label(self) -> str: ...

    async def embed(self, texts: Sequence[str], *, deadline_s: float = 60.0) -> EmbeddingReply:
        """One vector a text, within `deadline_s` seconds for all of them, or raise `LlmError`."""
        ...


class Model(ChatModel, Protocol):
    """The model that a moniker is given as `ctx.llm`. Every finished call is a record of the step.

    Crash before the record: the call is made again. After: it is read, and nothing is paid twice.
    """

    def apart(self, name: str) -> Model:
        """The same model for calls that are made beside others: they are counted by themselves, under `name`, so that a
        step taken again finds each call's record in whatever order they end.

        A failure of such a call is an answer too, for whoever makes several calls has to go on without it: it is
        recorded, and raised again when the step is taken again.
        """
        ...

    async def live(self, request: ChatRequest) -> ChatReply:
        """As `chat`; the text reaches the session's live feed while it comes, where the model can stream.

        What was shown is only shown: a cut that begins anew, a crash or a failure voids it, and the step's row is what
        was said. A cancelled step closes the request.
        """
        ...

    async def embed(self, texts: Sequence[str], *, deadline_s: float = 60.0) -> EmbeddingReply:
        """One vector a text, within `deadline_s` seconds for all of them.

        Raises `LlmError`: UNAVAILABLE when no model is configured that embeds.
        """
        ...


_SHOWN_ARGUMENTS = 200
_DATA_BLOCK = re.compile(r"<data>\n(.*?)\n</data>", re.DOTALL)


def data_block(data: dict[str, Any]) -> str:
    """What people and files said, as JSON between two marks, for the inside of a prompt.

    Nothing in `data` can close the block (runtime/escapes.py). The marks are fixed, so the same data is the same
    prompt: by that a call is found again in the records of its step.
    """
    return f"<data>\n{escaped_json(data)}\n</data>"


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
