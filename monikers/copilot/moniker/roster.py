"""The agents of a session, made of their definitions."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from monikers.copilot.agent import BaseAgent
from monikers.copilot.agentsets import load_set
from monikers.copilot.variants import agent_of
from monikers.copilot.versions import VersionedAgent
from runtime.contract import Json

#: definitions of which the agent is kept: making one reads its template
_KEPT = 1_000


class Serving(NamedTuple):
    """The agent that a session is served by, and which version of it that is; None where there is only one."""

    agent: BaseAgent
    version: str | None


def built_agent(definition: Mapping[str, Any]) -> BaseAgent:
    """The agent of a definition; the reading is shared, so it is not to be changed.

    Raises `AgentConfigurationError` with every mistake.
    """
    return _read(json.dumps(definition, sort_keys=True, ensure_ascii=False))


def serving(definition: Mapping[str, Any], session_id: str) -> Serving:
    """An agent of its own for a session, in the version that the session gets."""
    built = built_agent(definition)
    version = built.version_for(session_id) if isinstance(built, VersionedAgent) else None
    agent = copy.copy(built if version is None else version.agent)
    return Serving(agent, None if version is None else version.name)


@lru_cache(maxsize=_KEPT)
def _read(text: str) -> BaseAgent:
    return agent_of(json.loads(text))


@lru_cache
def shipped(agent_set: str) -> tuple[Json, ...]:
    """The definitions of a set that ships; its file is read once. They are not to be changed."""
    return load_set(agent_set).configs


def definitions_by_id(definitions: Iterable[Json]) -> dict[str, Json]:
    """Definitions by the ids of their agents; a later one takes the place of an earlier one."""
    return {built_agent(one).config.id: dict(one) for one in definitions}
