"""A clock that can be set wrong from outside: a signal moves it by an hour, another one back."""

from __future__ import annotations

import signal
from datetime import datetime, timedelta
from types import FrameType

from store.clock import SystemClock

HOUR = timedelta(hours=1)
FORWARD = signal.SIGUSR1
BACKWARD = signal.SIGUSR2


class JumpingClock(SystemClock):
    """The machine's clocks; the wall clock is off by whole hours, one for each signal that came."""

    def __init__(self) -> None:
        self._offset = timedelta()

    def now(self) -> datetime:
        return super().now() + self._offset

    def follow_signals(self) -> None:
        """Jump at each signal. Call it in the main thread."""
        signal.signal(FORWARD, self._jump)
        signal.signal(BACKWARD, self._jump)

    def _jump(self, number: int, _: FrameType | None) -> None:
        self._offset += HOUR if number == FORWARD else -HOUR
