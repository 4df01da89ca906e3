"""When a session has to wake by itself: silences and intervals, by the runtime's clock (spec 2 §7.1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from monikers.copilot.agent import BaseAgent
from monikers.copilot.models import TriggerType
from monikers.copilot.moniker.state import CopilotState

#: of agents that answer to the trigger and do not say when
DEFAULT_SILENCE_S = 10.0
DEFAULT_INTERVAL_S = 60.0
#: each interval turn is a step: not more than one a second for an agent
SHORTEST_INTERVAL_S = 1.0


@dataclass(frozen=True, slots=True)
class Timer:
    """One agent's next moment."""

    agent_id: str
    trigger: TriggerType
    at: datetime


def timers(agents: Iterable[BaseAgent], state: CopilotState, quiet_after_s: float) -> list[Timer]:
    """The next moments, the earliest first. None beyond the end of a conversation: `quiet_after_s` seconds after the
    last segment nothing fires until somebody speaks."""
    if state.spoke_at is None:
        return []
    end = state.spoke_at + timedelta(seconds=quiet_after_s)
    found = [timer for agent in agents for timer in _of(agent, state) if timer.at <= end]
    return sorted(found, key=lambda timer: timer.at)


def _of(agent: BaseAgent, state: CopilotState) -> Iterator[Timer]:
    config, spoke_at = agent.config, state.spoke_at
    if spoke_at is None:
        return
    if TriggerType.SILENCE in config.trigger_types and config.id not in state.heard:
        silence = DEFAULT_SILENCE_S if config.silence_threshold is None else config.silence_threshold
        yield Timer(config.id, TriggerType.SILENCE, spoke_at + timedelta(seconds=silence))
    if TriggerType.INTERVAL in config.trigger_types:
        every = timedelta(seconds=max(config.trigger_interval or DEFAULT_INTERVAL_S, SHORTEST_INTERVAL_S))
        last = state.intervals.get(config.id) or state.began_at or spoke_at
        yield Timer(config.id, TriggerType.INTERVAL, last + every)
