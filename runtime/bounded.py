"""Bounds on what a moniker's own functions may take: time, and the size of what they answer.

A function that ignores being cancelled cannot be stopped in this process; nobody waits for it any longer, and what it
answers too late is thrown away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from runtime.ports import MonikerError
from store.jsontext import json_dumps

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RecordLimits:
    """What one `ctx.record` may take."""

    #: seconds until the call is given up
    seconds: float = 600.0
    #: largest result, in bytes of JSON
    result_bytes: int = 10_000_000

    async def call(self, key: str, fn: Callable[[], Awaitable[T]]) -> T:
        """The answer of `fn()`. Raises `MonikerError` when it takes too long.

        Cancelled or out of time, the function is cancelled and not waited for.
        """
        running: asyncio.Future[T] = asyncio.ensure_future(_begun(fn))
        try:
            await asyncio.wait([running], timeout=self.seconds)
        finally:
            if not running.done():
                running.add_done_callback(_throw_away)
                running.cancel()
        if not running.done():
            raise MonikerError(
                f"record {key!r} did not end within {self.seconds:g} s and was given up; "
                "make it faster, or raise STEPWELL_RECORD_S"
            )
        return running.result()

    def check(self, key: str, result: Any) -> None:
        """Raises `MonikerError` for a result that is too large to be stored."""
        size = len(result) if isinstance(result, str) else 0
        if size <= self.result_bytes:
            size = len(json_dumps(result).encode("utf-8", "replace"))
        if size > self.result_bytes:
            raise MonikerError(
                f"record {key!r} answered {size:,} bytes; at most {self.result_bytes:,} are stored "
                "(STEPWELL_RECORD_BYTES): answer less, or write a file and answer its name"
            )


async def _begun(fn: Callable[[], Awaitable[T]]) -> T:
    return await fn()


def _throw_away(late: asyncio.Future[Any]) -> None:
    """Look at what came too late, so that nobody is told that it was never looked at."""
    if not late.cancelled():
        late.exception()
