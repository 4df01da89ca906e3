"""How often an agent may run within a session, cooldown or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most `runs` starts in any `per_s` seconds, counted for each session."""

    runs: int
    per_s: float = 60.0

    def __post_init__(self) -> None:
        if self.runs < 1 or self.per_s <= 0:
            raise ValueError(f"a rate limit of {self.runs} runs in {self.per_s} s lets nobody run: give both above 0")

    def allows(self, starts: Sequence[float], now: float) -> bool:
        """Whether one more start now stays within the limit."""
        return len(self.counted(starts, now)) < self.runs

    def counted(self, starts: Sequence[float], now: float) -> list[float]:
        """The starts that still count."""
        return [start for start in starts if now - start < self.per_s]

    def remembered(self, starts: Sequence[float], now: float) -> list[float]:
        """The starts that still count, with one now."""
        return [*self.counted(starts, now), now]
