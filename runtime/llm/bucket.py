"""A token bucket: so much a minute, a sixth of it at once."""

from __future__ import annotations

BURST_S = 10.0
MINUTE_S = 60.0


class TokenBucket:
    """Hands out `per_minute` in a minute. Time is passed in, as seconds that never go back.

    In any time of T seconds at most `burst + per_minute * T / 60` is handed out, but for the last request, which may
    be larger than the burst: the bucket is in debt then and later ones wait. Requests are served in their order.
    """

    def __init__(self, per_minute: float, now: float) -> None:
        self._rate = per_minute / MINUTE_S
        self.burst = max(1.0, self._rate * BURST_S)
        self._level = self.burst
        self._at = now

    def wait_s(self, amount: float, now: float) -> float:
        """Seconds until `amount` could be taken."""
        self._fill(now)
        return max(0.0, (min(amount, self.burst) - self._level) / self._rate)

    def take(self, amount: float, now: float) -> float:
        """Take `amount`, and give the seconds to wait before it is used."""
        wait = self.wait_s(amount, now)
        self._level -= amount
        return wait

    def give_back(self, amount: float, now: float) -> None:
        """What was taken and not used; a negative amount is what was used and not taken."""
        self._fill(now)
        self._level = min(self.burst, self._level + amount)

    def _fill(self, now: float) -> None:
        self._level = min(self.burst, self._level + max(0.0, now - self._at) * self._rate)
        self._at = max(self._at, now)
