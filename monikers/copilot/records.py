"""What stands on the board as a whole and never changes there: events and facts (spec 2 §5.7, §5.8)."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

from monikers.copilot.frozen import FrozenDict, frozen


class Event(BaseModel):
    """Something that happened, told by an agent or the host; wakes the agents that subscribed to its name.

    `timestamp` counts seconds since the session began; the engine fills it and `source_agent` in where they are left
    out.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    payload: dict[str, Any] = Field(default_factory=dict)
    source_agent: str = ""
    timestamp: float | None = None
    id: str | None = None

    def sealed(self) -> Self:
        """This event with a payload of its own that nobody can change."""
        if type(self.payload) is FrozenDict:
            return self
        return self.model_copy(update={"payload": frozen(self.payload)})


class Fact(BaseModel):
    """Something learned from the conversation. The engine stamps the priority of the agent that found it.

    `timestamp` counts seconds since the session began; the engine fills it and `source_agent` in where they are left
    out.
    """

    model_config = ConfigDict(frozen=True)

    type: str
    key: str | None = None
    value: Any = None
    confidence: float = 1.0
    source_agent: str = ""
    timestamp: float = 0.0
    priority: int = 0

    def sealed(self) -> Self:
        """This fact with a value of its own that nobody can change."""
        sealed = frozen(self.value)
        return self if sealed is self.value else self.model_copy(update={"value": sealed})
