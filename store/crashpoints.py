"""Named places where a test may stop the process dead: `STEPWELL_CRASH_AT=<point>:<n>` kills it at the n-th visit.

Ships with the product so that tests kill the real program at the commits that matter. Without the setting a visit is
one call of an empty function.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

CrashPoint = Callable[[str], None]


def no_crash(point: str) -> None:
    """Go on."""


def crash_at(setting: str) -> CrashPoint:
    """A guard for a `<point>:<n>` setting; raises ValueError when it is not of that form."""
    point, _, count = setting.rpartition(":")
    if not point or not count.isdecimal() or int(count) < 1:
        raise ValueError(f"STEPWELL_CRASH_AT={setting!r} is not <point>:<n>, for example agent_steps.after_commit:3")
    return _Countdown(point, int(count))


class _Countdown:
    def __init__(self, point: str, visits: int) -> None:
        self._point = point
        self._left = visits

    def __call__(self, point: str) -> None:
        if point != self._point:
            return
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
