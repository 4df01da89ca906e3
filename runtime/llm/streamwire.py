"""The pieces of a streamed answer, and the whole that they make."""

from __future__ import annotations

from collections.abc import AsyncIterator

from pydantic import BaseModel, ValidationError

from runtime.llm.port import (
    ChatReply,
    LlmError,
    LlmErrorKind,
    StreamEnd,
    StreamPart,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from runtime.llm.sse import BadEventError, event_data
from runtime.llm.wire import WireError, WireToolCall, WireUsage, first_problem, whole_reply

DONE = b"[DONE]"
#: a model that asks for more tools at once is not asking for tools
MAX_TOOL_CALLS = 128


class _Delta(BaseModel):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[WireToolCall] | None = None


class _Choice(BaseModel):
    delta: _Delta = _Delta()
    finish_reason: str | None = None


class _Chunk(BaseModel):
    choices: list[_Choice] | None = None
    model: str | None = None
    usage: WireUsage | None = None
    error: WireError | None = None


class Assembly:
    """Puts the pieces together; `text` is what came so far."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._texts: list[str] = []
        self._refusals: list[str] = []
        self._calls: dict[int, WireToolCall] = {}
        self._finish: str | None = None
        self._model: str | None = None
        self._usage: WireUsage | None = None
        self._done = False

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def take(self, data: bytes) -> list[StreamPart]:
        """The parts that one event holds. Raises `LlmError` when it cannot be read or is an error."""
        if data.strip() == DONE:
            self._done = True
            return []
        try:
            chunk = _Chunk.model_validate_json(data)
        except ValidationError as error:
            said = f"{self._label}: not a piece of a completion: {first_problem(error)}"
            raise LlmError(LlmErrorKind.MALFORMED, said) from error
        if chunk.error is not None:
            raise chunk.error.raised(self._label)
        self._model = chunk.model or self._model
        self._usage = chunk.usage or self._usage
        return [part for choice in (chunk.choices or [])[:1] for part in self._parts(choice)]

    def _parts(self, choice: _Choice) -> list[StreamPart]:
        self._finish = choice.finish_reason or self._finish
        parts: list[StreamPart] = []
        if choice.delta.refusal:
            self._refusals.append(choice.delta.refusal)
        if choice.delta.content:
            self._texts.append(choice.delta.content)
            parts.append(TextDelta(text=choice.delta.content))
        parts += [self._call(piece) for piece in choice.delta.tool_calls or []]
        return parts

    def _call(self, piece: WireToolCall) -> ToolCallDelta:
        index = self._index(piece)
        if index < 0 or (index not in self._calls and len(self._calls) >= MAX_TOOL_CALLS):
            said = f"{self._label}: tool call number {index}; at most {MAX_TOOL_CALLS} are taken"
            raise LlmError(LlmErrorKind.MALFORMED, said)
        call = self._calls.setdefault(index, WireToolCall())
        call.id = call.id or piece.id
        name, arguments = piece.function.name or "", piece.function.arguments or ""
        call.function = call.function.model_copy(
            update={
                "name": (call.function.name or "") + name,
                "arguments": (call.function.arguments or "") + arguments,
            }
        )
        return ToolCallDelta(index=index, name=name, arguments=arguments)

    def _index(self, piece: WireToolCall) -> int:
        if piece.index is not None:
            return piece.index
        # servers without numbers send each call whole, or begin one with a new id
        known = [place for place, call in self._calls.items() if piece.id is not None and call.id == piece.id]
        if known:
            return known[0]
        newest = max(self._calls, default=-1)
        return newest if piece.id is None and piece.function.name is None and newest >= 0 else newest + 1

    def whole(self) -> ChatReply:
        """The answer. Raises `LlmError`: UNAVAILABLE when the stream ended before the answer did."""
        if self._finish is None and not self._done:
            raise LlmError(LlmErrorKind.UNAVAILABLE, f"{self._label}: the stream was cut before the end of the answer")
        return whole_reply(
            text=self.text,
            refusal="".join(self._refusals),
            calls=[call for _, call in sorted(self._calls.items())],
            finish_reason=self._finish,
            model=self._model or self._label,
            usage=self._usage.usage() if self._usage else Usage(calls=1),
            label=self._label,
        )


async def read_stream(chunks: AsyncIterator[bytes], assembly: Assembly) -> AsyncIterator[StreamPart]:
    """The parts of a streamed body, `StreamEnd` last. Raises `LlmError`, and what `chunks` raises."""
    try:
        async for data in event_data(chunks):
            for part in assembly.take(data):
                yield part
    except BadEventError as error:
        raise LlmError(LlmErrorKind.MALFORMED, str(error)) from error
    yield StreamEnd(reply=assembly.whole())
