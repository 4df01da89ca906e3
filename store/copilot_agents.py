"""Saved agents of the copilot: every version of a definition that somebody wrote, by set and agent.

Rows are only added. A version is its number: `based_on + 1`, and of rows that carry one number the first commit
counts. So two writers, in however many processes, need no lock to agree: each stores its row, then reads who was
first. The other's row is never shown. Version 0 is what ships and is no row here.

Crash before the commit: nothing. After it: saved, though nobody was told; whoever saves again hears of it as a
conflict. There is no state in between, and a version that was shown once is never another one later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from store import filters
from store.codec import RowCodec
from store.database import TenantStore
from store.errors import ConflictError, NotFoundError
from store.schema import COPILOT_AGENTS
from store.scope import ScopedTable, Versioned

#: the version that ships with the product
SHIPPED = 0


@dataclass(frozen=True, slots=True)
class SavedAgent:
    """One version of an agent of a set."""

    id: str
    agent_set: str
    agent_id: str
    #: 1 for the first that was saved
    version: int
    #: JSON as its author wrote it; somebody's words wherever they are shown
    definition: Any
    note: str | None
    saved_by: str | None
    saved_at: datetime


@dataclass(frozen=True, slots=True)
class NewVersion:
    """What somebody saves. `based_on` is the version that he changed: 0 for one that ships, or that is new."""

    agent_set: str
    agent_id: str
    definition: Mapping[str, Any]
    based_on: int
    note: str | None = None
    saved_by: str | None = None


CODEC: RowCodec[SavedAgent] = RowCodec(SavedAgent, COPILOT_AGENTS, json=frozenset({"definition"}))


def copilot_agents_of(db: TenantStore) -> ScopedTable[SavedAgent]:
    """This tenant's saved agents, rows that lost their number among them."""
    return db.table(CODEC)


async def save_version(db: TenantStore, new: NewVersion) -> SavedAgent:
    """Store a new version; it is the newest when this returns.

    Raises `ConflictError` when `based_on` is not the newest version, also when somebody else took the number in the
    same instant.
    """
    versions = await list_versions(db, new.agent_set, new.agent_id)
    newest = versions[0].version if versions else SHIPPED
    if newest != new.based_on:
        raise _not_the_newest(new, newest)
    row = SavedAgent(
        id=db.ids.new(),
        agent_set=new.agent_set,
        agent_id=new.agent_id,
        version=new.based_on + 1,
        definition=dict(new.definition),
        note=new.note,
        saved_by=new.saved_by,
        saved_at=db.clock.now(),
    )
    await copilot_agents_of(db).append(row)
    winner = await get_version(db, new.agent_set, new.agent_id, row.version)
    if winner.id != row.id:
        raise _not_the_newest(new, row.version)
    return winner


async def list_versions(db: TenantStore, agent_set: str, agent_id: str) -> list[SavedAgent]:
    """Every saved version of an agent, newest first."""
    rows = await _rows(db, agent_set, agent_id)
    return sorted(_winners(rows), key=lambda one: one.version, reverse=True)


async def get_version(db: TenantStore, agent_set: str, agent_id: str, version: int) -> SavedAgent:
    """One saved version; raises `NotFoundError`."""
    for one in await list_versions(db, agent_set, agent_id):
        if one.version == version:
            return one
    raise NotFoundError("version", f"{agent_set}/{agent_id}/{version}")


async def newest_versions(db: TenantStore, agent_set: str) -> dict[str, SavedAgent]:
    """The newest saved version of each agent of a set, by agent in the order of their first versions."""
    newest: dict[str, SavedAgent] = {}
    for one in _winners(await _rows(db, agent_set)):
        if one.agent_id not in newest or newest[one.agent_id].version < one.version:
            newest[one.agent_id] = one
    return newest


async def _rows(db: TenantStore, agent_set: str, agent_id: str | None = None) -> list[Versioned[SavedAgent]]:
    of_agent = None if agent_id is None else filters.equals("agent_id", agent_id)
    return await copilot_agents_of(db).created_since(0, filters.equals("agent_set", agent_set), of_agent)


def _winners(rows: Iterable[Versioned[SavedAgent]]) -> list[SavedAgent]:
    """Of rows with one number the first; of those in one commit the one of the lowest id: everybody sees the same."""
    first: dict[tuple[str, int], Versioned[SavedAgent]] = {}
    for row in rows:
        number = (row.item.agent_id, row.item.version)
        if number not in first or (row.version, row.item.id) < (first[number].version, first[number].item.id):
            first[number] = row
    return [row.item for row in first.values()]


def _not_the_newest(new: NewVersion, newest: int) -> ConflictError:
    return ConflictError(
        f"version {newest} of {new.agent_id!r} in {new.agent_set!r} is the newest, not {new.based_on}: somebody saved "
        "meanwhile; read it, then save with it as based_on"
    )
