"""A model made of several providers and keys: who asks it need not know which of them answers.

A call goes to the first route of its role; a failure that may pass is tried again there with full jitter, then the
next route is asked (runtime/llm/route.py). Keys that are not accepted and providers that fail often are left alone for
a while. What each provider is asked stays within its limits. A cancelled call closes its request and leaves its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any

import structlog

from runtime.llm.embedding import in_batches
from runtime.llm.failover import Failover, Journey, Try
from runtime.llm.failures import worth_retrying
from runtime.llm.modelsfile import DEFAULT_ROLE, Ability
from runtime.llm.modelsread import KnownModels
from runtime.llm.money import cost_of
from runtime.llm.port import (
    BadRequestReason,
    ChatReply,
    ChatRequest,
    EmbeddingReply,
    LlmError,
    LlmErrorKind,
    Stream,
    StreamEnd,
    StreamPart,
    StreamRestart,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from runtime.llm.provider import Provider
from runtime.llm.quarantine import Quarantine
from runtime.llm.route import Route, embedding_routes, routes_of
from runtime.llm.streaming import until_deadline
from store.clock import Chance, Clock, SystemChance, SystemClock

#: of English text; a guess that what was really used corrects
CHARS_PER_TOKEN = 4


class ModelPool:
    """All models of `models.toml`. One a process and event loop; `aclose` ends its connections."""

    def __init__(
        self,
        known: KnownModels,
        *,
        clock: Clock | None = None,
        chance: Chance | None = None,
        log: Any = None,
    ) -> None:
        self._known = known
        clock = clock or SystemClock()
        quarantine = Quarantine()
        retrying = known.file.retrying
        log = log or structlog.get_logger()
        self._providers = {
            name: Provider(name, entry, retrying, clock, quarantine, log)
            for name, entry in known.file.providers.items()
        }
        self._failover = Failover(self._providers, retrying, clock, chance or SystemChance())

    def model(self, role: str = DEFAULT_ROLE) -> PooledModel:
        """The model for a role, or one by name. Raises `ValueError` when models.toml has neither."""
        return PooledModel(routes_of(self._known, role), self._failover, self.aclose)

    @property
    def embeds(self) -> bool:
        """Whether a model of models.toml embeds."""
        return bool(embedding_routes(self._known))

    def embedder(self) -> PooledEmbedder:
        """The model that embeds. Raises `ValueError` when models.toml has none."""
        routes = embedding_routes(self._known)
        if not routes:
            raise ValueError('no model of models.toml embeds; give one "embeddings" among its abilities')
        return PooledEmbedder(routes, self._failover)

    async def aclose(self) -> None:
        """Close every connection; calls still running fail."""
        await asyncio.gather(*(provider.aclose() for provider in self._providers.values()))


class PooledModel:
    """A `StreamingModel` along some routes. Every reply and error says in `attempts` what was tried."""

    def __init__(self, routes: Sequence[Route], failover: Failover, close: Callable[[], Awaitable[None]]) -> None:
        if not routes:
            raise ValueError("no model of models.toml chats; a model that only embeds cannot")
        self._routes = routes
        self._failover = failover
        self._close = close
        self.label = routes[0].model.model

    async def aclose(self) -> None:
        """Close every connection of the whole pool; calls still running fail."""
        await self._close()

    async def chat(self, request: ChatRequest) -> ChatReply:
        """See `ChatModel.chat`."""

        async def ask(one: Try) -> ChatReply:
            async with one.provider.use(one.route, _guessed_tokens(request), one.patience_s) as use:
                reply = await one.provider.client(one.route).chat(_within(request, one.seconds))
                use.tokens = _sum(reply.usage)
                return reply.model_copy(update={"cost": cost_of(reply.usage, one.route.model.money)})

        journey = self._failover.journey(request.deadline_s)
        reply = await self._failover.carry_out(self._able(request), journey, ask)
        return reply.model_copy(update={"attempts": tuple(journey.attempts)})

    async def stream(self, request: ChatRequest, *, restart: bool = False) -> Stream:
        """See `StreamingModel.stream`. A model that cannot stream gives its whole answer in one part."""
        loop = asyncio.get_running_loop()
        journey, until = self._failover.journey(request.deadline_s), loop.time() + request.deadline_s
        begun = 0
        while True:
            opened = await self._failover.carry_out(self._able(request), journey, lambda one: _open(one, request))
            begun += 1
            try:
                async with aclosing(until_deadline(opened, until, self.label)) as parts:
                    async for part in parts:
                        yield _with_attempts(part, journey)
                return
            except LlmError as error:
                _cut(journey, error)
                if not restart or not worth_retrying(error) or begun >= self._failover.most_tries:
                    raise journey.told(error) from error.__cause__
                because = error.kind
            yield StreamRestart(because=because)

    def _able(self, request: ChatRequest) -> Sequence[Route]:
        if not request.tools:
            return self._routes
        able = [route for route in self._routes if Ability.TOOLS in route.model.abilities]
        if not able:
            said = f'{self.label}: no model of this role calls tools; add "tools" to the abilities of one that does'
            raise LlmError(LlmErrorKind.BAD_REQUEST, said, reason=BadRequestReason.UNSUPPORTED)
        return able


class PooledEmbedder:
    """An `EmbeddingModel` along the routes of one model."""

    def __init__(self, routes: Sequence[Route], failover: Failover) -> None:
        self._routes = routes
        self._failover = failover
        self.label = routes[0].model.model

    async def embed(self, texts: Sequence[str], *, deadline_s: float = 60.0) -> EmbeddingReply:
        """See `EmbeddingModel.embed`. Batches may be answered by different providers of the same model."""
        journey = self._failover.journey(deadline_s)

        async def batch(part: Sequence[str]) -> EmbeddingReply:
            async def ask(one: Try) -> EmbeddingReply:
                async with one.provider.use(one.route, _tokens(*part), one.patience_s) as use:
                    reply = await one.provider.client(one.route).embed(part, deadline_s=one.seconds)
                    use.tokens = _sum(reply.usage)
                    return reply.model_copy(update={"cost": cost_of(reply.usage, one.route.model.money)})

            return await self._failover.carry_out(self._routes, journey, ask)

        reply = await in_batches(texts, batch, self.label)
        return reply.model_copy(update={"attempts": tuple(journey.attempts)})


async def _open(one: Try, request: ChatRequest) -> Stream:
    """A stream whose first part has come, for until then another route may be asked."""
    parts = _held(one, request)
    first = await anext(parts)
    return _from_first(first, parts)


async def _from_first(first: StreamPart, rest: Stream) -> Stream:
    async with aclosing(rest):
        yield first
        async for part in rest:
            yield part


async def _held(one: Try, request: ChatRequest) -> Stream:
    """The parts of one try; its place at the provider is held to the end."""
    client = one.provider.client(one.route)
    async with one.provider.use(one.route, _guessed_tokens(request), one.patience_s) as use:
        can = Ability.STREAMING in one.route.model.abilities
        if can:
            answer = client.stream(_within(request, one.left_s))
        else:
            answer = _at_once(await client.chat(_within(request, one.seconds)))
        async with aclosing(answer) as parts:
            async for part in parts:
                if isinstance(part, StreamEnd):
                    use.tokens = _sum(part.reply.usage)
                    cost = cost_of(part.reply.usage, one.route.model.money)
                    yield StreamEnd(reply=part.reply.model_copy(update={"cost": cost}))
                else:
                    yield part


async def _at_once(reply: ChatReply) -> Stream:
    if reply.text:
        yield TextDelta(text=reply.text)
    for index, call in enumerate(reply.tool_calls):
        yield ToolCallDelta(index=index, name=call.name, arguments=call.arguments)
    yield StreamEnd(reply=reply)


def _with_attempts(part: StreamPart, journey: Journey) -> StreamPart:
    if not isinstance(part, StreamEnd):
        return part
    return StreamEnd(reply=part.reply.model_copy(update={"attempts": tuple(journey.attempts)}))


def _cut(journey: Journey, error: LlmError) -> None:
    """What was noted as answered, because its first part came, failed after all."""
    if journey.attempts and journey.attempts[-1].kind is None:
        journey.attempts[-1] = journey.attempts[-1].model_copy(update={"kind": error.kind})


def _within(request: ChatRequest, seconds: float) -> ChatRequest:
    return request.model_copy(update={"deadline_s": seconds})


def _guessed_tokens(request: ChatRequest) -> int:
    said = [message.content for message in request.messages]
    tools = [f"{tool.description}{tool.parameters}" for tool in request.tools]
    return _tokens(*said, *tools) + (request.max_tokens or 0)


def _tokens(*texts: str) -> int:
    return 1 + sum(map(len, texts)) // CHARS_PER_TOKEN


def _sum(usage: Usage) -> int | None:
    """What a call used; None when the provider does not say, for then the guess stands."""
    return usage.input_tokens + usage.output_tokens or None
