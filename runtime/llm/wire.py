"""The answer of a chat completions endpoint, read strictly where it matters and leniently where it does not."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field, ValidationError

from runtime.llm.port import ChatReply, LlmError, LlmErrorKind, Usage


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Tokens(BaseModel):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Completion(BaseModel):
    choices: Annotated[list[_Choice], Field(min_length=1)]
    model: str | None = None
    usage: _Tokens | None = None


def read_reply(body: bytes, label: str) -> ChatReply:
    """The reply in the body of a 200.

    Raises `LlmError`: MALFORMED when it is no completion or has no text, TRUNCATED when the model ran out of tokens,
    BAD_REQUEST when it refused.
    """
    try:
        completion = _Completion.model_validate_json(body)
    except ValidationError as error:
        raise LlmError(LlmErrorKind.MALFORMED, f"{label}: not a completion: {_first(error)}") from error
    choice = completion.choices[0]
    if choice.finish_reason == "length":
        raise LlmError(LlmErrorKind.TRUNCATED, f"{label}: the answer was cut at the token limit; allow more max_tokens")
    if choice.message.refusal or choice.finish_reason == "content_filter":
        raise LlmError(LlmErrorKind.BAD_REQUEST, f"{label}: refused: {choice.message.refusal or 'content filter'}")
    if not (choice.message.content or "").strip():
        raise LlmError(LlmErrorKind.MALFORMED, f"{label}: the answer has no text")
    return _reply(completion, choice, label)


def _reply(completion: _Completion, choice: _Choice, label: str) -> ChatReply:
    tokens = completion.usage or _Tokens()
    usage = Usage(input_tokens=tokens.prompt_tokens or 0, output_tokens=tokens.completion_tokens or 0, calls=1)
    return ChatReply(
        text=choice.message.content or "",
        model=completion.model or label,
        usage=usage,
        finish_reason=choice.finish_reason or "stop",
    )


def _first(error: ValidationError) -> str:
    found = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(map(str, found['loc'])) or 'body'}: {found['msg']}"
