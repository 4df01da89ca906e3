"""Which turns of the engine a step takes: for what was said, for a command, or because a timer is due."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from monikers.copilot.engine import AgentEngine
from monikers.copilot.models import TranscriptSegment, TriggerType
from monikers.copilot.moniker.command import Command
from monikers.copilot.moniker.state import CopilotState
from monikers.copilot.moniker.timers import Timer


@dataclass(frozen=True, slots=True)
class Ask:
    """One turn of the engine. `agent_ids` None asks everybody who is allowed."""

    trigger: TriggerType
    metadata: Mapping[str, Any] = field(default_factory=dict)
    agent_ids: Sequence[str] | None = None


def asks_of_segment(engine: AgentEngine, segment: TranscriptSegment, allowed: Sequence[str] | None) -> list[Ask]:
    """For a segment: those whose word was said first, then, when it will not change any more, everybody."""
    found = engine.check_keyword_triggers(segment.text, allowed)
    words = {agent.config.id: word for agent, word in found if TriggerType.KEYWORD in agent.config.trigger_types}
    asks = []
    if words:
        metadata = {"keyword": next(iter(words.values())), "keywords": words}
        asks.append(Ask(TriggerType.KEYWORD, metadata, tuple(words)))
    if segment.is_final:
        asks.append(Ask(TriggerType.TURN_BASED))
    return asks


def asks_of_command(command: Command, *, is_segment: bool) -> list[Ask]:
    """For a command: the turn that it names; for events without one, a turn of those who subscribed to them."""
    if command.trigger is not None:
        return [Ask(command.trigger, {}, command.agent_ids)]
    return [Ask(TriggerType.EVENT, {}, command.agent_ids)] if command.events and not is_segment else []


def asks_of_timers(due: Iterable[Timer], state: CopilotState, moment: datetime) -> list[Ask]:
    """For timers that are due; `state` keeps that these agents were asked."""
    found = list(due)
    silent = [timer.agent_id for timer in found if timer.trigger is TriggerType.SILENCE]
    regular = [timer.agent_id for timer in found if timer.trigger is TriggerType.INTERVAL]
    asks = []
    if silent and state.spoke_at is not None:
        state.heard = [*state.heard, *silent]
        lasted = round((moment - state.spoke_at).total_seconds(), 3)
        asks.append(Ask(TriggerType.SILENCE, {"silence_duration": lasted}, tuple(silent)))
    if regular:
        state.intervals = {**state.intervals, **dict.fromkeys(regular, moment)}
        asks.append(Ask(TriggerType.INTERVAL, {}, tuple(regular)))
    return asks
