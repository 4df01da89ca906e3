"""Fences: what keeps a stalled owner's late rows from being seen.

A new owner of a lane appends a fence, a row of the journal with its epoch, before it reads or writes anything else
there. From then on **a row is shown unless a fence of a higher epoch stands before it**: the journal itself says, by
the order of its commits and no clock, which rows came too late.

Crash before the fence: the lane is still claimed, the next owner raises a higher one. After: as if it had run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from store import filters
from store.database import TenantStore
from store.ids import SessionId
from store.lanes import LaneId
from store.leases import LeaseStatus, leases_of
from store.scope import ScopedTable, Versioned

FENCE_ITERATION = -1


class Owned(Protocol):
    """A row that an owner of a lane has written."""

    @property
    def lane(self) -> str: ...

    @property
    def epoch(self) -> int: ...


class JournalRow(Owned, Protocol):
    """A row of the journal: a step or a fence."""

    @property
    def iteration(self) -> int: ...


RowT = TypeVar("RowT", bound=Owned)
JournalRowT = TypeVar("JournalRowT", bound=JournalRow)


def fence_session(lane: LaneId) -> SessionId:
    """The session id under which a lane's fences are stored; no session has it."""
    return SessionId(f"fence:{lane}")


@dataclass(frozen=True, slots=True)
class Fence:
    """From journal version `version` on, rows of an epoch below `epoch` came too late."""

    epoch: int
    version: int


class Fences:
    """The fences of a tenant's journal, kept up to date at almost no cost.

    No fence is raised without a claim before it and an activation after it, both of which change the table of leases.
    So as long as that table has the version that was seen last, and nobody was claiming then, no fence can be missing.
    """

    def __init__(self, db: TenantStore, journal: ScopedTable[JournalRowT]) -> None:
        self._leases = leases_of(db)
        self._journal = journal
        self._by_lane: defaultdict[str, list[Fence]] = defaultdict(list)
        self._seen_leases = -1
        self._seen_journal = 0
        self._settled = False

    async def refresh(self) -> None:
        """Know every fence that any row read so far can stand behind. Call it after reading the rows."""
        version = await self._leases.version()
        if self._settled and version == self._seen_leases:
            return
        claiming = await self._leases.find(filters.equals("status", LeaseStatus.CLAIMING))
        newest = await self._journal.version()
        rows = await self._journal.created_since(
            self._seen_journal,
            filters.equals("iteration", FENCE_ITERATION),
            columns=["id", "session_id", "iteration", "lane", "epoch"],
        )
        for row in rows:
            self._by_lane[row.item.lane].append(Fence(row.item.epoch, row.version))
        self._seen_journal = max([newest, *(row.version for row in rows)])
        self._seen_leases, self._settled = version, not claiming

    def hides(self, row: Owned, version: int) -> bool:
        """Whether a row that was created in journal version `version` came too late. `refresh` first."""
        fences = self._by_lane.get(row.lane)
        return fences is not None and any(fence.epoch > row.epoch and fence.version < version for fence in fences)

    def outdates(self, row: Owned) -> bool:
        """Whether the owner that wrote a row of another table was replaced since. `refresh` first."""
        return any(fence.epoch > row.epoch for fence in self._by_lane.get(row.lane, ()))

    async def shown(self, rows: Sequence[Versioned[JournalRowT]]) -> list[Versioned[JournalRowT]]:
        """The steps among `rows` that did not come too late."""
        await self.refresh()
        return [row for row in rows if row.item.iteration != FENCE_ITERATION and not self.hides(row.item, row.version)]
