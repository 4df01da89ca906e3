"""What every service and every moniker is given: time, files, a log, and the words that they share."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict

Json = dict[str, Any]


class FrozenModel(BaseModel):
    """A pydantic model that cannot be changed and refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Clock(Protocol):
    """The one source of time; tests set it."""

    def now(self) -> datetime:
        """The current time in UTC with microseconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean something."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`; a cancelled step leaves at once."""
        ...


class Files(Protocol):
    """Read-only access to the folders that the operator allowed (`STEPWELL_FILES`)."""

    async def read_text(self, path: str) -> str:
        """The UTF-8 text of one file.

        Raises `MonikerInputError` when the path leaves the allowed folders, is missing, too large or not text.
        """
        ...


class Log(Protocol):
    """A structured logger that already carries the session's ids."""

    def info(self, event: str, **fields: Any) -> Any: ...

    def warning(self, event: str, **fields: Any) -> Any: ...


class MonikerError(Exception):
    """A moniker could not do its step."""


class MonikerInputError(MonikerError):
    """The session's config or input cannot be worked with; trying again will not help."""
