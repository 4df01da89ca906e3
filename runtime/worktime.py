"""How long a session has worked: what its `max_runtime_s` is about.

The seconds up to its last step are stored with that step; those since then are counted here, and are lost in a crash.
"""

from __future__ import annotations

from runtime.contract import Clock
from runtime.session import LiveSession


class WorkTime:
    """Counts one session's seconds of work from its last stored step, or from when it came into memory."""

    def __init__(self, session: LiveSession, clock: Clock) -> None:
        self._session = session
        self._clock = clock
        self._since = clock.monotonic()
        self._idle_since: float | None = None
        #: the loop's timer rang; it may be a little ahead of the clock that counts here
        self._rang = False

    @property
    def is_idle(self) -> bool:
        """Whether the session waits for a slot; that is no work."""
        return self._idle_since is not None

    def stand_still(self) -> None:
        """Count nothing from now on."""
        if self._idle_since is None:
            self._idle_since = self._clock.monotonic()

    def go_on(self) -> None:
        """Count again."""
        if self._idle_since is not None:
            self._since += self._clock.monotonic() - self._idle_since
            self._idle_since = None

    def begin_again(self) -> None:
        """A step is stored, and with it what was counted so far."""
        self._since = self._clock.monotonic()

    def ring(self) -> None:
        """The time that was left is over, whatever the clock says."""
        self._rang = True

    def seconds(self) -> float:
        """Seconds of work so far."""
        now = self._clock.monotonic() if self._idle_since is None else self._idle_since
        return float(self._session.usage.get("runtime_s", 0.0)) + now - self._since

    def left(self) -> float | None:
        """Seconds that are left of `max_runtime_s`, at least 0; None without that limit."""
        limit = self._session.spec.max_runtime_s
        if limit is None:
            return None
        return 0.0 if self._rang else max(0.0, limit - self.seconds())
