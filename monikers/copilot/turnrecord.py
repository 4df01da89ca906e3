"""All that happened in one turn, for tracers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from monikers.copilot.findings import Findings
from monikers.copilot.models import AgentContext, AgentResponse
from monikers.copilot.routing import Skip
from monikers.copilot.views import BlackboardView


@dataclass(slots=True)
class PhaseRecord:
    """What one phase did. Agents are named by id, in the order of registration; runs are in the order of the merge."""

    number: int
    #: names, each once; what woke the agents of phase 2
    trigger_events: Sequence[str]
    eligible: list[str] = field(default_factory=list)
    skipped: list[tuple[str, Skip]] = field(default_factory=list)
    runs: list[tuple[Findings, float]] = field(default_factory=list)
    #: names, each once
    emitted: Sequence[str] = ()
    duration_s: float = 0.0


@dataclass(slots=True)
class TurnRecord:
    """What one turn did. The board is given as views of its beginning and its end."""

    turn_id: str
    began_at: datetime
    #: as the host gave it
    context: AgentContext
    trigger: str
    metadata: dict[str, Any]
    turn_count: int
    initial: BlackboardView
    agent_configs: list[dict[str, Any]]
    phases: list[PhaseRecord] = field(default_factory=list)
    final: BlackboardView | None = None
    response: AgentResponse = field(default_factory=AgentResponse)
    duration_s: float = 0.0
