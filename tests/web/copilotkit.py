"""A copilot's rows for tests, as docs/copilot-queue.md describes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from store import (
    AgentState,
    AgentStep,
    SessionStatus,
    StepStatus,
    TenantStore,
    add_participant,
    append_agent_step,
    create_conversation,
    upsert_agent_state,
)
from store.agent_events import AgentEvent, append_event
from store.ids import ConversationId, SessionId
from tests.web.kit import START, state, step

Json = dict[str, Any]

BOARD: Json = {"events": [], "variables": {}, "queues": {}, "facts": [], "memory": {}}


def insight(session_id: str, iteration: int, content: str, **given: Any) -> Json:
    """An insight, as a run's step holds it; `zone`, `color` and `suggested_response` go into its metadata."""
    metadata = {name: given.pop(name) for name in ("zone", "color", "suggested_response") if name in given}
    number = given.pop("number", 1)
    agent_id = given.pop("agent_id", "objection_coach")
    return {
        "insight_id": f"{session_id}:{iteration}:1.1.{agent_id}.{number}",
        "agent_id": agent_id,
        "agent_name": agent_id.replace("_", " ").title(),
        "type": "suggestion",
        "content": content,
        "confidence": 0.9,
        "expiry": 15,
        "action_label": None,
        "metadata": metadata,
        "status": "shown",
        "turn": iteration + 1,
        "phase": 1,
        "trigger": "turn_based",
        **given,
    }


def run_of(agent_id: str, **given: Any) -> Json:
    """What one agent did in a phase."""
    return {
        "agent_id": agent_id,
        "name": agent_id.replace("_", " ").title(),
        "ms": 420.0,
        "insights": [],
        "events": [],
        "variables": {},
        "queues": {},
        "facts": [],
        "memory": {},
        "failed": False,
        "usage": {},
        **given,
    }


def segment(speaker: str, text: str, timestamp: float = 0.0, *, is_final: bool = True) -> Json:
    """Something that was said."""
    return {"speaker": speaker, "text": text, "timestamp": timestamp, "is_final": is_final}


def turn_step(
    session_id: str,
    iteration: int,
    *,
    said: Json | None = None,
    ran: Sequence[Json] = (),
    insights: Sequence[Json] = (),
    board: Mapping[str, Any] | None = None,
    **given: Any,
) -> AgentStep:
    """One turn of a copilot: `ran` in phase 1, the board after it."""
    skipped, trigger = given.pop("skipped", []), given.pop("trigger", "turn_based")
    metadata = given.pop("metadata", {})
    phases = given.pop("phases", [{"phase": 1, "events": [], "ran": list(ran), "skipped": skipped}])
    data = {
        "turn": iteration + 1,
        "trigger": trigger,
        "segment": said,
        "turns": [{"trigger": trigger, "metadata": metadata, "phases": phases}],
        "insights": list(insights),
    }
    return step(
        session_id,
        iteration,
        **{
            "agent_id": "copilot",
            "action_id": f"{session_id}-action-{iteration}",
            "guidance": {"inputs": [{"text": said["text"]}]} if said else None,
            "status": StepStatus.WAITING,
            "text": None,
            "data": data,
            "state": {"turn": iteration + 1, "board": {**BOARD, **(board or {})}},
            "usage": {"step": {"calls": 2, "input_tokens": 900, "output_tokens": 80, "cost": "0.0021"}},
            **given,
        },
    )


def copilot_state(session_id: str, iteration: int = -1, **given: Any) -> AgentState:
    """A copilot's session."""
    config = {"agent_set": given.pop("agent_set", "sales_call")}
    spec = {"task": None, "config": config, "stop_on_done": False, "max_steps": None, "max_runtime_s": None}
    values = {"status": SessionStatus.WAITING, "agent_id": "copilot", "moniker": "copilot", "spec": spec, **given}
    token = None if iteration < 0 else str(iteration)
    return state(session_id, iteration=iteration, step_token=token, **values)


async def store_copilot(
    db: TenantStore, session_id: str, steps: Sequence[AgentStep] = (), *, title: str = "", **given: Any
) -> None:
    """A copilot's session with its steps, and with a title also its thread."""
    thread = f"thread-of-{session_id}" if title else None
    if thread is not None:
        await create_conversation(db, conversation_id=ConversationId(thread), title=title)
        await add_participant(db, ConversationId(thread), session_id=SessionId(session_id))
    last = steps[-1].iteration if steps else -1
    await upsert_agent_state(db, [copilot_state(session_id, last, conversation_id=thread, **given)])
    for one in steps:
        await append_agent_step(db, one)


async def tell_early(db: TenantStore, session_id: str, iteration: int, told: Json, now: datetime = START) -> None:
    """An agent has found an insight; its step is not stored."""
    name = f"{told['insight_id']}:early"
    await append_event(db, AgentEvent(name, now, SessionId(session_id), iteration, 1, "insight", told, 1))
