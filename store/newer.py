"""A running process notices that a newer version of Stepwell has taken the store over, and writes no more."""

from __future__ import annotations

from lancedb.table import AsyncTable

from store.clock import Clock
from store.errors import StoreTooNewError
from store.migrations import refuse_newer

# Asking costs a tenth of a millisecond, so once a second is nothing beside the commits of that second.
_ASK_EVERY_S = 1.0


class NewerGuard:
    """Called before every write; asks at most once a second, and only reads when the table of migrations has changed.

    A migration is recorded when it is complete: rows that were written while it ran have the older shape, which
    migrations have to bear anyway, for they may begin again.
    """

    def __init__(self, log: AsyncTable, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._version: int | None = None
        self._next = 0.0
        self._refused: StoreTooNewError | None = None

    async def __call__(self) -> None:
        """Raises `StoreTooNewError` from the moment that a newer version's migration is seen, for good."""
        if self._refused is not None:
            raise StoreTooNewError(str(self._refused))
        if self._version is not None and self._clock.monotonic() < self._next:
            return
        version = await self._log.version()
        if version != self._version:
            try:
                await refuse_newer(self._log)
            except StoreTooNewError as error:
                self._refused = error
                raise
        self._version = version
        self._next = self._clock.monotonic() + _ASK_EVERY_S
