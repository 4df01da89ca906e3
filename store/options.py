"""How a store is opened. The entry points fill it from the settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Where the data is and how long a writer keeps trying."""

    #: a folder, or an object-store URL such as s3://bucket/prefix
    url: str = "./data"
    #: seconds that a write is tried again before its caller gets `StoreUnavailableError`
    patience_s: float = 10.0

    @property
    def folder(self) -> Path | None:
        """The local data folder; None on object storage."""
        return None if "://" in self.url else Path(self.url)
