"""when_busy over HTTP: stored with the input; a rejection is told at once where the session is seen to be busy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from store import Delivery, SessionStatus, TenantStore, WhenBusy, add_participant, upsert_agent_state
from store.ids import ActionId, AgentId, ConversationId, SessionId
from store.marks import mark_action_processed_async
from tests.web.kit import Caller, state

Run = Callable[[Any], Any]
INPUTS = ["/api/sessions/s1/input", "/api/agents/a/input", "/api/conversations/c/messages"]


def prepare(api: Caller, db: TenantStore, run: Run) -> None:
    """A waiting session of agent `a` in the thread `c`."""
    api.post("/api/conversations", {"conversation_id": "c"}, 201)
    run(upsert_agent_state(db, [state("s1", agent_id=AgentId("a"), status=SessionStatus.WAITING)]))
    joined = add_participant(
        db,
        ConversationId("c"),
        agent_id=AgentId("a"),
        session_id=SessionId("s1"),
        role="agent",
        delivery=Delivery.PUSH,
    )
    run(joined)


@pytest.mark.parametrize("path", INPUTS)
@pytest.mark.parametrize("asked", [*WhenBusy, None])
def test_the_policy_is_stored_with_the_input(
    api: Caller, db: TenantStore, run: Run, path: str, asked: WhenBusy | None
) -> None:
    prepare(api, db, run)
    api.post(path, {"text": "hi"} | ({} if asked is None else {"when_busy": asked.value}))
    (action,) = api.get("/api/queue", kind="agent_input")["items"]
    expected = None if asked in (None, WhenBusy.ENQUEUE) else asked
    assert action["payload"].get("when_busy") == expected


@pytest.mark.parametrize("path", INPUTS)
def test_a_rejection_is_told_at_once(api: Caller, db: TenantStore, run: Run, path: str) -> None:
    prepare(api, db, run)
    first = api.post("/api/sessions/s1/input", {"text": "one"})
    body = {"text": "two", "when_busy": "reject"}
    assert "is busy" in api.post(path, body, 409)["detail"]
    assert len(api.get("/api/queue")["items"]) == 1
    assert api.get("/api/conversations/c/messages")["items"] == []
    run(mark_action_processed_async(db, ActionId(first["action_id"])))
    api.post(path, body)


@pytest.mark.parametrize("path", INPUTS)
def test_a_repeat_of_what_was_accepted_is_no_rejection(api: Caller, db: TenantStore, run: Run, path: str) -> None:
    prepare(api, db, run)
    body = {"text": "one", "when_busy": "reject", "idempotency_key": "k"}
    assert api.post(path, body) == api.post(path, body)


@pytest.mark.parametrize("path", INPUTS)
def test_an_unknown_policy_is_refused(api: Caller, db: TenantStore, run: Run, path: str) -> None:
    prepare(api, db, run)
    found = api.post(path, {"text": "one", "when_busy": "shout"}, 422)
    assert found["errors"][0]["field"] == "when_busy"
