"""Sessions and actions in memory, for tests that need no store."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from runtime.session import Identity, LiveSession
from runtime.spec import SessionSpec
from store.actions import Action, ActionKind, ActionStatus
from store.ids import ActionId, AgentId, ConversationId, SessionId

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
S = SessionId("s")


def fresh(**spec: Any) -> LiveSession:
    """A session of agent "a" before its first step."""
    made = SessionSpec.model_validate({"moniker": "m", "action_id": "create", **spec})
    return LiveSession(Identity(AgentId("a"), S, ConversationId("t"), made, NOON), "1", "w", 1, NOON)


def input_action(name: str, **fields: Any) -> Action:
    """An `agent_input` called `name` that says its name."""
    given: dict[str, Any] = {
        "id": ActionId(name),
        "created_at": NOON,
        "not_before": None,
        "kind": ActionKind.INPUT,
        "urgency": 0,
        "agent_id": AgentId("a"),
        "session_id": S,
        "conversation_id": None,
        "payload": {"text": name},
        "metadata": None,
        "idempotency_key": None,
        "status": ActionStatus.CLAIMED,
        "attempts": 1,
        "processed": False,
        "processed_at": None,
        "error": None,
        "owner": "w",
        **fields,
    }
    return Action(**given)
