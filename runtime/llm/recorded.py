"""The model that a step is given: its finished calls are records, so that none is paid twice."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, assert_never

from runtime.calls import RecordKind
from runtime.llm.history import acceptable
from runtime.llm.port import (
    ChatModel,
    ChatReply,
    ChatRequest,
    EmbeddingModel,
    EmbeddingReply,
    LlmError,
    LlmErrorKind,
    StreamEnd,
    StreamingModel,
    StreamRestart,
    TextDelta,
    ToolCallDelta,
)
from runtime.ports import Json
from runtime.stepcalls import StepCalls
from runtime.tokens import Listener, LiveCall, TokenFeed
from runtime.usage import Bill
from store.jsontext import json_dumps


class RecordedModel:
    """The `Model` of one step. `tokens` is where live text goes; without it `live` is `chat`."""

    def __init__(
        self,
        calls: StepCalls,
        model: ChatModel,
        *,
        embedder: EmbeddingModel | None = None,
        tokens: TokenFeed | None = None,
        apart: str = "",
    ) -> None:
        self._calls = calls
        self._model = model
        self._embedder = embedder
        self._tokens = tokens
        self._apart = apart

    @property
    def label(self) -> str:
        return self._model.label

    def apart(self, name: str) -> RecordedModel:
        """See `Model.apart`."""
        return RecordedModel(
            self._calls, self._model, embedder=self._embedder, tokens=self._tokens, apart=f"{self._apart}{name}:"
        )

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Answer `request`, or read what was answered to the same request before."""
        return await self._asked(request, lambda sent, _: self._model.chat(sent))

    async def live(self, request: ChatRequest) -> ChatReply:
        """As `chat`, and shown while it comes. An answer that is read is not shown again: the step is about to be."""
        return await self._asked(request, self._shown)

    async def embed(self, texts: Sequence[str], *, deadline_s: float = 60.0) -> EmbeddingReply:
        """The vectors of `texts`, or those that the same texts had before."""
        bill = Bill()

        async def call() -> Json:
            if self._embedder is None:
                raise LlmError(LlmErrorKind.UNAVAILABLE, _NO_EMBEDDER)
            reply = await self._embedder.embed(texts, deadline_s=deadline_s)
            bill.add(reply)
            embedded: Json = reply.model_dump(mode="json")
            return embedded

        def facts(_: Json) -> Json:
            return {"texts": len(texts)}

        key, _ = self._next("embed")
        digest = _digest(list(texts))
        found = await self._calls.recorded(key, call, kind=RecordKind.EMBED, digest=digest, facts=facts, bill=bill)
        return EmbeddingReply.model_validate(found)

    async def _asked(
        self, request: ChatRequest, answer: Callable[[ChatRequest, int], Awaitable[ChatReply]]
    ) -> ChatReply:
        # An endpoint refuses a history with a tool call that has no result, and every later call with it.
        sent = request.model_copy(update={"messages": acceptable(request.messages)})
        (key, number), bill = self._next("llm"), Bill()

        async def call() -> Json:
            try:
                reply = await answer(sent, number)
            except LlmError as error:
                if not self._apart:
                    raise
                return {"finish_reason": _FAILED, _FAILED: error.told()}
            bill.add(reply)
            told: Json = reply.model_dump(mode="json")
            return told

        def facts(reply: Json) -> Json:
            failed = {"error": reply[_FAILED]["kind"]} if _FAILED in reply else {}
            return {"purpose": sent.purpose, "finish_reason": reply["finish_reason"], **failed}

        digest = _digest(sent.model_dump(mode="json"))
        found = await self._calls.recorded(key, call, kind=RecordKind.MODEL, digest=digest, facts=facts, bill=bill)
        if _FAILED in found:
            raise LlmError.as_told(found[_FAILED])
        return ChatReply.model_validate(found)

    def _next(self, sort: str) -> tuple[str, int]:
        """The key of the next call of a sort, and a number that no other call of that sort has in this step."""
        number = self._calls.next_number(sort)
        if self._apart:
            return f"{sort}:{self._apart}{self._calls.next_number(f'{sort}:{self._apart}')}", number
        return f"{sort}:{number}", number

    async def _shown(self, request: ChatRequest, number: int) -> ChatReply:
        if self._tokens is None or not isinstance(self._model, StreamingModel):
            return await self._model.chat(request)
        text = self._tokens.begin(self._live_call(number))
        try:
            reply = await _told_to(text, self._model, request)
            await text.ended()
        except BaseException:
            text.leave()
            raise
        return reply

    def _live_call(self, number: int) -> LiveCall:
        calls, session = self._calls, self._calls.session
        return LiveCall(session.session_id, calls.iteration, number, session.epoch, session.lane, calls.check_ownership)


async def _told_to(listener: Listener, model: StreamingModel, request: ChatRequest) -> ChatReply:
    """The reply at the end of a stream whose text `listener` hears. Tool calls are told when they are made."""
    async with aclosing(model.stream(request, restart=True)) as parts:
        async for part in parts:
            match part:
                case TextDelta():
                    listener.say(part.text)
                case StreamRestart():
                    listener.restart(part.because)
                case ToolCallDelta():
                    pass
                case StreamEnd():
                    return part.reply
                case _:
                    assert_never(part)
    raise LlmError(LlmErrorKind.MALFORMED, f"{model.label}: the stream ended without its last part")


def _digest(asked: Any) -> str:
    return hashlib.sha256(json_dumps(asked).encode()).hexdigest()


_FAILED = "failed"
_NO_EMBEDDER = (
    'no model is configured that embeds; name one in the file that STEPWELL_MODELS names, with "embeddings" among its '
    "abilities"
)
