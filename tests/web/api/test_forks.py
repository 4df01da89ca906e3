"""Forks over HTTP: what is asked of whom, and what is put into the queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from store import (
    ActionKind,
    StepStatus,
    TenantStore,
    append_agent_step,
    create_conversation,
    get_action,
    upsert_agent_state,
)
from store.ids import ActionId, ConversationId
from tests.web.kit import Caller, state, step

Run = Callable[[Any], Any]
SPEC = {
    "task": "t",
    "config": {"text": "t", "steps": 2},
    "stop_on_done": True,
    "max_steps": 9,
    "max_runtime_s": None,
    "action_id": "first",
    "forked_from": {"session_id": "s0", "iteration": 1},
}


@pytest.fixture
def session(db: TenantStore, run: Run) -> str:
    """A session that has taken three steps."""
    run(upsert_agent_state(db, [state("s1", agent_id="agent", iteration=2, spec=SPEC)]))
    for iteration in range(3):
        run(append_agent_step(db, step("s1", iteration, agent_id="agent")))
    return "s1"


def payload(db: TenantStore, run: Run, answer: Any) -> Any:
    action = run(get_action(db, ActionId(answer["action_id"])))
    assert action.kind is ActionKind.FORK
    assert action.session_id == answer["session_id"]
    return action.payload


def test_a_fork_is_put_into_the_queue_with_everything_it_needs(
    api: Caller, db: TenantStore, run: Run, session: str
) -> None:
    answer = api.post(f"/api/sessions/{session}/fork", {"iteration": 1, "session_id": "f1"})
    assert answer == {"action_id": answer["action_id"], "session_id": "f1"}
    assert payload(db, run, answer) == {
        "moniker": "echo",
        "task": "t",
        "config": {"text": "t", "steps": 2},
        "stop_on_done": True,
        "max_steps": 9,
        "max_runtime_s": None,
        "forked_from": {"session_id": "s1", "iteration": 1},
    }
    assert run(get_action(db, ActionId(answer["action_id"]))).agent_id == "agent"
    found = api.get("/api/sessions/f1")
    assert (found["status"], found["forked_from"]) == ("created", {"session_id": "s1", "iteration": 1})


def test_the_last_step_is_the_default(api: Caller, db: TenantStore, run: Run, session: str) -> None:
    answer = api.post(f"/api/sessions/{session}/fork")
    assert payload(db, run, answer)["forked_from"]["iteration"] == 2


def test_a_config_replaces_fields_of_the_old_one_and_is_checked(
    api: Caller, db: TenantStore, run: Run, session: str
) -> None:
    answer = api.post(f"/api/sessions/{session}/fork", {"config": {"steps": 5}, "agent_id": "other"})
    assert payload(db, run, answer)["config"] == {"text": "t", "steps": 5}
    assert run(get_action(db, ActionId(answer["action_id"]))).agent_id == "other"
    problem = api.post(f"/api/sessions/{session}/fork", {"config": {"nonsense": 1}}, 422)
    assert problem["errors"] == [{"field": "config.nonsense", "message": "unknown field"}]


def test_what_is_not_there_is_404(api: Caller, session: str) -> None:
    api.post("/api/sessions/nobody/fork", {}, 404)
    assert "s1:7" in api.post(f"/api/sessions/{session}/fork", {"iteration": 7}, 404)["detail"]
    api.post(f"/api/sessions/{session}/fork", {"conversation_id": "nowhere"}, 404)
    api.post(f"/api/sessions/{session}/fork", {"iteration": -1}, 422)


def test_an_id_in_use_is_409_and_so_is_a_session_without_a_step(
    api: Caller, db: TenantStore, run: Run, session: str
) -> None:
    api.post(f"/api/sessions/{session}/fork", {"session_id": "f1"})
    assert "already in use" in api.post(f"/api/sessions/{session}/fork", {"session_id": "f1"}, 409)["detail"]
    assert "already in use" in api.post("/api/agents", {"moniker": "echo", "session_id": "f1"}, 409)["detail"]
    assert "has not begun" in api.post("/api/sessions/f1/fork", {}, 409)["detail"]
    run(upsert_agent_state(db, [state("s2")]))
    assert "no step yet" in api.post("/api/sessions/s2/fork", {}, 409)["detail"]


def test_a_key_gives_the_same_answer_and_belongs_to_one_request(
    api: Caller, db: TenantStore, run: Run, session: str
) -> None:
    first = api.post(f"/api/sessions/{session}/fork", {"idempotency_key": "k"})
    run(append_agent_step(db, step("s1", 3, agent_id="agent")))
    assert api.post(f"/api/sessions/{session}/fork", {"idempotency_key": "k"}) == first
    run(upsert_agent_state(db, [state("s2", iteration=0)]))
    run(append_agent_step(db, step("s2", 0)))
    assert "used before" in api.post("/api/sessions/s2/fork", {"idempotency_key": "k"}, 409)["detail"]
    api.post("/api/agents", {"moniker": "echo", "idempotency_key": "k"}, 409)


def test_a_state_that_cannot_be_rebuilt_is_409(api: Caller, db: TenantStore, run: Run) -> None:
    run(upsert_agent_state(db, [state("s3", iteration=5)]))
    run(append_agent_step(db, step("s3", 5, state=None, changes={"+": []}, base=2)))
    assert "cannot be rebuilt" in api.post("/api/sessions/s3/fork", {}, 409)["detail"]


@pytest.mark.parametrize("status", [StepStatus.DONE, StepStatus.ERROR])
def test_an_ended_session_can_be_forked(api: Caller, db: TenantStore, run: Run, status: StepStatus) -> None:
    run(upsert_agent_state(db, [state("s4", iteration=0)]))
    run(append_agent_step(db, step("s4", 0, status=status)))
    run(create_conversation(db, conversation_id=ConversationId("c")))
    answer = api.post("/api/sessions/s4/fork", {"conversation_id": "c"})
    assert run(get_action(db, ActionId(answer["action_id"]))).conversation_id == "c"
