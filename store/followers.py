"""Followers: up to which versions of some tables a helper of the worker has done its work.

A place is stored after what it stands for. Crash in between: that is done again, so it has to be repeatable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from store import filters
from store.codec import RowCodec
from store.database import TenantStore
from store.schema import FOLLOWERS
from store.scope import ScopedTable


@dataclass(frozen=True, slots=True)
class Follower:
    """Where a follower stands: a version by name of table. A row of a lower epoch than the stored one is not taken."""

    name: str
    versions: Any
    updated_at: datetime | None
    epoch: int = 0


CODEC: RowCodec[Follower] = RowCodec(Follower, FOLLOWERS, json=frozenset({"versions"}))


def followers_of(db: TenantStore) -> ScopedTable[Follower]:
    """This tenant's followers."""
    return db.table(CODEC)


async def read_place(db: TenantStore, name: str) -> dict[str, int]:
    """Where a follower stands; empty for one that has never stored its place."""
    found = await followers_of(db).first(filters.equals("name", name))
    return {} if found is None or not isinstance(found.versions, dict) else dict(found.versions)


async def save_place(db: TenantStore, name: str, versions: Mapping[str, int], *, epoch: int) -> None:
    """Store where a follower stands. Crash before: it repeats. One of a lower epoch than the stored is not taken."""
    await followers_of(db).upsert(Follower(name, dict(versions), db.clock.now(), epoch))
