"""A circuit breaker: who failed often in a row is left alone for a while, then tried once.

closed ── `failures` in a row ──▶ open ── `open_s` passed ──▶ half-open (one call may try)
   ▲                               ▲                              │
   └────────── it succeeds ────────┼──────────────────────────────┤
                                   └────────── it fails ──────────┘
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never


class BreakerState(StrEnum):
    """Whether calls are let through."""

    CLOSED = "closed"  # all are
    OPEN = "open"  # none is
    HALF_OPEN = "half_open"  # one is, to see


class Outcome(StrEnum):
    """What a call says about whom it was made to."""

    GOOD = "good"
    BAD = "bad"
    NEITHER = "neither"  # cancelled, or refused for a reason of the caller's


@dataclass(frozen=True, slots=True)
class Permit:
    """A call was let through while the breaker was in its `era`; later eras do not listen to it."""

    era: int


class Breaker:
    """Counts failures in a row. Time is passed in, as seconds that never go back. For one event loop."""

    def __init__(self, *, failures: int, open_s: float) -> None:
        self._limit = failures
        self._open_s = open_s
        self._failed = 0
        self._opened_at = 0.0
        self._state = BreakerState.CLOSED
        self._trying = False
        self._era = 0

    def state(self, now: float) -> BreakerState:
        """The state at `now`."""
        if self._state is BreakerState.OPEN and now >= self._opened_at + self._open_s:
            self._become(BreakerState.HALF_OPEN)
        return self._state

    def opens_in_s(self, now: float) -> float:
        """Seconds until a call may try again; 0 when it may now."""
        return self._opened_at + self._open_s - now if self.state(now) is BreakerState.OPEN else 0.0

    def enter(self, now: float) -> Permit | None:
        """Leave to make a call, to be given back with `leave` whatever comes; None when there is none."""
        match self.state(now):
            case BreakerState.CLOSED:
                return Permit(self._era)
            case BreakerState.OPEN:
                return None
            case BreakerState.HALF_OPEN:
                if self._trying:
                    return None
                self._trying = True
                return Permit(self._era)
            case unknown:
                assert_never(unknown)

    def leave(self, permit: Permit, outcome: Outcome, now: float) -> None:
        """Say how the call ended. A call of an earlier era tells of times that are over and changes nothing."""
        if permit.era != self._era:
            return
        match outcome:
            case Outcome.GOOD:
                self._failed = 0
                if self._state is BreakerState.HALF_OPEN:
                    self._become(BreakerState.CLOSED)
            case Outcome.BAD:
                self._failed += 1
                if self._state is BreakerState.HALF_OPEN or self._failed >= self._limit:
                    self._opened_at = now
                    self._become(BreakerState.OPEN)
            case Outcome.NEITHER:
                self._trying = False
            case unknown:
                assert_never(unknown)

    def _become(self, state: BreakerState) -> None:
        self._state = state
        self._era += 1
        self._failed = 0
        self._trying = False
