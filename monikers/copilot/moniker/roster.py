"""The agents of a session, made of their definitions."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from monikers.copilot.dynamic import DynamicAgent
from runtime.contract import Json

#: definitions of which the agent is kept: making one reads its template
_KEPT = 1_000


def built_agent(definition: Mapping[str, Any]) -> DynamicAgent:
    """An agent of its own for whoever asks; the reading of a definition is shared.

    Raises `AgentConfigurationError` with every mistake.
    """
    return copy.copy(_read(json.dumps(definition, sort_keys=True, ensure_ascii=False)))


@lru_cache(maxsize=_KEPT)
def _read(text: str) -> DynamicAgent:
    return DynamicAgent(json.loads(text))


def definitions_by_id(definitions: Iterable[Json]) -> dict[str, Json]:
    """Definitions by the ids of their agents; a later one takes the place of an earlier one."""
    return {built_agent(one).config.id: dict(one) for one in definitions}
