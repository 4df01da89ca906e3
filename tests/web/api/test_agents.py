"""POST /api/agents: what is accepted, what is refused and how; and the agent-level addresses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from store import ActionStatus, SessionStatus, TenantStore, mark_action_processed_async, save_agent, upsert_agent_state
from store.ids import ActionId, AgentId
from tests.web.kit import START, Caller, gathered, state
from web.api import agents
from web.factory import Web
from web.schemas import CreateAgent

Run = Callable[[Any], Any]


def test_a_create_is_a_stored_action(api: Caller) -> None:
    made = api.post("/api/agents", {"moniker": "echo", "task": "hi", "max_steps": 5, "max_runtime_s": 2.5})
    action = api.get(f"/api/queue/{made['action_id']}")
    assert made == {
        "action_id": action["id"],
        "session_id": action["session_id"],
        "agent_id": "echo",
        "conversation_id": None,
    }
    assert action["kind"] == "agent_create"
    assert action["status"] == "pending"
    assert action["payload"] == {
        "moniker": "echo",
        "task": "hi",
        "config": {"text": "hi", "steps": 1},
        "stop_on_done": True,
        "max_steps": 5,
        "max_runtime_s": 2.5,
        "delivery": "push",
        "max_concurrent": None,
    }


def test_a_type_of_agent_is_handed_on_and_is_an_id(api: Caller) -> None:
    made = api.post("/api/agents", {"moniker": "echo", "agent_type": "buyer"})
    assert api.get(f"/api/queue/{made['action_id']}")["payload"]["agent_type"] == "buyer"
    for wrong in ("", " buyer", "a/b", 5):
        problem = api.post("/api/agents", {"moniker": "echo", "agent_type": wrong}, 422)
        assert problem["errors"][0]["field"] == "agent_type"


@pytest.mark.parametrize(
    "moniker", ["nope", "os.system", "runtime.loop:main", "../echo", "echo ", "Echo", "' or 1=1 --"]
)
def test_only_monikers_of_the_catalogue_run(api: Caller, moniker: str) -> None:
    problem = api.post("/api/agents", {"moniker": moniker}, 422)
    assert "echo, joke" in problem["detail"]
    assert problem["errors"][0]["field"] == "moniker"
    assert api.get("/api/queue")["items"] == []


def test_a_wrong_config_names_each_field(api: Caller) -> None:
    problem = api.post("/api/agents", {"moniker": "echo", "config": {"steps": "x", "evil": 1}}, 422)
    assert {error["field"] for error in problem["errors"]} == {"config.steps", "config.evil"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("moniker", 1),
        ("moniker", ""),
        ("task", ["x"]),
        ("config", "x"),
        ("config", [1]),
        ("agent_id", "a/b"),
        ("agent_id", ""),
        ("session_id", "x" * 201),
        ("session_id", " s"),
        ("session_id", "a\x00b"),
        ("session_id", "a\nb"),
        ("session_id", ".."),
        ("session_id", 7),
        ("conversation_id", "a\\b"),
        ("stop_on_done", "yes"),
        ("stop_on_done", 1),
        ("max_steps", 0),
        ("max_steps", -1),
        ("max_steps", 1.5),
        ("max_steps", "5"),
        ("max_steps", True),
        ("max_steps", 10**30),
        ("max_runtime_s", 0),
        ("max_runtime_s", -1),
        ("max_runtime_s", "3"),
        ("max_runtime_s", 1e300),
        ("idempotency_key", ""),
        ("idempotency_key", "k" * 201),
        ("delivery", "shove"),
        ("surprise", 1),
    ],
)
def test_a_wrong_field_is_named(api: Caller, field: str, value: Any) -> None:
    problem = api.post("/api/agents", {"moniker": "echo", field: value}, 422)
    assert field in {error["field"].split(".")[0] for error in problem["errors"]}
    assert api.get("/api/queue")["items"] == []


def test_a_session_id_is_taken_once(api: Caller) -> None:
    first = api.post("/api/agents", {"moniker": "echo", "session_id": "mine"})
    assert first["session_id"] == "mine"
    assert "mine" in api.post("/api/agents", {"moniker": "echo", "session_id": "mine"}, 409)["detail"]
    assert len(api.get("/api/queue")["items"]) == 1


def test_a_session_id_is_taken_once_by_requests_at_the_same_time(web: Web, run: Run, api: Caller) -> None:
    handlers = web.app.view_functions
    assert "agents.create_agent" in handlers
    body = CreateAgent(moniker="echo", session_id="mine")
    door = web.door.api
    answers = run(_outcomes(*[agents.create_agent(door, body=body) for _ in range(8)]))
    assert answers.count(202) == 1
    assert answers.count("ConflictError") == 7
    assert len(api.get("/api/queue")["items"]) == 1


async def _outcomes(*calls: Any) -> list[Any]:
    async def outcome(call: Any) -> Any:
        try:
            return (await call).status
        except Exception as error:
            return type(error).__name__

    return list(await gathered(*[outcome(call) for call in calls]))


def test_the_same_key_gives_the_same_answer(api: Caller) -> None:
    body = {"moniker": "echo", "idempotency_key": "k1", "session_id": "s"}
    assert api.post("/api/agents", body) == api.post("/api/agents", body)
    assert len(api.get("/api/queue")["items"]) == 1


def test_the_same_key_at_the_same_time_is_one_action(web: Web, run: Run, api: Caller) -> None:
    body = CreateAgent(moniker="echo", idempotency_key="k")
    answers = run(gathered(*[agents.create_agent(web.door.api, body=body) for _ in range(8)]))
    assert len({answer.body["action_id"] for answer in answers}) == 1
    assert len(api.get("/api/queue")["items"]) == 1


def test_a_key_that_was_used_for_something_else_is_refused(api: Caller) -> None:
    made = api.post("/api/agents", {"moniker": "echo"})
    api.post(f"/api/sessions/{made['session_id']}/input", {"text": "x", "idempotency_key": "k"})
    api.post("/api/agents", {"moniker": "echo", "idempotency_key": "k"}, 409)


def test_an_unknown_conversation_is_refused(api: Caller) -> None:
    api.post("/api/agents", {"moniker": "echo", "conversation_id": "nope"}, 404)
    api.post("/api/conversations", {"conversation_id": "c1"}, 201)
    assert api.post("/api/agents", {"moniker": "echo", "conversation_id": "c1"})["conversation_id"] == "c1"


def test_any_text_comes_back_as_it_was_sent(api: Caller) -> None:
    text = "".join(map(chr, range(0x20))) + "\x7f é 😀 👩‍👩‍👧 \u202e \u2028 \ufffe \U0010ffff ' \" \\ %"
    made = api.post("/api/agents", {"moniker": "joke", "task": text, "config": {text: [text]}})
    session = api.get(f"/api/sessions/{made['session_id']}")
    assert session["task"] == text
    assert session["config"] == {text: [text]}


def test_agents_are_listed_in_pages(api: Caller, db: TenantStore, run: Run) -> None:
    for name in ("a", "b", "c"):
        run(save_agent(db, AgentId(name), "echo", {"n": name}))
    run(save_agent(db, AgentId("b"), "echo", {"n": "changed"}))
    first = api.get("/api/agents", limit=2)
    rest = api.get("/api/agents", cursor=first["next_cursor"])
    assert [(agent["agent_id"], agent["version"]) for agent in first["items"] + rest["items"]] == [
        ("a", 1),
        ("b", 2),
        ("c", 1),
    ]
    assert rest["next_cursor"] is None


def test_what_agents_have_used_is_told_when_it_is_asked_for(api: Caller, db: TenantStore, run: Run) -> None:
    for name in ("idle", "old", "new"):
        run(save_agent(db, AgentId(name), "echo", {}))
    counted = {"steps": 2, "calls": 2, "input_tokens": 10, "output_tokens": 3, "runtime_s": 0.5}
    used = [
        state("n1", agent_id="new", usage={**counted, "cost": "0.1", "unpriced_calls": 0}),
        state("n2", agent_id="new", usage={**counted, "cost": "0.2", "unpriced_calls": 1, "step": {"calls": 9}}),
        state("n3", agent_id="new"),
        state("o1", agent_id="old", usage=counted),
        state("x1", agent_id="other", usage={**counted, "cost": "9"}),
    ]
    run(upsert_agent_state(db, used))
    assert {agent["usage"] for agent in api.get("/api/agents")["items"]} == {None}
    idle, new, old = (agent["usage"] for agent in api.get("/api/agents", usage="true")["items"])
    assert (new["sessions"], new["steps"], new["calls"], new["runtime_s"]) == (3, 4, 4, 1.0)
    assert (new["input_tokens"], new["output_tokens"], new["cost"], new["unpriced_calls"]) == (20, 6, "0.3", 1)
    assert (old["cost"], old["unpriced_calls"]) == ("0", 2)
    assert set(idle.values()) == {0, "0"}


def test_the_sessions_of_an_agent(api: Caller, db: TenantStore, run: Run) -> None:
    api.get("/api/agents/echo/sessions", 404)
    run(save_agent(db, AgentId("echo"), "echo", {}))
    run(upsert_agent_state(db, [state("s1"), state("s2", created_at=START + timedelta(1)), state("o", agent_id="x")]))
    assert [one["session_id"] for one in api.get("/api/agents/echo/sessions")["items"]] == ["s2", "s1"]


@pytest.mark.parametrize("word", ["pause", "resume", "destroy", "interrupt", "input"])
def test_agent_level_control_means_the_latest_session(api: Caller, db: TenantStore, run: Run, word: str) -> None:
    body = {"interrupt": {"guidance": "g"}, "input": {"text": "t"}}.get(word, {})
    api.post(f"/api/agents/echo/{word}", body, 404)
    run(upsert_agent_state(db, [state("old"), state("new", created_at=START + timedelta(hours=1))]))
    assert api.post(f"/api/agents/echo/{word}", body)["session_id"] == "new"
    # A create that is still in the queue is newer than any row.
    queued = api.post("/api/agents", {"moniker": "echo"})
    accepted = api.post(f"/api/agents/echo/{word}", body)
    assert accepted["session_id"] == queued["session_id"]
    action = api.get(f"/api/queue/{accepted['action_id']}")
    assert (action["kind"], action["session_id"], action["agent_id"]) == (f"agent_{word}", queued["session_id"], "echo")


def test_agent_level_control_of_an_ended_session_is_refused(api: Caller, db: TenantStore, run: Run) -> None:
    run(upsert_agent_state(db, [state("s", status=SessionStatus.DONE)]))
    assert "done" in api.post("/api/agents/echo/pause", {}, 409)["detail"]


def test_agent_level_control_of_a_failed_create_is_refused(api: Caller, db: TenantStore, run: Run) -> None:
    made = api.post("/api/agents", {"moniker": "echo"})
    run(mark_action_processed_async(db, ActionId(made["action_id"]), status=ActionStatus.FAILED, error="no"))
    assert "error" in api.post("/api/agents/echo/resume", {}, 409)["detail"]
