"""The queue's addresses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import ActionStatus, TenantStore, mark_action_processed_async
from store.actions import ActionKind
from store.enqueueing import NewAction, enqueue_all
from store.ids import ActionId, AgentId, SessionId
from tests.support import examples
from tests.web.kit import NASTY, Caller

Run = Callable[[Any], Any]


def test_an_action_has_the_shape_of_the_contract(api: Caller) -> None:
    made = api.post("/api/agents", {"moniker": "echo", "idempotency_key": "k"})
    found = api.get(f"/api/queue/{made['action_id']}")
    expected = """id created_at not_before kind urgency agent_id session_id conversation_id payload metadata
        idempotency_key status attempts processed processed_at error owner"""
    assert list(found) == expected.split()
    assert (found["idempotency_key"], found["processed"]) == ("k", False)


def test_the_list_counts_filters_and_pages(api: Caller, db: TenantStore, run: Run) -> None:
    made = [api.post("/api/agents", {"moniker": "echo", "session_id": f"s{n}"}) for n in range(3)]
    api.post("/api/sessions/s0/pause")
    run(mark_action_processed_async(db, ActionId(made[1]["action_id"])))
    found = api.get("/api/queue", limit=3)
    rest = api.get("/api/queue", limit=3, cursor=found["next_cursor"])
    assert [one["kind"] for one in found["items"]] == ["agent_pause", "agent_create", "agent_create"]
    assert [one["session_id"] for one in rest["items"]] == ["s0"]
    assert found["counts"] == {"pending": 3, "claimed": 0, "done": 1, "failed": 0, "dead": 0}
    assert [one["session_id"] for one in api.get("/api/queue", status="done")["items"]] == ["s1"]
    assert [one["session_id"] for one in api.get("/api/queue", kind="agent_pause")["items"]] == ["s0"]
    assert len(api.get("/api/queue", session_id="s0")["items"]) == 2


@examples(20)
@given(
    session=st.none() | st.sampled_from([*NASTY, "s0", "s1"]),
    agent=st.none() | st.sampled_from([*NASTY, "a0"]),
    kind=st.none() | st.sampled_from(ActionKind),
)
def test_filters_give_the_rows_that_python_would(
    api: Caller, db: TenantStore, run: Run, session: str | None, agent: str | None, kind: ActionKind | None
) -> None:
    everything = api.get("/api/queue")["items"]
    if not everything:
        names = [*NASTY, "s0", "s1"]
        kinds = list(ActionKind)
        new = [NewAction(kinds[n % len(kinds)], AgentId(names[-n]), SessionId(name)) for n, name in enumerate(names)]
        run(enqueue_all(db, new))
        everything = api.get("/api/queue")["items"]
    query: dict[str, Any] = {"session_id": session, "agent_id": agent, "kind": kind and kind.value}
    given_only = {key: value for key, value in query.items() if value is not None}
    found = api.get("/api/queue", **given_only)["items"]
    assert found == [row for row in everything if all(row[key] == value for key, value in given_only.items())]


@pytest.mark.parametrize("status", [ActionStatus.FAILED, ActionStatus.DEAD])
def test_what_failed_gets_another_try(api: Caller, db: TenantStore, run: Run, status: ActionStatus) -> None:
    made = api.post("/api/agents", {"moniker": "echo"})
    address = f"/api/queue/{made['action_id']}"
    assert "pending" in api.post(f"{address}/requeue", {}, 409)["detail"]
    run(mark_action_processed_async(db, ActionId(made["action_id"]), status=status, error="e", attempts=3))
    assert api.get(address)["error"] == "e"
    again = api.raw(f"{address}/requeue", b"", 202, content_type=None)
    assert (again["status"], again["error"], again["attempts"], again["processed"]) == ("pending", None, 0, False)
    assert api.get(address) == again


@pytest.mark.parametrize("name", [one for one in NASTY if "\\" not in one])
def test_an_unknown_action_is_not_found(api: Caller, name: str) -> None:
    api.get(f"/api/queue/{name}", 404)
    api.post(f"/api/queue/{name}/requeue", {}, 404)


@pytest.mark.parametrize("query", [{"status": "open"}, {"kind": "create"}, {"limit": "-1"}, {"owner": "x"}])
def test_a_wrong_query_is_refused(api: Caller, query: dict[str, str]) -> None:
    api.get("/api/queue", 400, **query)


def test_a_cancel_is_an_action_about_its_target(api: Caller, db: TenantStore, run: Run) -> None:
    made = api.post("/api/agents", {"moniker": "echo", "session_id": "s"})
    asked = api.post(f"/api/queue/{made['action_id']}/cancel")
    assert (asked["cancels"], asked["session_id"]) == (made["action_id"], "s")
    found = api.get(f"/api/queue/{asked['action_id']}")
    assert (found["kind"], found["session_id"], found["agent_id"], found["payload"]) == (
        "cancel",
        "s",
        "echo",
        {"action_id": made["action_id"]},
    )
    assert "is a cancel" in api.post(f"/api/queue/{asked['action_id']}/cancel", {}, 409)["detail"]
    run(mark_action_processed_async(db, ActionId(made["action_id"])))
    assert "has ended (done)" in api.post(f"/api/queue/{made['action_id']}/cancel", {}, 409)["detail"]
    api.post("/api/queue/nope/cancel", {}, 404)


def test_urgency_and_a_moment_can_be_asked_for(api: Caller) -> None:
    more = {"urgency": -100, "not_before": "2031-01-01T12:00:00+01:00"}
    made = api.post("/api/agents", {"moniker": "echo", "session_id": "s", **more})
    said = api.post("/api/sessions/s/input", {"text": "x", **more})
    told = api.post("/api/agents/echo/interrupt", {"guidance": "x", **more})
    for answer in (made, said, told):
        found = api.get(f"/api/queue/{answer['action_id']}")
        assert (found["urgency"], found["not_before"]) == (-100, "2031-01-01T11:00:00.000000Z")
    wrong: list[dict[str, Any]] = [
        {"urgency": 101},
        {"urgency": 0.5},
        {"urgency": "1"},
        {"not_before": "soon"},
        {"not_before": 5},
    ]
    for field in wrong:
        api.post("/api/agents", {"moniker": "echo", **field}, 422)
    for limit in (0, -1, 1.5, "2"):
        api.post("/api/agents", {"moniker": "echo", "max_concurrent": limit}, 422)


def test_the_page_shows_the_next_try_and_what_can_be_done(api: Caller, db: TenantStore, run: Run) -> None:
    made = api.post("/api/agents", {"moniker": "echo"})
    waiting = mark_action_processed_async(
        db,
        ActionId(made["action_id"]),
        status=ActionStatus.PENDING,
        attempts=2,
        error="OSError: it broke",
        not_before=datetime(2031, 1, 1, 12, 30, 59, tzinfo=UTC),
    )
    run(waiting)
    page = api.client.get("/queue").get_data(as_text=True)
    assert "next try 2031-01-01 12:30:59 UTC" in page
    assert "OSError: it broke" in page
    assert "try 3" in page
    assert "data-cancel" in page
    run(mark_action_processed_async(db, ActionId(made["action_id"]), status=ActionStatus.DEAD, attempts=5, error="e"))
    page = api.client.get("/queue").get_data(as_text=True)
    assert "5 tries" in page
    assert "data-requeue" in page
    assert "data-cancel" not in page
