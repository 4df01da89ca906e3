"""How a store is opened. The entry points fill it from the settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from store.errors import StoreUnsafeError

#: where commits are conditional PUTs; stores that need a second service for them are not supported
OBJECT_STORES = ("s3", "gs", "az")

# What the engine does by itself for one request to an object store: jittered, growing waits on 5xx, cut connections
# and time-outs. A request that hangs longer than this is given up and tried again by the caller's own patience.
_REQUESTS = {"timeout": "10s", "connect_timeout": "3s", "client_max_retries": "8"}
_LONGEST_RETRY_S = 10.0


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Where the data is and how long a writer keeps trying."""

    #: a folder, or an object-store URL such as s3://bucket/prefix
    url: str = "./data"
    #: seconds that a write is tried again before its caller gets `StoreUnavailableError`
    patience_s: float = 10.0
    #: whether a commit is acknowledged only when it would survive a power cut (local folders)
    fsync: bool = False
    #: on object storage: the longest time in seconds between two looks for commits of other processes
    ask_s: float = 0.5

    @property
    def folder(self) -> Path | None:
        """The local data folder; None on object storage."""
        return None if "://" in self.url else Path(self.url)

    @property
    def read_patience_s(self) -> float:
        """Seconds that a read is tried again. A folder answers or it does not; object storage has bad moments."""
        return 0.0 if self.folder else self.patience_s

    @property
    def storage_options(self) -> dict[str, str] | None:
        """What the engine is told about requests; keys and addresses it takes from the environment (AWS_*)."""
        if self.folder:
            return None
        return {**_REQUESTS, "client_retry_timeout": f"{max(1, round(min(self.patience_s / 3, _LONGEST_RETRY_S)))}"}

    def check(self) -> None:
        """Raises `StoreUnsafeError` for a kind of address that nothing here was made for."""
        scheme = self.url.partition("://")[0]
        if self.folder is None and scheme not in OBJECT_STORES:
            raise StoreUnsafeError(
                f"STEPWELL_DATA={self.url!r}: {scheme}:// is not supported; use a folder, or one of "
                + ", ".join(f"{name}://" for name in OBJECT_STORES)
            )
