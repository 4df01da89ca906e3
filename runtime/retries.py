"""Trying again: how often, after how long, and how many a second.

The delays are AWS's "full jitter": anything between 0 and an exponentially growing limit, so that what failed together
does not come back together. A storm is spread further: at most so many retries a second in one worker.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from store.clock import Chance

#: beyond this the exponent changes nothing but costs digits
_MAX_DOUBLINGS = 62
_MAX_SLOTS = 50_000


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often something is tried, and how long to wait in between."""

    chance: Chance
    #: all tries, the first one too
    max_attempts: int = 5
    #: seconds: the limit of the first delay
    base_s: float = 0.5
    #: seconds: no delay is longer
    cap_s: float = 60.0

    def next_delay(self, attempts: int) -> float | None:
        """Seconds until the next try after `attempts` failed ones (at least 1); None when they are used up."""
        if attempts >= self.max_attempts:
            return None
        doublings = min(max(0, attempts - 1), _MAX_DOUBLINGS)
        return self.chance.uniform(0.0, min(self.cap_s, self.base_s * 2**doublings))


class RetryPace:
    """Gives each retry a moment, so that between two of them is at least `1 / per_s` seconds.

    Time is cut into slots of that length, one retry a slot; a slot that is taken leads to the next free one.
    """

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._next_free: dict[int, int] = {}

    def place(self, wanted: datetime, now: datetime) -> datetime:
        """The first free moment at `wanted` or later; it is taken then."""
        self._forget_before(int(now.timestamp() * self._per_s))
        wanted_slot = int(wanted.timestamp() * self._per_s)
        slot = self._free_from(wanted_slot)
        self._next_free[slot] = slot + 1
        if slot == wanted_slot:
            return wanted
        return max(wanted, datetime.fromtimestamp(slot / self._per_s, UTC))

    def _free_from(self, slot: int) -> int:
        passed = []
        while slot in self._next_free:
            passed.append(slot)
            slot = self._next_free[slot]
        for before in passed:  # the next search takes one step where this one took many
            self._next_free[before] = slot
        return slot

    def _forget_before(self, slot: int) -> None:
        if len(self._next_free) > _MAX_SLOTS:
            self._next_free = {taken: after for taken, after in self._next_free.items() if taken >= slot}


@dataclass(frozen=True, slots=True)
class Retries:
    """A worker's policy and pace together: when an action that broke is tried again."""

    policy: RetryPolicy
    pace: RetryPace

    def next_try(self, attempts: int, now: datetime) -> datetime | None:
        """The moment of the next try after `attempts` failed ones; None when they are used up."""
        delay = self.policy.next_delay(attempts)
        return None if delay is None else self.pace.place(now + timedelta(seconds=delay), now)
