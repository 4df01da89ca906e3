"""Threads, who takes part, and posts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from store import SessionStatus, TenantStore, upsert_agent_state
from tests.web.kit import NASTY, Caller, state

Run = Callable[[Any], Any]
ODD = "\x00\x07 😀 \u2028 '); -- %"


def test_a_thread_is_opened_and_read(api: Caller) -> None:
    made = api.post("/api/conversations", {"title": ODD, "tags": ["a", "b"], "created_by": "ann"}, 201)
    assert list(made) == ["conversation_id", "title", "created_by", "status", "tags", "created_at"]
    assert (made["title"], made["tags"]) == (ODD, ["a", "b"])
    assert api.get(f"/api/conversations/{made['conversation_id']}") == made
    members = api.get(f"/api/conversations/{made['conversation_id']}/participants")["items"]
    assert [member["user_id"] for member in members] == ["ann"]


def test_a_thread_id_is_taken_once(api: Caller) -> None:
    api.post("/api/conversations", {"conversation_id": "c"}, 201)
    api.post("/api/conversations", {"conversation_id": "c"}, 409)


def test_threads_are_listed_in_pages(api: Caller) -> None:
    for name in ("a", "b", "c"):
        api.post("/api/conversations", {"conversation_id": name}, 201)
    first = api.get("/api/conversations", limit=2)
    rest = api.get("/api/conversations", limit=2, cursor=first["next_cursor"])
    assert [one["conversation_id"] for one in first["items"] + rest["items"]] == ["c", "b", "a"]


@pytest.mark.parametrize(
    "body",
    [
        {"title": 1},
        {"title": "x" * 501},
        {"tags": "a"},
        {"tags": [1]},
        {"tags": ["x"] * 51},
        {"created_by": "a/b"},
        {"conversation_id": ""},
        {"status": "open"},
    ],
)
def test_a_wrong_thread_is_refused(api: Caller, body: Any) -> None:
    api.post("/api/conversations", body, 422)


@pytest.mark.parametrize("name", [one for one in NASTY if "\\" not in one])
def test_an_unknown_thread_is_not_found(api: Caller, name: str) -> None:
    api.get(f"/api/conversations/{name}", 404)
    api.get(f"/api/conversations/{name}/participants", 404)
    api.get(f"/api/conversations/{name}/messages", 404)
    api.post(f"/api/conversations/{name}/participants", {"user_id": "u"}, 404)
    api.post(f"/api/conversations/{name}/messages", {"text": "t"}, 404)


def test_a_session_that_joins_must_exist(api: Caller, db: TenantStore, run: Run) -> None:
    api.post("/api/conversations", {"conversation_id": "c"}, 201)
    api.post("/api/conversations/c/participants", {"session_id": "nope"}, 404)
    run(upsert_agent_state(db, [state("s1", agent_id="joker")]))
    joined = api.post("/api/conversations/c/participants", {"session_id": "s1", "delivery": "pull", "role": "bot"}, 201)
    expected = "participant_id conversation_id user_id agent_id session_id role delivery joined_at left_at"
    assert list(joined) == expected.split()
    assert (joined["agent_id"], joined["delivery"], joined["role"]) == ("joker", "pull", "bot")


@pytest.mark.parametrize(
    "body",
    [{}, {"user_id": "u", "session_id": "s"}, {"user_id": 1}, {"user_id": "u", "delivery": "x"}, {"agent_id": "a"}],
)
def test_a_wrong_participant_is_refused(api: Caller, body: Any) -> None:
    api.post("/api/conversations", {"conversation_id": "c"}, 201)
    api.post("/api/conversations/c/participants", body, 422)


def _thread(api: Caller, db: TenantStore, run: Run, **statuses: SessionStatus) -> None:
    api.post("/api/conversations", {"conversation_id": "c"}, 201)
    run(upsert_agent_state(db, [state(name, status=status) for name, status in statuses.items()]))
    for name in statuses:
        api.post("/api/conversations/c/participants", {"session_id": name}, 201)


def test_a_post_is_a_message_and_an_action_for_each_live_session(api: Caller, db: TenantStore, run: Run) -> None:
    _thread(api, db, run, s1=SessionStatus.WAITING, s2=SessionStatus.RUNNING, ended=SessionStatus.DONE)
    posted = api.post("/api/conversations/c/messages", {"text": ODD, "data": {"k": ODD}, "user_id": "ann"})
    message = api.get("/api/conversations/c/messages")["items"][0]
    assert posted["message"] == message
    assert posted["message_id"] == message["message_id"]
    assert (message["text"], message["data"], message["user_id"]) == (ODD, {"k": ODD}, "ann")
    assert (message["sender_type"], message["event_type"]) == ("user", "post")
    actions = [api.get(f"/api/queue/{one}") for one in posted["action_ids"]]
    assert {action["session_id"] for action in actions} == {"s1", "s2"}
    assert {action["kind"] for action in actions} == {"agent_input"}
    assert all(action["payload"] == {"text": ODD, "data": {"k": ODD}} for action in actions)


@pytest.mark.parametrize(
    ("mode", "others", "kind"),
    [
        ("input", SessionStatus.RUNNING, "agent_input"),
        ("interrupt", SessionStatus.WAITING, "agent_interrupt"),
        ("auto", SessionStatus.RUNNING, "agent_interrupt"),
        ("auto", SessionStatus.WAITING, "agent_input"),
        ("auto", SessionStatus.PAUSED, "agent_input"),
    ],
)
def test_how_a_post_reaches_its_sessions(
    api: Caller, db: TenantStore, run: Run, mode: str, others: SessionStatus, kind: str
) -> None:
    _thread(api, db, run, s1=SessionStatus.RUNNING, s2=others)
    posted = api.post("/api/conversations/c/messages", {"text": "t", "as": mode})
    assert {api.get(f"/api/queue/{one}")["kind"] for one in posted["action_ids"]} == {kind}


def test_the_same_key_posts_once(api: Caller, db: TenantStore, run: Run) -> None:
    _thread(api, db, run, s1=SessionStatus.WAITING)
    body = {"text": "t", "idempotency_key": "k"}
    assert api.post("/api/conversations/c/messages", body) == api.post("/api/conversations/c/messages", body)
    assert len(api.get("/api/conversations/c/messages")["items"]) == 1
    assert len(api.get("/api/queue")["items"]) == 1


def test_a_key_of_another_thread_is_refused(api: Caller, db: TenantStore, run: Run) -> None:
    _thread(api, db, run, s1=SessionStatus.WAITING)
    api.post("/api/conversations", {"conversation_id": "d"}, 201)
    api.post("/api/conversations/d/messages", {"text": "t", "idempotency_key": "k"})
    api.post("/api/conversations/c/messages", {"text": "t", "idempotency_key": "k"}, 409)
    assert api.get("/api/queue")["items"] == []


def test_messages_are_paged_in_both_orders(api: Caller) -> None:
    api.post("/api/conversations", {"conversation_id": "c"}, 201)
    for n in range(3):
        api.post("/api/conversations/c/messages", {"text": str(n)})
    first = api.get("/api/conversations/c/messages", limit=2)
    rest = api.get("/api/conversations/c/messages", limit=2, cursor=first["next_cursor"])
    assert [one["text"] for one in first["items"] + rest["items"]] == ["0", "1", "2"]
    assert [one["text"] for one in api.get("/api/conversations/c/messages", order="desc")["items"]] == ["2", "1", "0"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"text": ""},
        {"text": 1},
        {"text": "t", "as": "shout"},
        {"text": "t", "mode": "input"},
        {"text": "t", "data": 1},
    ],
)
def test_a_wrong_post_is_refused(api: Caller, body: Any) -> None:
    api.post("/api/conversations", {"conversation_id": "c"}, 201)
    api.post("/api/conversations/c/messages", body, 422)
    assert api.get("/api/conversations/c/messages")["items"] == []


def test_a_segment_is_a_post_that_says_who_spoke(api: Caller, db: TenantStore, run: Run) -> None:
    _thread(api, db, run, s1=SessionStatus.WAITING)
    said = {"text": "Hello.", "speaker": ODD, "timestamp": 4.5, "is_final": False, "data": {"k": 1}, "user_id": "phone"}
    posted = api.post("/api/conversations/c/messages", said)
    told = {"k": 1, "segment": {"speaker": ODD, "timestamp": 4.5, "is_final": False}}
    assert (posted["message"]["text"], posted["message"]["data"]) == ("Hello.", told)
    (action,) = [api.get(f"/api/queue/{one}") for one in posted["action_ids"]]
    assert action["payload"] == {"text": "Hello.", "data": told}


def test_a_segment_is_final_and_without_a_time_unless_it_says_so(api: Caller) -> None:
    api.post("/api/conversations", {"conversation_id": "c"}, 201)
    posted = api.post("/api/conversations/c/messages", {"text": "Hello.", "speaker": "ANN"})
    assert posted["message"]["data"] == {"segment": {"speaker": "ANN", "is_final": True}}


@pytest.mark.parametrize(
    "wrong",
    [
        {"timestamp": 1},
        {"is_final": True},
        {"speaker": ""},
        {"speaker": "x" * 201},
        {"speaker": 1},
        {"speaker": "A", "timestamp": -0.1},
        {"speaker": "A", "timestamp": "1"},
        {"speaker": "A", "timestamp": 1e12},
        {"speaker": "A", "is_final": "yes"},
        {"speaker": "A", "data": {"segment": {}}},
    ],
)
def test_a_wrong_segment_is_refused(api: Caller, wrong: Any) -> None:
    api.post("/api/conversations", {"conversation_id": "c"}, 201)
    api.post("/api/conversations/c/messages", {"text": "Hello.", **wrong}, 422)
    assert api.get("/api/conversations/c/messages")["items"] == []


def test_a_post_reaches_a_session_whose_create_nobody_has_handled_yet(api: Caller) -> None:
    api.post("/api/conversations", {"conversation_id": "c"}, 201)
    made = api.post("/api/agents", {"moniker": "echo", "conversation_id": "c"})
    posted = api.post("/api/conversations/c/messages", {"text": "t"})
    actions = [api.get(f"/api/queue/{one}") for one in posted["action_ids"]]
    assert [(one["kind"], one["session_id"]) for one in actions] == [("agent_input", made["session_id"])]
