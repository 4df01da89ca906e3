"""The answer of a chat completions endpoint, read strictly where it matters and leniently where it does not."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from runtime.llm.failures import MAX_MESSAGE_CHARS, status_error
from runtime.llm.port import BadRequestReason, ChatReply, LlmError, LlmErrorKind, ToolCall, Usage

#: what an error without a status of its own stands for
_UNSAID_STATUS = 500


def _as_text(value: Any) -> Any:
    """Arguments as JSON text: some servers send the object itself."""
    return json.dumps(value) if isinstance(value, dict | list) else value


class _Function(BaseModel):
    name: str | None = None
    arguments: Annotated[str | None, BeforeValidator(_as_text)] = None


class WireToolCall(BaseModel):
    """A tool call, or in a stream a piece of one."""

    index: int | None = None
    id: str | None = None
    function: _Function = _Function()


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[WireToolCall] | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Details(BaseModel):
    cached_tokens: int | None = None


class WireUsage(BaseModel):
    """The `usage` of an answer."""

    prompt_tokens: Annotated[int, Field(ge=0)] | None = None
    completion_tokens: Annotated[int, Field(ge=0)] | None = None
    prompt_tokens_details: _Details | None = None

    def usage(self) -> Usage:
        """The same in our words, as one call."""
        details = self.prompt_tokens_details or _Details()
        prompt = self.prompt_tokens or 0
        return Usage(
            input_tokens=prompt,
            output_tokens=self.completion_tokens or 0,
            calls=1,
            cached_tokens=min(max(0, details.cached_tokens or 0), prompt),
        )


class WireError(BaseModel):
    """An error that came with a 200, or in the middle of a stream."""

    message: str | None = None
    code: int | str | None = None

    def raised(self, label: str) -> LlmError:
        """The failure it stands for."""
        said = f"{label}: {self.message or 'an error without a message'}"[:MAX_MESSAGE_CHARS]
        digits = str(self.code)
        status = int(digits) if digits.isdecimal() and 400 <= int(digits[:4]) <= 599 else _UNSAID_STATUS
        return status_error(status, self.code, said)


class _Completion(BaseModel):
    choices: Annotated[list[_Choice], Field(min_length=1)]
    model: str | None = None
    usage: WireUsage | None = None


class _Failed(BaseModel):
    error: WireError


def read_reply(body: bytes, label: str) -> ChatReply:
    """The reply in the body of a 200.

    Raises `LlmError`: MALFORMED when it is no completion or has neither text nor a tool call, TRUNCATED when the model
    ran out of tokens, BAD_REQUEST when it refused, and what the provider says when the body is an error.
    """
    try:
        completion = _Completion.model_validate_json(body)
    except ValidationError as error:
        if (said := error_in(body)) is not None:
            raise said.raised(label) from error
        raise LlmError(LlmErrorKind.MALFORMED, f"{label}: not a completion: {first_problem(error)}") from error
    choice = completion.choices[0]
    tokens = completion.usage or WireUsage()
    return whole_reply(
        text=choice.message.content or "",
        refusal=choice.message.refusal or "",
        calls=choice.message.tool_calls or [],
        finish_reason=choice.finish_reason,
        model=completion.model or label,
        usage=tokens.usage(),
        label=label,
    )


def whole_reply(
    *,
    text: str,
    refusal: str,
    calls: list[WireToolCall],
    finish_reason: str | None,
    model: str,
    usage: Usage,
    label: str,
) -> ChatReply:
    """What an answer amounts to, however it came. Raises `LlmError` as `read_reply` does."""
    if finish_reason == "length":
        said = f"{label}: the answer was cut at the token limit; allow more max_tokens"
        raise LlmError(LlmErrorKind.TRUNCATED, said, partial=text)
    if refusal or finish_reason == "content_filter":
        reason = BadRequestReason.REFUSAL if refusal else BadRequestReason.CONTENT_FILTER
        said = f"{label}: refused: {refusal or 'content filter'}"[:MAX_MESSAGE_CHARS]
        raise LlmError(LlmErrorKind.BAD_REQUEST, said, reason=reason, partial=text)
    if not text.strip() and not calls:
        raise LlmError(LlmErrorKind.MALFORMED, f"{label}: the answer has no text")
    return ChatReply(
        text=text,
        model=model,
        usage=usage,
        finish_reason=finish_reason or "stop",
        tool_calls=tuple(_call(place, call, label) for place, call in enumerate(calls)),
    )


def _call(place: int, call: WireToolCall, label: str) -> ToolCall:
    if not call.function.name:
        raise LlmError(LlmErrorKind.MALFORMED, f"{label}: tool call {place} has no name")
    # servers that leave the id out still want it back with the result
    return ToolCall(id=call.id or f"call_{place}", name=call.function.name, arguments=call.function.arguments or "{}")


def error_in(body: bytes) -> WireError | None:
    """The error that a body with status 200 holds."""
    try:
        return _Failed.model_validate_json(body).error
    except ValidationError:
        return None


def first_problem(error: ValidationError) -> str:
    """Where the first problem is and what it is, without the value."""
    found = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(map(str, found['loc'])) or 'body'}: {found['msg']}"
