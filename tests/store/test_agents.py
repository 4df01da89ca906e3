"""Agents: a changed configuration is a new version, the same one is not."""

from __future__ import annotations

from typing import Any

import pytest

from store.agents import find_agent, find_agents, get_agent, list_agents, save_agent
from store.database import TenantStore
from store.errors import NotFoundError
from store.ids import AgentId

A, B = AgentId("a"), AgentId("b")


async def test_a_saved_agent_comes_back(db: TenantStore) -> None:
    saved = await save_agent(db, A, "echo", {"n": [1, None]})

    assert (saved.version, saved.created_at) == (1, db.clock.now())
    assert await get_agent(db, A) == saved


async def test_the_same_configuration_is_the_same_version(db: TenantStore) -> None:
    saved = await save_agent(db, A, "echo", {"n": 1})

    assert await save_agent(db, A, "echo", {"n": 1}) == saved
    assert len(await list_agents(db)) == 1


@pytest.mark.parametrize(("moniker", "config"), [("echo", {"n": 2}), ("joke", {"n": 1}), ("echo", None)])
async def test_a_changed_agent_is_a_new_version_and_the_newest_counts(
    db: TenantStore, moniker: str, config: Any
) -> None:
    await save_agent(db, A, "echo", {"n": 1})

    changed = await save_agent(db, A, moniker, config)

    assert changed.version == 2
    assert await get_agent(db, A) == changed
    assert await list_agents(db) == [changed]


async def test_going_back_is_a_new_version_too(db: TenantStore) -> None:
    saved = [await save_agent(db, A, "echo", {"n": number}) for number in (1, 2, 1)]

    assert [agent.version for agent in saved] == [1, 2, 3]
    assert (await get_agent(db, A)).config == {"n": 1}


async def test_agents_are_listed_by_name(db: TenantStore) -> None:
    for agent_id in (B, A, B):
        await save_agent(db, agent_id, "echo", {"n": await count(db)})

    assert [(agent.agent_id, agent.version) for agent in await list_agents(db)] == [(A, 1), (B, 2)]


async def count(db: TenantStore) -> int:
    return sum(agent.version for agent in await list_agents(db))


async def test_an_unknown_agent_is_not_found(db: TenantStore) -> None:
    assert await find_agent(db, A) is None
    assert await list_agents(db) == []
    with pytest.raises(NotFoundError, match="no agent with id 'a'"):
        await get_agent(db, A)


async def test_several_agents_are_read_at_once_each_in_its_newest_version(db: TenantStore) -> None:
    many = [AgentId(f"a{at}") for at in range(3)]
    for number in (1, 2):
        for agent_id in many:
            await save_agent(db, agent_id, "echo", {"n": number})

    found = await find_agents(db, [*many, AgentId("unknown")])

    assert {agent_id: agent.version for agent_id, agent in found.items()} == dict.fromkeys(many, 2)
    assert await find_agents(db, []) == {}
