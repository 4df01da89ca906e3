"""Versions of an agent side by side, each with a share of the sessions.

A session always gets the same version, whatever the process or the order of its turns: it follows from the two ids.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from monikers.copilot.agent import BaseAgent
from monikers.copilot.errors import AgentConfigurationError
from monikers.copilot.models import AgentContext, AgentResponse

_STEPS = 2**64


@dataclass(frozen=True, slots=True)
class Version:
    """One version; shares are relative to each other (1 and 3: a quarter and three quarters)."""

    name: str
    agent: BaseAgent
    share: float = 1.0


class VersionedAgent(BaseAgent):
    """An agent in several versions, registered as one. Triggers, conditions and cooldown are those of the version that
    a session gets; all versions carry the same id, so memory and statistics stay together."""

    def __init__(self, versions: Sequence[Version]) -> None:
        _check(versions)
        super().__init__(versions[0].agent.config)
        self.versions = tuple(versions)

    def version_for(self, session_id: str) -> Version:
        """The version that a session gets."""
        digest = hashlib.sha256(f"{self.config.id}\x1f{session_id}".encode()).digest()
        point = int.from_bytes(digest[:8]) / _STEPS * sum(version.share for version in self.versions)
        reached = 0.0
        for version in self.versions:
            reached += version.share
            if point < reached:
                return version
        return next(version for version in reversed(self.versions) if version.share > 0)

    def serving(self, session_id: str) -> BaseAgent:
        """The agent of the version that the session gets."""
        return self.version_for(session_id).agent

    def description(self) -> dict[str, Any]:
        """All versions with their shares."""
        return {version.name: {"share": version.share, **version.agent.description()} for version in self.versions}

    async def evaluate(self, context: AgentContext) -> AgentResponse | None:
        """What the session's version has to say; an engine asks that version itself."""
        return await self.version_for(context.session_id).agent.evaluate(context)


def _check(versions: Sequence[Version]) -> None:
    ids = list(dict.fromkeys(version.agent.config.id for version in versions))
    if len(ids) != 1:
        raise AgentConfigurationError(f"versions of one agent must share one id, not {ids}")
    if len({version.name for version in versions}) != len(versions):
        raise AgentConfigurationError(f"two versions of {ids[0]!r} have one name: give each its own")
    if any(version.share < 0 for version in versions) or sum(version.share for version in versions) <= 0:
        raise AgentConfigurationError(f"the shares of {ids[0]!r} must be 0 or more, and not all 0")
