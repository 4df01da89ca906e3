"""What a host can hear of the engine's work (spec 2 §11.1). Override what you need; the rest costs nothing.

What is told of one turn comes to a handler in order, one call at a time, while the turn goes on; a handler that raises
is logged, one that hangs is left behind at the end of the turn. Neither changes the turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from monikers.copilot.models import AgentContext, AgentInsight, AgentResponse

if TYPE_CHECKING:
    from monikers.copilot.turnrecord import TurnRecord


class AgentCallbackHandler:
    """Hears of turns, phases and agents. Durations are in seconds."""

    async def on_turn_start(self, context: AgentContext) -> None:
        """A turn begins."""

    async def on_phase_start(self, phase: int, agents: Sequence[str]) -> None:
        """A phase begins, with these agents (their names)."""

    async def on_agent_start(self, agent_name: str, context: AgentContext) -> None:
        """An agent is asked; `context` is the one it was given."""

    async def on_agent_finish(self, agent_name: str, response: AgentResponse | None, duration: float) -> None:
        """An agent has answered; a failed one with its ERROR insight."""

    async def on_agent_skipped(self, agent_name: str, reason: str) -> None:
        """An agent is not asked; see `routing.Skip` for the reasons."""

    async def on_agent_error(self, agent_name: str, error: Exception) -> None:
        """An agent failed; `on_agent_finish` follows."""

    async def on_insight(self, insight: AgentInsight, context: AgentContext) -> None:
        """An insight is there: told as soon as its agent has finished, before the phase is over."""

    async def on_phase_end(self, phase: int, events_emitted: Sequence[str]) -> None:
        """A phase is merged; the names of its events, each once."""

    async def on_turn_end(self, response: AgentResponse, duration: float) -> None:
        """A turn is over."""

    async def on_turn_record(self, record: TurnRecord) -> None:
        """All that happened in a turn, after its end; what tracers live on."""

    async def on_chain_error(self, error: Exception) -> None:
        """A turn failed as a whole; `process_turn` raises the error."""
