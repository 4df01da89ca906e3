"""The budgets' addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from store import SessionStatus, TenantStore, upsert_agent_state
from tests.web.kit import Caller, state
from web.factory import Web

Run = Callable[[Any], Any]
USED = {"input_tokens": 700, "output_tokens": 300, "calls": 4, "cost": "0.35", "steps": 2, "runtime_s": 1.5}


def put(web: Web, scope: str, body: Any, expect: int = 200) -> Any:
    answer = web.app.test_client().put(f"/api/budgets/{scope}", json=body)
    assert answer.status_code == expect, answer.get_data(as_text=True)
    return answer.get_json()


def delete(web: Web, scope: str, expect: int = 200) -> Any:
    answer = web.app.test_client().delete(f"/api/budgets/{scope}")
    assert answer.status_code == expect
    return answer.get_json()


def test_a_budget_is_set_raised_shown_with_what_was_spent_and_taken_away(
    api: Caller, web: Web, db: TenantStore, run: Run
) -> None:
    rows = [
        state("s1", agent_id="x", conversation_id="t", usage={**USED, "open": {"input_tokens": 5, "calls": 1}}),
        state("s2", agent_id="x", usage=USED),
        state("s3", agent_id="y", conversation_id="t", usage=USED),
    ]
    run(upsert_agent_state(db, rows))
    limits = {"tokens": 2500, "money": "0.70", "calls": 20}
    made = put(web, "agent:x", {"limits": limits, "updated_by": "mia"})
    assert (made["scope"], made["kind"], made["id"], made["limits"], made["updated_by"]) == (
        "agent:x",
        "agent",
        "x",
        limits,
        "mia",
    )
    spent = {"tokens": 2005, "money": "0.70", "calls": 9, "steps": 4, "time_s": 3.0, "unpriced_calls": 0}
    assert made["spent"] == spent
    assert made["left"] == {"tokens": 495, "money": "0", "calls": 11, "unpriced_calls": 0}
    assert made["is_spent"] is True
    raised = put(web, "agent:x", {"limits": {**limits, "money": "5"}})
    assert (raised["is_spent"], raised["left"]["money"]) == (False, "4.30")
    assert [change["limits"]["money"] for change in raised["changes"]] == ["5", "0.70"]
    assert api.get("/api/budgets/agent:x") == raised
    for scope, calls in [("total", 13), ("conversation:t", 9), ("session:s1", 5)]:
        assert put(web, scope, {"limits": {"calls": 50}})["spent"]["calls"] == calls
    run(upsert_agent_state(db, [state("s2", agent_id="x", usage={**USED, "calls": 10})]))
    assert api.get("/api/budgets/total")["spent"]["calls"] == 19
    listed = api.get("/api/budgets")["items"]
    assert [one["scope"] for one in listed] == ["agent:x", "conversation:t", "session:s1", "total"]
    assert "changes" not in listed[0]
    assert delete(web, "agent:x") == {"scope": "agent:x", "deleted": True}
    delete(web, "agent:x", 404)
    api.get("/api/budgets/agent:x", 404)


def test_they_come_in_pages_with_those_that_sessions_were_created_with(
    api: Caller, web: Web, db: TenantStore, run: Run
) -> None:
    spec = {"task": "t", "budget": {"calls": 3}}
    rows = [
        state("live", spec=spec, usage={"calls": 3}),
        state("over", spec=spec, status=SessionStatus.DONE),
        state("other", spec={}),
    ]
    run(upsert_agent_state(db, rows))
    put(web, "total", {"limits": {"steps": 9}})
    first = api.get("/api/budgets", limit=1)
    rest = api.get("/api/budgets", limit=1, cursor=first["next_cursor"])
    assert [one["scope"] for one in first["items"] + rest["items"]] == ["session:live", "total"]
    assert (first["items"][0]["limits"], first["items"][0]["is_spent"]) == ({"calls": 3}, True)
    assert rest["next_cursor"] is None
    assert api.get("/api/budgets/session:over")["limits"] == {"calls": 3}
    put(web, "session:live", {"limits": {"calls": 5}})
    assert api.get("/api/budgets/session:live")["limits"] == {"calls": 5}
    delete(web, "session:live")
    assert api.get("/api/budgets/session:live")["limits"] == {"calls": 3}
    api.get("/api/budgets/session:other", 404)
    assert api.get("/api/sessions/live")["budget"] == {"calls": 3}


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        ({}, "limits"),
        ({"tokens": -1}, "limits.tokens"),
        ({"tokens": 1.5}, "limits.tokens"),
        ({"tokens": True}, "limits.tokens"),
        ({"tokens": 10**16}, "limits.tokens"),
        ({"money": 0.1}, "limits.money"),
        ({"money": "1e3"}, "limits.money"),
        ({"money": "-1"}, "limits.money"),
        ({"money": "NaN"}, "limits.money"),
        ({"money": "1" * 16}, "limits.money"),
        ({"time_s": -0.5}, "limits.time_s"),
        ({"gold": 1}, "limits.gold"),
    ],
)
def test_limits_that_are_none_are_refused_by_name(api: Caller, web: Web, limits: Any, field: str) -> None:
    problem = put(web, "total", {"limits": limits}, 422)
    assert [error["field"] for error in problem["errors"]] == [field]
    api.post("/api/agents", {"moniker": "echo", "budget": limits}, 422)


@pytest.mark.parametrize(
    "scope", ["everything", "total:x", "agent:", "agent", "user:x", ":", "session:%00", "agent:.."]
)
def test_a_scope_that_is_none_is_refused(api: Caller, web: Web, scope: str) -> None:
    problem = put(web, scope, {"limits": {"calls": 1}}, 404)
    assert "no budget" in problem["detail"]
    api.get(f"/api/budgets/{scope}", 404)


def test_a_session_is_created_with_a_budget(api: Caller) -> None:
    made = api.post("/api/agents", {"moniker": "echo", "budget": {"tokens": 10, "money": "0.50", "time_s": 2}})
    action = api.get(f"/api/queue/{made['action_id']}")
    assert action["payload"]["budget"] == {"tokens": 10, "money": "0.50", "time_s": 2}
    plain = api.post("/api/agents", {"moniker": "echo"})
    assert "budget" not in api.get(f"/api/queue/{plain['action_id']}")["payload"]


def test_the_inbox_takes_an_answer(api: Caller, db: TenantStore, run: Run) -> None:
    mark = {"scope": "agent:x", "limit": "tokens", "spent": 10_312, "allowed": 10_000, "n": 7}
    run(upsert_agent_state(db, [state("s:2", status=SessionStatus.PAUSED, inbox={"budget": mark})]))
    (asked,) = api.get("/api/approvals")["items"]
    assert (asked["approval_id"], asked["kind"], asked["key"]) == ("s:2:budget:7", "budget", "agent:x")
    assert asked["question"] == "Budget spent: 10,312 of 10,000 tokens of agent 'x'. May it spend more?"
    path = f"/api/approvals/{asked['approval_id']}"
    api.post(path, {"decision": "edit"}, 422)
    api.post(path, {"decision": "edit", "value": {"limits": {"gold": 1}}}, 422)
    api.post(path, {"decision": "approve", "value": {"limits": {"tokens": 1}}}, 422)
    bodies: list[dict[str, Any]] = [
        {"decision": "approve"},
        {"decision": "reject"},
        {"decision": "edit", "value": {"tokens": 20_000}},
    ]
    for body in bodies:
        action = api.get(f"/api/queue/{api.post(path, body)['action_id']}")
        assert (action["kind"], action["session_id"]) == ("approval", "s:2")
        assert action["payload"] == {"approval_id": "s:2:budget:7", "result": None, **body}
