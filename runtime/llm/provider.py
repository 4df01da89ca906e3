"""One provider at run time: its gate, its breaker, its keys' rest, and a client for each model and key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from runtime.llm.breaker import Breaker, BreakerState, Outcome, Permit
from runtime.llm.dialect import dialect_of
from runtime.llm.failures import worth_retrying
from runtime.llm.gate import Gate, HeldBackError
from runtime.llm.modelsfile import ProviderEntry, Retrying
from runtime.llm.openai_chat import OPENAI_URL, OpenAiChat
from runtime.llm.port import LlmError, LlmErrorKind
from runtime.llm.quarantine import Quarantine
from runtime.llm.route import Route
from store.clock import Clock

#: what says that the provider itself is in trouble; a busy one is not, nor is one that answers badly
_TROUBLE = frozenset({LlmErrorKind.TIMEOUT, LlmErrorKind.SERVER, LlmErrorKind.UNAVAILABLE})


@dataclass(slots=True)
class Use:
    """A call in progress; whoever made it says what it used."""

    tokens: int | None = None


async def _no_sleep(seconds: float) -> None:
    raise AssertionError(f"the pool's clients try once, yet one would wait {seconds} s")


@dataclass
class Provider:
    """One endpoint with its limits. For one event loop."""

    name: str
    entry: ProviderEntry
    retrying: Retrying
    clock: Clock
    quarantine: Quarantine
    log: Any
    gate: Gate = field(init=False)
    breaker: Breaker = field(init=False)
    _clients: dict[tuple[str, str | None], OpenAiChat] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.gate = Gate(self.name, self.entry.limits, self.clock)
        self.breaker = Breaker(failures=self.retrying.breaker_failures, open_s=self.retrying.breaker_s)

    def client(self, route: Route) -> OpenAiChat:
        """The client of a model and key, made once. It tries once: trying again is the pool's."""
        place = (route.name, route.fingerprint)
        if place not in self._clients:
            self._clients[place] = OpenAiChat(
                base_url=self.entry.base_url,
                api_key=route.key.secret.get_secret_value() if route.key else None,
                model=route.model.model,
                attempts=1,
                sleep=_no_sleep,
                dialect=dialect_of(route.model.abilities, openai_itself=self.entry.base_url == OPENAI_URL),
                connect_s=self.entry.limits.connect_s,
                read_s=self.entry.limits.timeout_s,
                dimensions=route.model.dimensions,
            )
        return self._clients[place]

    def rests_s(self, route: Route) -> float:
        """Seconds for which this way is closed: its key rests or the provider is left alone; 0 when it is open."""
        now = self.clock.monotonic()
        return max(self.quarantine.left_s(route.key, self.name, now), self.breaker.opens_in_s(now))

    def closed_for(self, route: Route) -> LlmErrorKind:
        """What a closed way would answer now: what closed it."""
        resting = self.quarantine.left_s(route.key, self.name, self.clock.monotonic()) > 0
        why = self.quarantine.why(route.key, self.name) if resting else None
        return why or LlmErrorKind.UNAVAILABLE

    @asynccontextmanager
    async def use(self, route: Route, tokens: int, patience_s: float) -> AsyncIterator[Use]:
        """A call inside; how it ends is remembered.

        Raises `HeldBackError`: RATE_LIMIT when its turn does not come within `patience_s`, UNAVAILABLE when the
        breaker lets nothing through.
        """
        turn = await self.gate.enter(tokens, patience_s)
        use, outcome = Use(), Outcome.NEITHER
        permit = None
        try:
            permit = self.breaker.enter(self.clock.monotonic())
            if permit is None:
                raise self.left_alone()
            yield use
            outcome = Outcome.GOOD
        except LlmError as error:
            if permit is not None:
                outcome = Outcome.BAD if error.kind in _TROUBLE else Outcome.NEITHER
                if error.kind in (LlmErrorKind.BAD_REQUEST, LlmErrorKind.TRUNCATED):
                    outcome = Outcome.GOOD  # it is there and answers
                self._judge(route, error)
            raise
        finally:
            self.gate.leave(turn, use.tokens)
            if permit is not None:
                self._leave(permit, outcome)

    def left_alone(self) -> HeldBackError:
        """The failure of a call that was not made."""
        left = self.breaker.opens_in_s(self.clock.monotonic())
        said = (
            f"the provider {self.name!r} failed often; it is left alone for {left:.0f} s more or tried by another call"
        )
        return HeldBackError(LlmErrorKind.UNAVAILABLE, said, retry_after_s=left)

    async def aclose(self) -> None:
        """Close every connection."""
        await asyncio.gather(*(client.aclose() for client in self._clients.values()))

    def _leave(self, permit: Permit, outcome: Outcome) -> None:
        now = self.clock.monotonic()
        before = self.breaker.state(now)
        self.breaker.leave(permit, outcome, now)
        after = self.breaker.state(now)
        if after is before:
            return
        if after is BreakerState.OPEN:
            self.log.warning(
                "a model provider failed often; it is left alone for a while, then tried with one call",
                action="breaker_opened",
                provider=self.name,
                seconds=self.retrying.breaker_s,
            )
        else:
            self.log.info(
                "a model provider answers again; it is used as before", action="breaker_closed", provider=self.name
            )

    def _judge(self, route: Route, error: LlmError) -> None:
        now = self.clock.monotonic()
        if error.kind is LlmErrorKind.AUTH:
            seconds = self.quarantine.rest(route.key, self.name, self.retrying.quarantine_s, now, error.kind)
            self.log.warning(
                "a key was not accepted; it is not used for a while, other keys and providers are",
                action="key_quarantined",
                provider=self.name,
                key=str(route.key) if route.key else None,
                seconds=seconds,
                reason=error.message,
            )
        elif worth_retrying(error) and error.retry_after_s is not None:
            # others that would use this key need not be told the same
            self.quarantine.rest(route.key, self.name, error.retry_after_s, now, error.kind)
