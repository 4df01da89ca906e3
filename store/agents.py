"""Agents: named configurations of a moniker. A changed configuration is a new version; old ones stay readable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from store import filters
from store.codec import RowCodec
from store.database import TenantStore
from store.errors import NotFoundError
from store.ids import AgentId
from store.schema import AGENTS
from store.scope import ScopedTable

_MAX_NAMED = 500


@dataclass(frozen=True, slots=True)
class Agent:
    """One version of an agent."""

    agent_id: AgentId
    moniker: str
    config: Any
    version: int
    created_at: datetime


CODEC: RowCodec[Agent] = RowCodec(Agent, AGENTS, json=frozenset({"config"}))


def _agents(db: TenantStore) -> ScopedTable[Agent]:
    return db.table(CODEC)


async def save_agent(db: TenantStore, agent_id: AgentId, moniker: str, config: Any) -> Agent:
    """The agent with this configuration: the newest version if it is the same, else a new one."""
    return await save_agent_after(db, await find_agent(db, agent_id), agent_id, moniker, config)


async def save_agent_after(
    db: TenantStore, newest: Agent | None, agent_id: AgentId, moniker: str, config: Any
) -> Agent:
    """`save_agent` for a caller that knows the newest version."""
    if newest is not None and (newest.moniker, newest.config) == (moniker, config):
        return newest
    version = 1 if newest is None else newest.version + 1
    agent = Agent(agent_id, moniker, config, version, db.clock.now())
    await _agents(db).append(agent)
    return agent


async def find_agent(db: TenantStore, agent_id: AgentId) -> Agent | None:
    """The newest version of an agent, if there is one."""
    return await _agents(db).first(filters.equals("agent_id", agent_id), order=[("version", True)])


async def find_agents(db: TenantStore, agent_ids: Sequence[AgentId]) -> dict[AgentId, Agent]:
    """The newest versions of several agents in few reads; ids that are not there are left out."""
    newest: dict[AgentId, Agent] = {}
    for start in range(0, len(agent_ids), _MAX_NAMED):
        named = filters.one_of("agent_id", agent_ids[start : start + _MAX_NAMED])
        for agent in await _agents(db).find(named):
            if agent.agent_id not in newest or newest[agent.agent_id].version < agent.version:
                newest[agent.agent_id] = agent
    return newest


async def get_agent(db: TenantStore, agent_id: AgentId) -> Agent:
    """The newest version of an agent; raises `NotFoundError`."""
    found = await find_agent(db, agent_id)
    if found is None:
        raise NotFoundError("agent", agent_id)
    return found


async def list_agents(db: TenantStore) -> list[Agent]:
    """The newest version of every agent, by name."""
    newest: dict[AgentId, Agent] = {}
    for agent in await _agents(db).find(order=[("agent_id", False), ("version", False)]):
        newest[agent.agent_id] = agent
    return list(newest.values())
