"""Saved agents: versions are numbered one after the other, and of two that take one number exactly one has it."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from store.copilot_agents import (
    NewVersion,
    SavedAgent,
    copilot_agents_of,
    get_version,
    list_versions,
    newest_versions,
    save_version,
)
from store.database import Store, TenantStore, open_store
from store.errors import ConflictError, NotFoundError
from store.options import StoreOptions
from store.testing import CountingIds, FrozenClock
from store.upkeep import Upkeep, UpkeepRules
from tests.crash.store_processes import Child, start_all

WRITERS = 4
COUNT = 6


def new(based_on: int = 0, agent_id: str = "coach", agent_set: str = "sales", **more: Any) -> NewVersion:
    return NewVersion(agent_set, agent_id, more.pop("definition", {"id": agent_id}), based_on, **more)


async def numbers(db: TenantStore, agent_set: str = "sales", agent_id: str = "coach") -> list[int]:
    return [one.version for one in await list_versions(db, agent_set, agent_id)]


async def test_versions_count_from_one_for_each_agent_of_a_set(db: TenantStore) -> None:
    first = await save_version(db, new(note="shorter", saved_by="ann", definition={"id": "coach", "text": "Hi"}))
    assert (first.version, first.note, first.saved_by, first.saved_at) == (1, "shorter", "ann", db.clock.now())
    assert first.definition == {"id": "coach", "text": "Hi"}
    assert (await save_version(db, new(1))).version == 2
    assert (await save_version(db, new(agent_id="other"))).version == 1
    assert (await save_version(db, new(agent_set="support"))).version == 1
    assert await numbers(db) == [2, 1]
    assert await get_version(db, "sales", "coach", 1) == first
    newest = await newest_versions(db, "sales")
    assert {name: one.version for name, one in newest.items()} == {"coach": 2, "other": 1}
    assert await newest_versions(db, "interview") == {}


@pytest.mark.parametrize("based_on", [0, 2, -1, 99])
async def test_only_the_newest_can_be_changed(db: TenantStore, based_on: int) -> None:
    await save_version(db, new())
    with pytest.raises(ConflictError, match=rf"version 1 of 'coach' in 'sales' is the newest, not {based_on}"):
        await save_version(db, new(based_on))
    assert await numbers(db) == [1]


async def test_a_version_that_is_not_there(db: TenantStore) -> None:
    await save_version(db, new())
    for agent_set, agent_id, version in (("sales", "coach", 2), ("sales", "x", 1), ("x", "coach", 1)):
        with pytest.raises(NotFoundError):
            await get_version(db, agent_set, agent_id, version)


async def test_of_savers_at_the_same_time_exactly_one_gets_the_number(db: TenantStore) -> None:
    """All of them have read that version 0 is the newest, and all of their rows come into one commit."""
    tries = [save_version(db, new(definition={"by": number})) for number in range(WRITERS)]
    found = await asyncio.gather(*tries, return_exceptions=True)
    (won,) = [one for one in found if isinstance(one, SavedAgent)]
    assert sum(isinstance(one, ConflictError) for one in found) == WRITERS - 1
    assert await list_versions(db, "sales", "coach") == [won]
    assert len(await copilot_agents_of(db).find()) > 1, "the race did not happen"


async def test_the_first_commit_counts_whatever_its_id(db: TenantStore) -> None:
    first = await save_version(db, new())
    await copilot_agents_of(db).append(replace(first, id="a-lower-id", definition={"late": True}))
    assert await list_versions(db, "sales", "coach") == [first]
    upkeep = Upkeep(db.store, UpkeepRules(commits=1), _Silent())
    await upkeep.once(force=True)
    assert await list_versions(db, "sales", "coach") == [first], "compacted, it is another one"
    assert (await save_version(db, new(1))).version == 2


class _Silent:
    def debug(self, event: str, **fields: object) -> None:
        """Nothing to keep."""

    def warning(self, event: str, **fields: object) -> None:
        raise AssertionError((event, fields))


async def _opened(folder: Path) -> Store:
    return await open_store(StoreOptions(str(folder)), clock=FrozenClock(), ids=CountingIds("after-"))


@pytest.mark.process
async def test_processes_that_save_at_the_same_time_agree(tmp_path: Path) -> None:
    """Each tries every number once; a number is taken by one, and everybody is told which of them it was."""
    starting = [Child.start("save_agents", tmp_path, name=f"w{at}", count=COUNT) for at in range(WRITERS)]
    children = await start_all(*starting)
    for child in children:
        child.go()
    facts = [fact for child in children for fact in await child.reports()]
    taken = {fact["version"]: fact["by"] for fact in facts if "version" in fact}
    assert Counter(fact["version"] for fact in facts if "version" in fact) == dict.fromkeys(taken, 1)
    assert sorted(taken) == list(range(1, len(taken) + 1))
    assert len(facts) == WRITERS * COUNT
    store = await _opened(tmp_path)
    stored = await list_versions(store.tenant(), "sales", "coach")
    assert {one.version: one.definition["by"] for one in stored} == taken
    await store.close()


@pytest.mark.process
@pytest.mark.parametrize(("point", "stored"), [("before_commit", 1), ("after_commit", 2)])
async def test_killed_at_its_commit_a_version_is_there_or_not(tmp_path: Path, point: str, stored: int) -> None:
    crash_at = f"copilot_agents.{point}:2"
    child = await Child.start("save_agents", tmp_path, name="w", count=COUNT, crash_at=crash_at)
    child.go()
    assert await child.reports_until_killed() == [{"version": 1, "by": "w"}]
    store = await _opened(tmp_path)
    db = store.tenant()
    assert await numbers(db) == list(range(stored, 0, -1))
    if stored == 2:  # it was not told: asked again it hears that somebody was first
        with pytest.raises(ConflictError):
            await save_version(db, new(1))
    assert (await save_version(db, new(stored))).version == stored + 1
    await store.close()
