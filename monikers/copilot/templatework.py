"""How much a template may do: a budget of steps and of text that each rendering has for itself.

Everything in a template that can be repeated or can grow pays here before it happens: each turn of a loop and each call
of a macro for the size of its body, each filter for what it looks at, each list for all that it holds, counted as often
as it is named. So time, memory and output are bounded by the budget, whatever the template says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from jinja2.exceptions import SecurityError

from monikers.copilot.readonly import Items

MAX_STEPS = 40_000
MAX_CHARS = 400_000
#: characters that are looked at for the price of one step
CHARS_A_STEP = 256
MAX_DEPTH = 64


class TooMuchWorkError(SecurityError):
    """A template would do more than one rendering may."""


class Work:
    """What is left of one rendering's budget."""

    __slots__ = ("_chars", "_steps")

    def __init__(self, steps: int = MAX_STEPS, chars: int = MAX_CHARS) -> None:
        self._steps = steps
        self._chars = chars

    def spend(self, steps: int) -> None:
        """Pay for work. Raises `TooMuchWorkError`."""
        self._steps -= steps
        if self._steps < 0:
            raise TooMuchWorkError(f"the template does more than {MAX_STEPS} steps of work: let it loop over less")

    def write(self, chars: int) -> None:
        """Pay for text that is made. Raises `TooMuchWorkError`."""
        self._chars -= chars
        if self._chars < 0:
            raise TooMuchWorkError(f"the template makes more than {MAX_CHARS} characters of text: let it show less")

    def weigh(self, value: Any) -> None:
        """Pay for all that a value holds, however often it holds the same thing: it will be looked at to its depths."""
        self._weigh(value, 0, whole=True)

    def hold(self, value: Any) -> None:
        """Pay for what a template put together; what it took from the board, and has not looked at, is one thing."""
        self._weigh(value, 0, whole=False)

    def _weigh(self, value: Any, depth: int, *, whole: bool) -> None:
        if isinstance(value, str):
            self.spend(1 + len(value) // CHARS_A_STEP)
            return
        self.spend(1)
        if depth > MAX_DEPTH:
            raise TooMuchWorkError(f"the template nests lists more than {MAX_DEPTH} deep: keep them flat")
        if isinstance(value, dict) or (whole and isinstance(value, Mapping)):
            for key in value:
                self._weigh(key, depth + 1, whole=whole)
                self._weigh(value[key], depth + 1, whole=whole)
        elif isinstance(value, list | tuple) or (whole and isinstance(value, Items)):
            for item in value:
                self._weigh(item, depth + 1, whole=whole)
        elif isinstance(value, range):
            self.spend(len(value))


_WORK: ContextVar[Work] = ContextVar("work of a template")


@contextmanager
def working(work: Work) -> Iterator[None]:
    """Have what is rendered inside pay from `work`."""
    before = _WORK.set(work)
    try:
        yield
    finally:
        _WORK.reset(before)


def work() -> Work:
    """The budget of the rendering that runs. Raises `LookupError` outside of one, so nothing runs at compile time."""
    return _WORK.get()
