"""Agents: named configurations of a moniker. A changed configuration is a new version; old ones stay readable."""

from __future__ import annotations

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
    newest = await find_agent(db, agent_id)
    if newest is not None and (newest.moniker, newest.config) == (moniker, config):
        return newest
    version = 1 if newest is None else newest.version + 1
    agent = Agent(agent_id, moniker, config, version, db.clock.now())
    await _agents(db).append(agent)
    return agent


async def find_agent(db: TenantStore, agent_id: AgentId) -> Agent | None:
    """The newest version of an agent, if there is one."""
    return await _agents(db).first(filters.equals("agent_id", agent_id), order=[("version", True)])


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
