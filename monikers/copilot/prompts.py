"""The prompt of a dynamic agent: its own words, then sections of what it is shown (spec 2 §9.2, overview §6, E.3).

What the agent's author and the host wrote stands as words. What people, documents and models said stands in data blocks
(monikers/copilot/marking.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from monikers.copilot.marking import EXPLANATION, host_text, marked
from monikers.copilot.models import AgentContext, TriggerType, shared_state_of
from monikers.copilot.readonly import board_of, context_of, readonly
from monikers.copilot.templates import render
from monikers.copilot.transcript import last_turns

Messages = list[dict[str, str]]

_TRIGGERS: Mapping[TriggerType, str] = {
    TriggerType.TURN_BASED: "Somebody has finished speaking.",
    TriggerType.KEYWORD: "A word that you listen for was said.",
    TriggerType.SILENCE: "Nobody has spoken for some time.",
    TriggerType.INTERVAL: "Some time has passed.",
    TriggerType.EVENT: "Something happened that you asked to be told of.",
    TriggerType.FORCE: "A person has asked for you.",
}


@dataclass(frozen=True, slots=True)
class PromptSource:
    """What an agent brings to its prompt."""

    agent_id: str
    agent_name: str
    text: str
    instruction: str
    turns: int
    include_context: bool
    subscribed_events: tuple[str, ...]


def messages_of(source: PromptSource, context: AgentContext, memory: Mapping[str, Any]) -> Messages:
    """The two messages of an evaluation: the prompt and the transcript.

    Raises `PromptTemplateError` when the agent's text cannot be rendered. Changes nothing and copies nothing of the
    board.
    """
    return [
        {"role": "system", "content": "\n\n".join(part for part in _sections(source, context, memory) if part)},
        {"role": "user", "content": f"### TRANSCRIPT:\n{marked({'transcript': _lines(source, context)})}"},
    ]


def _sections(source: PromptSource, context: AgentContext, memory: Mapping[str, Any]) -> list[str]:
    override = context.agent_config_overrides.get(source.agent_id)
    docs = list(context.rag_docs) if source.include_context else []
    return [
        host_text(context.user_context) if source.include_context and context.user_context else "",
        host_text(context.language_directive) if context.language_directive else "",
        _rendered(source, context, memory),
        host_text(override.instructions_append) if override and override.instructions_append else "",
        _section("YOUR MEMORY / SCRATCHPAD", {"memory": memory}) if memory else "",
        _section("RELEVANT KNOWLEDGE/DOCS", {"documents": docs}) if docs else "",
        _section("TRIGGER", _trigger(source, context)),
        f"[HOW TO READ DATA]\n{EXPLANATION}",
        f"[OUTPUT FORMAT]\n{source.instruction.strip()}" if source.instruction.strip() else "",
    ]


def _section(header: str, data: Mapping[str, Any]) -> str:
    return f"[{header}]\n{marked(data)}"


def _rendered(source: PromptSource, context: AgentContext, memory: Mapping[str, Any]) -> str:
    board = board_of(context.blackboard)
    values = {
        "state": readonly(shared_state_of(context)),
        "memory": readonly(memory),
        "context": context_of(context, board),
        "user_context": context.user_context,
        "blackboard": board,
        "agent_id": source.agent_id,
        "trigger": readonly(context.trigger_metadata),
    }
    return render(source.text, values).strip()


def _trigger(source: PromptSource, context: AgentContext) -> dict[str, Any]:
    """Why the agent is asked; of an event also what it says."""
    found: dict[str, Any] = {
        "agent": source.agent_name,
        "why": context.trigger_type.value,
        "said": _TRIGGERS[context.trigger_type],
    }
    if context.trigger_metadata:
        found["about"] = context.trigger_metadata
    if context.blackboard is not None and source.subscribed_events:
        events = [event for event in context.blackboard.events if event.name in source.subscribed_events]
        if events:
            found["events"] = [{"name": event.name, "payload": event.payload} for event in events]
    return found


def _lines(source: PromptSource, context: AgentContext) -> list[str]:
    override = context.agent_config_overrides.get(source.agent_id)
    more = override.context_turns_modifier if override else None
    turns = max(1, source.turns + more) if more and source.turns else source.turns
    return [f"{one.speaker}: {one.text}" for one in last_turns(context.recent_segments, turns)]
