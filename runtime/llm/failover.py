"""One call's way through the routes: tried again where that may help, handed on where it may not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception

from runtime.llm.failures import worth_retrying
from runtime.llm.gate import HeldBackError
from runtime.llm.modelsfile import Retrying
from runtime.llm.port import Attempt, BadRequestReason, LlmError, LlmErrorKind
from runtime.llm.provider import Provider
from runtime.llm.route import Route
from store.clock import Chance, Clock

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Try:
    """One try: where, and how many seconds it, the rest of a stream and the waiting for a turn may take."""

    route: Route
    provider: Provider
    seconds: float
    left_s: float
    patience_s: float


Ask = Callable[[Try], Awaitable[T]]


@dataclass
class Journey:
    """The tries of one call so far, and the moment of `Clock.monotonic` at which it has to be over."""

    until: float
    attempts: list[Attempt] = field(default_factory=list)

    def told(self, error: LlmError) -> LlmError:
        """The failure with the tries that led to it."""
        return error.changed(attempts=tuple(self.attempts))


class Failover:
    """Makes calls along routes. For one event loop."""

    def __init__(self, providers: Mapping[str, Provider], retrying: Retrying, clock: Clock, chance: Chance) -> None:
        self._providers = providers
        self._retrying = retrying
        self._clock = clock
        self._chance = chance

    @property
    def most_tries(self) -> int:
        """Tries of one call on one route."""
        return self._retrying.attempts

    def journey(self, deadline_s: float) -> Journey:
        """A call that has `deadline_s` seconds from now."""
        return Journey(self._clock.monotonic() + deadline_s)

    async def carry_out(self, routes: Sequence[Route], journey: Journey, ask: Ask[T]) -> T:
        """What `ask` gives on the first route that answers.

        Raises `LlmError`: the last failure, with all tries in `attempts`; at the deadline TIMEOUT.
        """
        left = journey.until - self._clock.monotonic()
        try:
            async with asyncio.timeout(left):
                return await self._along(routes, journey, ask)
        except TimeoutError:
            said = f"no answer in {left:g} s, after {len(journey.attempts)} failed tries"
            raise journey.told(LlmError(LlmErrorKind.TIMEOUT, said)) from None
        except LlmError as error:
            raise journey.told(error) from error.__cause__

    async def _along(self, routes: Sequence[Route], journey: Journey, ask: Ask[T]) -> T:
        while True:
            failed: LlmError | None = None
            ways = list(routes)
            while ways:
                route = ways.pop(0)
                if self._providers[route.provider].rests_s(route) > 0:
                    continue
                try:
                    return await self._on(route, journey, ask, more=bool(ways))
                except LlmError as error:
                    if failed is None or not isinstance(error, HeldBackError):
                        failed = error  # what a provider said tells more than that we did not ask one
                    ways = [way for way in ways if _may_help(error, route, way)]
                    if self._clock.monotonic() >= journey.until:
                        break
            if failed is not None:
                raise failed
            await self._until_one_opens(routes, journey)

    async def _on(self, route: Route, journey: Journey, ask: Ask[T], *, more: bool) -> T:
        """The tries on one route; `more` says that there are others to go to."""
        provider = self._providers[route.provider]

        async def once() -> T:
            left = journey.until - self._clock.monotonic()
            limits = provider.entry.limits
            patience = min(limits.queue_s, left) if more else left
            return await self._tried(Try(route, provider, min(left, limits.timeout_s), left, patience), journey, ask)

        retrying = AsyncRetrying(
            retry=retry_if_exception(self._again_here),
            stop=lambda state: self._enough(state, journey),
            wait=self._pause,
            sleep=self._clock.sleep,
            reraise=True,
        )
        answer: T = await retrying(once)
        return answer

    async def _tried(self, one: Try, journey: Journey, ask: Ask[T]) -> T:
        began = self._clock.monotonic()

        def note(kind: LlmErrorKind | None) -> None:
            latency = (self._clock.monotonic() - began) * 1000
            route = one.route
            journey.attempts.append(
                Attempt(
                    provider=route.provider,
                    model=route.model.model,
                    key_fingerprint=route.fingerprint,
                    kind=kind,
                    latency_ms=latency,
                )
            )

        try:
            answer = await ask(one)
        except HeldBackError:
            raise  # nothing was sent, so nothing was tried
        except LlmError as error:
            note(error.kind)
            raise
        except asyncio.CancelledError:
            # the deadline, or the caller has gone; only the first reads it
            note(LlmErrorKind.TIMEOUT)
            raise
        note(None)
        return answer

    def _again_here(self, error: BaseException) -> bool:
        if isinstance(error, HeldBackError) or not worth_retrying(error) or not isinstance(error, LlmError):
            return False
        return error.retry_after_s is None or error.retry_after_s <= self._retrying.cap_s

    def _enough(self, state: RetryCallState, journey: Journey) -> bool:
        wakes = self._clock.monotonic() + state.upcoming_sleep
        return state.attempt_number >= self._retrying.attempts or wakes >= journey.until

    def _pause(self, state: RetryCallState) -> float:
        """Seconds until the next try: what the provider asked for, else anything below a limit that doubles."""
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, LlmError) and error.retry_after_s is not None:
            return error.retry_after_s
        limit = self._retrying.base_s * 2.0 ** (state.attempt_number - 1)
        return self._chance.uniform(0.0, min(self._retrying.cap_s, limit))

    async def _until_one_opens(self, routes: Sequence[Route], journey: Journey) -> None:
        """Wait when the first closed way opens soon; raise when it does not."""
        wait = min(self._providers[route.provider].rests_s(route) for route in routes)
        if wait <= self._retrying.cap_s and self._clock.monotonic() + wait < journey.until:
            await self._clock.sleep(wait)
            return
        why = {self._providers[route.provider].closed_for(route) for route in routes}
        kind = why.pop() if len(why) == 1 else LlmErrorKind.UNAVAILABLE
        said = f"every provider and key that could answer is left alone for now; the first comes back in {wait:.0f} s"
        raise LlmError(kind, said, retry_after_s=wait)


def _may_help(error: LlmError, failed: Route, other: Route) -> bool:
    """Whether `other` may answer what `failed` did not."""
    if error.kind is LlmErrorKind.TRUNCATED:
        return False
    if error.kind is not LlmErrorKind.BAD_REQUEST:
        return True
    if error.reason is BadRequestReason.CONTEXT_LENGTH:
        return other.model.context > failed.model.context
    if error.reason in (BadRequestReason.MODEL_NOT_FOUND, BadRequestReason.UNSUPPORTED):
        return (other.provider, other.name) != (failed.provider, failed.name)
    return False
