"""Open questions to people: the list, the answer, and answers that come too late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from store import SessionStatus, TenantStore, upsert_agent_state
from tests.web.kit import Caller, state

Run = Callable[[Any], Any]


def asking(session_id: str, *answered: str, status: SessionStatus = SessionStatus.WAITING, count: int = 1) -> Any:
    """A session that asks about calls."""
    items = [
        {"id": f"{session_id}:3:{n}", "kind": "unsafe_call", "key": f"pay {n}", "question": f"Was {n} made?"}
        for n in range(count)
    ]
    inbox = {"wait": {"kind": "approval", "items": items}, "answered": list(answered)}
    return state(session_id, status=status, inbox=inbox)


def test_open_questions_are_listed(api: Caller, db: TenantStore, run: Run) -> None:
    rows = [
        asking("s1", "s1:3:0", count=2),
        asking("s:2", status=SessionStatus.PAUSED),
        asking("gone", status=SessionStatus.STOPPED),
        state("idle", status=SessionStatus.WAITING, inbox={"wait": {"kind": "input", "prompt": None}}),
    ]
    run(upsert_agent_state(db, rows))
    found = api.get("/api/approvals")["items"]
    assert [(one["approval_id"], one["session_id"], one["key"]) for one in found] == [
        ("s1:3:1", "s1", "pay 1"),
        ("s:2:3:0", "s:2", "pay 0"),
    ]
    assert found[0]["question"] == "Was 1 made?"
    assert [one["session_id"] for one in api.get("/api/approvals", session_id="s:2")["items"]] == ["s:2"]


def test_questions_come_in_pages(api: Caller, db: TenantStore, run: Run) -> None:
    run(upsert_agent_state(db, [asking(f"s{n}") for n in range(3)]))
    first = api.get("/api/approvals", limit=2)
    rest = api.get("/api/approvals", limit=2, cursor=first["next_cursor"])
    assert [one["session_id"] for one in first["items"] + rest["items"]] == ["s0", "s1", "s2"]
    assert rest["next_cursor"] is None


@pytest.mark.parametrize(
    "body", [{"decision": "repeat"}, {"decision": "fail"}, {"decision": "done", "result": {"n": 1}}]
)
def test_an_answer_is_an_action(api: Caller, db: TenantStore, run: Run, body: Any) -> None:
    run(upsert_agent_state(db, [asking("s:2")]))
    accepted = api.post("/api/approvals/s:2:3:0", body)
    action = api.get(f"/api/queue/{accepted['action_id']}")
    assert (action["kind"], action["session_id"], accepted["session_id"]) == ("approval", "s:2", "s:2")
    assert action["payload"] == {"approval_id": "s:2:3:0", "result": None, **body}


def test_the_same_key_answers_once(api: Caller, db: TenantStore, run: Run) -> None:
    run(upsert_agent_state(db, [asking("s1")]))
    body = {"decision": "repeat", "idempotency_key": "k"}
    assert api.post("/api/approvals/s1:3:0", body) == api.post("/api/approvals/s1:3:0", body)


def test_what_was_answered_or_never_asked_is_not_found(api: Caller, db: TenantStore, run: Run) -> None:
    run(upsert_agent_state(db, [asking("s1", "s1:3:0")]))
    for one in ("s1:3:0", "s1:3:1", "s1", "nobody:0:0", "x"):
        assert "approval" in api.post(f"/api/approvals/{one}", {"decision": "repeat"}, 404)["detail"]


PLAN: dict[str, Any] = {"kind": "plan", "question": "Shall it?", "editable": ["a", "b"], "digest": "d1"}
FORM: dict[str, Any] = {
    "kind": "form",
    "question": "How?",
    "fields": [
        {"name": "depth", "kind": "number"},
        {"name": "stone", "kind": "choice", "choices": ["slate"], "required": False},
        {"name": "covered", "kind": "yes_no", "required": False},
    ],
}
UNHEARD: dict[str, Any] = {"kind": "omen", "question": "What does it mean?", "about": "a crow"}


def put(session_id: str, *items: dict[str, Any], **given: Any) -> Any:
    """A session that asks."""
    stamped = [
        {"id": f"{session_id}:3:{n}", "key": f"k{n}", "asked_at": f"2026-01-01T00:00:0{5 - n}+00:00", **item}
        for n, item in enumerate(items)
    ]
    inbox = {"wait": {"kind": "approval", "items": stamped}}
    return state(session_id, status=SessionStatus.WAITING, inbox=inbox, **given)


def test_all_kinds_are_listed_with_all_that_is_needed_to_answer(api: Caller, db: TenantStore, run: Run) -> None:
    run(upsert_agent_state(db, [put("s1", PLAN, FORM, UNHEARD, conversation_id="c1"), put("s2", PLAN)]))
    found = api.get("/api/approvals")["items"]
    assert [one["approval_id"] for one in found] == ["s1:3:2", "s1:3:1", "s1:3:0", "s2:3:0"], "the oldest is first"
    omen, form, plan, _ = found
    assert (plan["editable"], plan["digest"], plan["asked_at"]) == (["a", "b"], "d1", "2026-01-01T00:00:05.000000Z")
    assert plan["decisions"] == form["decisions"] == ["approve", "reject", "edit", "retry"]
    assert (omen["kind"], omen["about"], omen["decisions"]) == ("omen", "a crow", ["approve", "reject", "retry"])
    assert (form["fields"][0]["name"], form["expires_at"], form["default"]) == ("depth", None, None)

    def ids(**query: Any) -> list[str]:
        return [one["approval_id"] for one in api.get("/api/approvals", **query)["items"]]

    assert ids(kind="plan") == ["s1:3:0", "s2:3:0"]
    assert ids(kind="plan", conversation_id="c1") == ["s1:3:0"]
    assert ids(conversation_id="c2") == ids(kind="nothing") == []
    pages: list[str] = []
    cursor: dict[str, Any] = {}
    while True:
        page = api.get("/api/approvals", limit=1, **cursor)
        pages += [one["approval_id"] for one in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert pages == ids()


@pytest.mark.parametrize(
    ("number", "body"),
    [
        (0, {"decision": "approve", "by": "ana", "feedback": "good"}),
        (0, {"decision": "edit", "value": ["c"]}),
        (0, {"decision": "retry", "feedback": "think"}),
        (1, {"decision": "approve", "value": {"depth": 3}}),
        (1, {"decision": "edit", "value": {"depth": 3, "stone": "slate", "covered": False}}),
        (2, {"decision": "reject"}),
    ],
)
def test_an_answer_of_every_kind_is_an_action(
    api: Caller, db: TenantStore, run: Run, number: int, body: dict[str, Any]
) -> None:
    run(upsert_agent_state(db, [put("s1", PLAN, FORM, UNHEARD)]))
    accepted = api.post(f"/api/approvals/s1:3:{number}", body)
    payload = api.get(f"/api/queue/{accepted['action_id']}")["payload"]
    digest = {"digest": "d1"} if number == 0 else {}
    assert payload == {"approval_id": f"s1:3:{number}", "result": None, **digest, **body}


@pytest.mark.parametrize(
    ("number", "body", "fields"),
    [
        (0, {"decision": "done"}, ["decision"]),
        (0, {"decision": "edit"}, ["value"]),
        (0, {"decision": "edit", "value": ["a", 1]}, ["value.1"]),
        (0, {"decision": "approve", "value": ["a"]}, ["value"]),
        (0, {"decision": "reject", "value": ["a"]}, ["value"]),
        (0, {"decision": "approve", "result": 1}, ["result"]),
        (1, {"decision": "approve"}, ["value.depth"]),
        (1, {"decision": "approve", "value": []}, ["value"]),
        (1, {"decision": "edit", "value": {"depth": True, "stone": "lead", "covered": "yes", "x": 1}}, None),
        (2, {"decision": "edit", "value": 1}, ["decision"]),
        (0, {"decision": "approve", "feedback": "x" * 20_001}, ["feedback"]),
    ],
)
def test_what_does_not_fit_the_question_is_refused_with_the_field_named(
    api: Caller, db: TenantStore, run: Run, number: int, body: Any, fields: list[str] | None
) -> None:
    run(upsert_agent_state(db, [put("s1", PLAN, FORM, UNHEARD)]))
    problem = api.post(f"/api/approvals/s1:3:{number}", body, 422)
    every = ["value.x", "value.depth", "value.stone", "value.covered"]
    assert [one["field"] for one in problem["errors"]] == (every if fields is None else fields)
    assert api.get("/api/queue")["items"] == []


def test_an_answer_to_another_question_or_after_its_time_is_refused(api: Caller, db: TenantStore, run: Run) -> None:
    over = {**PLAN, "expires_at": "2026-01-01T00:00:06+00:00", "default": "approve"}
    run(upsert_agent_state(db, [put("s1", PLAN, over)]))
    assert (
        "asks something else"
        in api.post("/api/approvals/s1:3:0", {"decision": "approve", "digest": "x"}, 409)["detail"]
    )
    assert "time for an answer was over" in api.post("/api/approvals/s1:3:1", {"decision": "approve"}, 409)["detail"]
    (late,) = [one for one in api.get("/api/approvals")["items"] if one["expires_at"]]
    assert (late["expires_at"], late["default"]) == ("2026-01-01T00:00:06.000000Z", "approve")


def test_a_request_that_comes_again_gets_its_first_answer_also_when_the_question_is_gone(
    api: Caller, db: TenantStore, run: Run
) -> None:
    run(upsert_agent_state(db, [put("s1", PLAN, FORM)]))
    body = {"decision": "approve", "idempotency_key": "k"}
    first = api.post("/api/approvals/s1:3:0", body)
    assert "used before" in api.post("/api/approvals/s1:3:1", body, 409)["detail"]
    run(upsert_agent_state(db, [state("s1")]))
    assert api.post("/api/approvals/s1:3:0", body) == first
    api.post("/api/approvals/s1:3:0", {**body, "idempotency_key": "k2"}, 404)


def test_the_page_shows_words_as_words_and_counts(api: Caller, db: TenantStore, run: Run) -> None:
    nasty = "<script>alert(1)</script>"
    run(upsert_agent_state(db, [put("s1", {**PLAN, "question": nasty, "about": {"x": nasty}, "kind": nasty})]))
    page = api.client.get("/approvals").get_data(as_text=True)
    assert "&lt;script&gt;alert(1)" in page
    assert nasty not in page
    assert api.get("/frame")["badges"]["approvals"] == 1


@pytest.mark.parametrize("body", [{}, {"decision": "maybe"}, {"decision": "fail", "result": 1}, {"answer": "done"}])
def test_a_wrong_answer_is_refused(api: Caller, db: TenantStore, run: Run, body: Any) -> None:
    run(upsert_agent_state(db, [asking("s1")]))
    api.post("/api/approvals/s1:3:0", body, 422)
    assert api.get("/api/queue")["items"] == []
