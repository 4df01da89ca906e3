"""A provider's gate: so many calls at a time, so many requests and tokens a minute."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from runtime.llm.bucket import TokenBucket
from runtime.llm.modelsfile import Limits
from runtime.llm.port import LlmError, LlmErrorKind
from store.clock import Clock


class HeldBackError(LlmError):
    """We did not even ask: the provider's limits are used up, or it is left alone. Nothing was sent."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A call that went in, with the tokens it was thought to need."""

    tokens: int


class Gate:
    """Lets calls to one provider in, in their order. For one event loop."""

    def __init__(self, provider: str, limits: Limits, clock: Clock) -> None:
        self._provider = provider
        self._clock = clock
        self._places = asyncio.Semaphore(limits.concurrency)
        now = clock.monotonic()
        self._requests = TokenBucket(limits.requests_per_minute, now) if limits.requests_per_minute else None
        self._tokens = TokenBucket(limits.tokens_per_minute, now) if limits.tokens_per_minute else None

    async def enter(self, tokens: int, patience_s: float) -> Turn:
        """Come back when it is the call's turn; `leave` it whatever happens.

        Raises `HeldBackError` (RATE_LIMIT) when that would take longer than `patience_s`; nothing is used up then.
        """
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(patience_s):
                await self._places.acquire()
        except TimeoutError:
            raise self._full(patience_s, "all its places are taken") from None
        try:
            await self._wait(tokens, patience_s - (self._clock.monotonic() - began))
        except BaseException:
            self._places.release()
            raise
        return Turn(tokens)

    async def _wait(self, tokens: int, patience_s: float) -> None:
        now = self._clock.monotonic()
        wait = max(
            self._requests.wait_s(1, now) if self._requests else 0.0,
            self._tokens.wait_s(tokens, now) if self._tokens else 0.0,
        )
        if wait > max(0.0, patience_s):
            raise self._full(wait, "its requests or tokens a minute are used up")
        if self._requests:
            self._requests.take(1, now)
        if self._tokens:
            self._tokens.take(tokens, now)
        if not wait:
            return
        try:
            await self._clock.sleep(wait)
        except BaseException:
            # cancelled before anything was sent
            self._back(1, tokens)
            raise

    def leave(self, turn: Turn, used_tokens: int | None) -> None:
        """The call has ended and used so many tokens; None when nobody knows."""
        self._places.release()
        if used_tokens is not None:
            self._back(0, turn.tokens - used_tokens)

    def _back(self, requests: int, tokens: int) -> None:
        now = self._clock.monotonic()
        if self._requests:
            self._requests.give_back(requests, now)
        if self._tokens:
            self._tokens.give_back(tokens, now)

    def _full(self, wait: float, why: str) -> HeldBackError:
        said = f"the provider {self._provider!r} is at our own limit: {why}; raise its limits or ask less"
        return HeldBackError(LlmErrorKind.RATE_LIMIT, said, retry_after_s=wait)
