"""The session addresses: reading, lists with filters, and control."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import ActionStatus, SessionStatus, TenantStore, mark_action_processed_async, upsert_agent_state
from store.ids import ActionId
from tests.support import examples
from tests.web.kit import NASTY, START, Caller, state
from web.names import session_name

Run = Callable[[Any], Any]
CONTROLS = {"pause": {}, "resume": {}, "destroy": {}, "interrupt": {"guidance": "g"}, "input": {"text": "t"}}


def test_a_session_has_the_shape_of_the_contract(api: Caller, db: TenantStore, run: Run) -> None:
    run(upsert_agent_state(db, [state("s1", wake_at=START, result={"a": 1}, usage={"tokens": 3})]))
    found = api.get("/api/sessions/s1")
    expected = """session_id agent_id conversation_id moniker name status reason iteration step_token next_step_token
        result context last_error usage task config stop_on_done max_steps max_runtime_s forked_from
        budget wake_at created_at updated_at"""
    assert list(found) == expected.split()
    assert found["name"] == session_name("s1")
    assert found["created_at"] == "2026-01-01T00:00:00.000000Z"
    assert found["context"] == {"seen": 1}
    assert found["task"] == "t"


def test_a_list_leaves_out_what_is_long_in_a_config(api: Caller, db: TenantStore, run: Run) -> None:
    config = {"agent_set": "sales_call", "agents": [{"text": "x" * 500}], "steps": 3}
    run(upsert_agent_state(db, [state("s1", spec={"task": "t", "config": config})]))
    (listed,) = api.get("/api/sessions")["items"]
    assert (listed["config"], listed["context"]) == ({"agent_set": "sales_call", "agents": None, "steps": 3}, None)
    assert api.get("/api/sessions/s1")["config"] == config


def test_a_session_in_the_queue_is_created(api: Caller) -> None:
    made = api.post("/api/agents", {"moniker": "echo", "task": "hi", "max_steps": 3})
    found = api.get(f"/api/sessions/{made['session_id']}")
    assert (found["status"], found["iteration"], found["max_steps"], found["task"]) == ("created", -1, 3, "hi")
    assert found["moniker"] == "echo"


def test_a_session_whose_create_has_ended_does_not_look_newer_than_its_first_row(
    api: Caller, db: TenantStore, run: Run
) -> None:
    made = api.post("/api/agents", {"moniker": "echo"})
    run(mark_action_processed_async(db, ActionId(made["action_id"]), status=ActionStatus.DONE))
    found = api.get(f"/api/sessions/{made['session_id']}")  # its row is still being written
    assert found["status"] == "created"
    assert found["updated_at"] == found["created_at"]


@pytest.mark.parametrize("status", [ActionStatus.FAILED, ActionStatus.DEAD])
def test_a_session_that_could_not_be_created_tells_why(
    api: Caller, db: TenantStore, run: Run, status: ActionStatus
) -> None:
    made = api.post("/api/agents", {"moniker": "echo"})
    run(mark_action_processed_async(db, ActionId(made["action_id"]), status=status, error="it broke"))
    found = api.get(f"/api/sessions/{made['session_id']}")
    assert (found["status"], found["last_error"]) == ("error", "it broke")
    for word, body in CONTROLS.items():
        assert "error" in api.post(f"/api/sessions/{made['session_id']}/{word}", body, 409)["detail"]


@pytest.mark.parametrize("session_id", [*NASTY, "%00", "x" * 300, "a%0Ab"])
def test_an_unknown_id_is_not_found(api: Caller, db: TenantStore, run: Run, session_id: str) -> None:
    run(upsert_agent_state(db, [state("s1")]))
    if "\\" not in session_id:
        api.get(f"/api/sessions/{session_id}", 404)
        for word, body in CONTROLS.items():
            api.post(f"/api/sessions/{session_id}/{word}", body, 404)
    assert api.get("/api/queue")["items"] == []


@pytest.mark.parametrize("word", CONTROLS)
def test_control_is_an_action(api: Caller, word: str) -> None:
    made = api.post("/api/agents", {"moniker": "echo"})  # still in the queue: control is taken all the same
    accepted = api.post(f"/api/sessions/{made['session_id']}/{word}", CONTROLS[word])
    action = api.get(f"/api/queue/{accepted['action_id']}")
    assert accepted == {"action_id": action["id"], "session_id": made["session_id"]}
    assert (action["kind"], action["agent_id"], action["status"]) == (f"agent_{word}", "echo", "pending")


@pytest.mark.parametrize("word", CONTROLS)
@pytest.mark.parametrize("status", [SessionStatus.DONE, SessionStatus.STOPPED])
def test_an_ended_session_takes_nothing(
    api: Caller, db: TenantStore, run: Run, word: str, status: SessionStatus
) -> None:
    run(upsert_agent_state(db, [state("s1", status=status)]))
    assert status.value in api.post(f"/api/sessions/s1/{word}", CONTROLS[word], 409)["detail"]
    assert api.get("/api/queue")["items"] == []


def test_after_an_error_a_session_can_be_resumed_or_ended(api: Caller, db: TenantStore, run: Run) -> None:
    run(upsert_agent_state(db, [state("s1", status=SessionStatus.ERROR)]))
    for word in ("pause", "interrupt", "input"):
        api.post(f"/api/sessions/s1/{word}", CONTROLS[word], 409)
    for word in ("resume", "destroy"):
        api.post(f"/api/sessions/s1/{word}", {}, 202)


@pytest.mark.parametrize("word", ["pause", "resume", "destroy"])
def test_simple_control_needs_no_body(api: Caller, word: str) -> None:
    made = api.post("/api/agents", {"moniker": "echo"})
    api.raw(f"/api/sessions/{made['session_id']}/{word}", b"", 202, content_type=None)
    api.post(f"/api/sessions/{made['session_id']}/{word}", {"x": 1}, 422)


@pytest.mark.parametrize(
    ("word", "body"),
    [
        ("interrupt", {}),
        ("interrupt", {"guidance": ""}),
        ("interrupt", {"guidance": 3}),
        ("interrupt", {"guidance": None}),
        ("interrupt", {"guidance": "x", "extra": 1}),
        ("input", {}),
        ("input", {"text": ""}),
        ("input", {"text": 1}),
        ("input", {"text": "x", "data": []}),
        ("input", {"text": "x", "data": "y"}),
        ("input", {"text": "x" * 500_001}),
    ],
)
def test_control_with_a_wrong_body_is_refused(api: Caller, word: str, body: Any) -> None:
    made = api.post("/api/agents", {"moniker": "echo"})
    api.post(f"/api/sessions/{made['session_id']}/{word}", body, 422)


def test_input_and_guidance_arrive_as_they_were_sent(api: Caller) -> None:
    made = api.post("/api/agents", {"moniker": "echo"})
    text = "\x00\x1b[31m 😀 '); --"
    said = api.post(f"/api/sessions/{made['session_id']}/input", {"text": text, "data": {"k": [text]}})
    told = api.post(f"/api/sessions/{made['session_id']}/interrupt", {"guidance": {"do": text}})
    assert api.get(f"/api/queue/{said['action_id']}")["payload"] == {"text": text, "data": {"k": [text]}}
    assert api.get(f"/api/queue/{told['action_id']}")["payload"] == {"guidance": {"do": text}}


def test_the_list_has_filters_counts_and_pages(api: Caller, db: TenantStore, run: Run) -> None:
    rows = [
        state(
            f"s{n}",
            created_at=START + timedelta(seconds=n),
            status=SessionStatus.DONE if n % 2 else SessionStatus.PAUSED,
        )
        for n in range(5)
    ]
    run(upsert_agent_state(db, rows))
    first = api.get("/api/sessions", limit=2)
    second = api.get("/api/sessions", limit=2, cursor=first["next_cursor"])
    third = api.get("/api/sessions", limit=2, cursor=second["next_cursor"])
    names = [one["session_id"] for page in (first, second, third) for one in page["items"]]
    assert names == ["s4", "s3", "s2", "s1", "s0"]
    assert third["next_cursor"] is None
    assert {status: count for status, count in first["counts"].items() if count} == {"done": 2, "paused": 3}
    assert all(one["context"] is None for one in first["items"])
    assert [one["session_id"] for one in api.get("/api/sessions", status="done")["items"]] == ["s3", "s1"]


@pytest.mark.parametrize(
    "query",
    [
        {"status": "runing"},
        {"status": "' or 1=1 --"},
        {"status": ""},
        {"limit": "0"},
        {"limit": "1001"},
        {"limit": "ten"},
        {"limit": "1_0"},
        {"limit": "1e2"},
        {"limit": "٣"},
        {"limit": ["1", "2"]},
        {"cursor": "x"},
        {"cursor": "WyJhIl0"},
        {"cursor": "Wzk5OTk5OTk5OTk5OTk5OTk5OTk5LCJhIl0"},
        {"order": "desc"},
        {"sort": "owner"},
        {"agent_id": ""},
        {"agent_id": "x" * 201},
    ],
)
def test_a_wrong_query_is_refused(api: Caller, query: dict[str, Any]) -> None:
    api.get("/api/sessions", 400, **query)


def test_a_wrong_status_names_the_choices(api: Caller) -> None:
    assert "'waiting'" in api.get("/api/sessions", 400, status="x")["detail"]


VALUES = st.one_of(st.sampled_from([*NASTY, "echo", "s1", "a' or agent_id != 'a"]), st.text(min_size=1, max_size=20))


@examples(30)
@given(
    stored=st.lists(VALUES, min_size=1, max_size=4, unique=True),
    asked=VALUES,
    field=st.sampled_from(["agent_id", "moniker", "conversation_id"]),
)
def test_a_filter_gives_the_rows_that_python_would(
    api: Caller, db: TenantStore, run: Run, stored: list[str], asked: str, field: str
) -> None:
    stored, asked = [_storable(value) for value in stored], _storable(asked)
    rows = [state(f"s{index}", **{field: value}) for index, value in enumerate(stored)]
    rows += [state(f"s{index}", **{field: "other"}) for index in range(len(stored), 4)]
    run(upsert_agent_state(db, rows))
    query: dict[str, Any] = {field: asked}
    found = api.get("/api/sessions", **query)
    assert {one["session_id"] for one in found["items"]} == {
        row.session_id for row in rows if getattr(row, field) == asked
    }


def _storable(text: str) -> str:
    """Text without lone surrogates, which neither an address nor the store can hold."""
    return text.encode("utf-8", "ignore").decode() or "x"


@pytest.mark.parametrize(("word", "body"), [("input", {"text": "t"}), ("interrupt", {"guidance": "g"})])
def test_a_request_that_comes_again_gets_its_first_answer_though_the_session_has_ended(
    api: Caller, db: TenantStore, run: Run, word: str, body: dict[str, Any]
) -> None:
    run(upsert_agent_state(db, [state("s1")]))
    first = api.post(f"/api/sessions/s1/{word}", {**body, "idempotency_key": "k"})
    run(upsert_agent_state(db, [state("s1", status=SessionStatus.DONE)]))
    assert api.post(f"/api/sessions/s1/{word}", {**body, "idempotency_key": "k"}) == first
    api.post(f"/api/sessions/s1/{word}", {**body, "idempotency_key": "another"}, 409)
    api.post(f"/api/sessions/s1/{word}", body, 409)
