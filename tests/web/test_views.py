"""What the pages read is what the API answers, with a live cursor that misses nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from store import (
    ActionStatus,
    SessionStatus,
    TenantStore,
    add_participant,
    append_agent_step,
    create_conversation,
    mark_action_processed_async,
    upsert_agent_state,
)
from store.agent_events import AgentEvent, append_event
from store.ids import ActionId, ConversationId, SessionId
from tests.web.kit import START, Caller, gathered, state, step
from web.factory import Web
from web.pages import Views
from web.rooms import Room, RoomKind
from web.views import StoreViews

Run = Callable[[Any], Any]
BROWSER = {"Accept": "text/html"}


@pytest.fixture
def views(web: Web) -> Views:
    return StoreViews(web.door.api, web.bridge)


def test_sessions_of_several_statuses_are_one_list(views: Views, db: TenantStore, run: Run) -> None:
    statuses = [SessionStatus.DONE, SessionStatus.STOPPED, SessionStatus.RUNNING]
    rows = [state(f"s{n}", created_at=START + timedelta(seconds=n), status=statuses[n % 3]) for n in range(12)]
    run(upsert_agent_state(db, rows))
    for chosen in (["done", "stopped"], ["running"], []):
        expected = [row.session_id for row in reversed(rows) if not chosen or row.status.value in chosen]
        found, cursor = [], None
        while True:
            page = views.sessions(statuses=chosen, cursor=cursor, limit=3)
            assert len(page["items"]) <= 3
            found += [one["session_id"] for one in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert found == expected


def test_a_session_in_a_list_tells_its_last_text(views: Views, db: TenantStore, run: Run) -> None:
    run(upsert_agent_state(db, [state("s1", iteration=1), state("s2")]))
    run(gathered(*[append_agent_step(db, step("s1", n)) for n in range(2)]))
    items = views.sessions(statuses=[], cursor=None, limit=10)["items"]
    assert {one["session_id"]: one["last_text"] for one in items} == {"s1": "step 1", "s2": None}


def test_a_session_comes_with_its_newest_steps(views: Views, api: Caller, db: TenantStore, run: Run) -> None:
    assert views.session("nope") is None
    run(upsert_agent_state(db, [state("s1")]))
    run(gathered(*[append_agent_step(db, step("s1", n)) for n in range(103)]))
    found = views.session("s1")
    assert found is not None
    assert [one["iteration"] for one in found["steps"]] == list(range(3, 103))
    assert found["session"] == api.get("/api/sessions/s1")


def test_a_page_begins_with_what_the_running_step_has_said(views: Views, db: TenantStore, run: Run) -> None:
    run(upsert_agent_state(db, [state("s1", iteration=0, conversation_id="c")]))
    run(append_agent_step(db, step("s1", 0)))
    run(create_conversation(db, conversation_id=ConversationId("c")))
    run(add_participant(db, ConversationId("c"), session_id=SessionId("s1")))
    said = [  # iteration, epoch, call, stream, offset, text
        (0, 1, 1, 1, 0, "stored"),
        (1, 1, 1, 2, 0, "void"),
        (1, 1, 2, 3, 0, "and "),
        (1, 2, 1, 1, 0, "Once "),
        (1, 2, 1, 1, 5, "upon"),
        (1, 2, 1, 1, 5, "upon"),
        (1, 1, 2, 3, 4, "so on"),
    ]
    for iteration, epoch, call, stream, offset, text in said:
        data = {"call": call, "stream": stream, "offset": offset, "text": text}
        name = f"{iteration}:{epoch}:{stream}:{offset}"
        run(append_event(db, AgentEvent(name, START, SessionId("s1"), iteration, stream, "token", data, epoch)))
    run(append_event(db, AgentEvent("mine", START, SessionId("s1"), 1, 9, "token", {"text": "no piece"}, 2)))
    for found in (views.session("s1"), views.conversation("c")):
        assert found is not None
        told = {piece["data"]["call"]: piece for piece in found["live_text"]}
        assert {call: piece["data"]["text"] for call, piece in told.items()} == {1: "Once upon", 2: "and so on"}
        assert (told[1]["epoch"], told[1]["data"]["stream"], told[1]["iteration"]) == (2, 1, 1)


def test_a_thread_comes_with_those_who_take_part(views: Views, api: Caller, db: TenantStore, run: Run) -> None:
    assert views.conversation("nope") is None
    run(upsert_agent_state(db, [state("s1")]))
    api.post("/api/conversations", {"conversation_id": "c", "created_by": "ann"}, 201)
    api.post("/api/conversations/c/participants", {"session_id": "s1"}, 201)
    for n in range(3):
        api.post("/api/conversations/c/messages", {"text": str(n)})
    found = views.conversation("c")
    assert found is not None
    assert [one["text"] for one in found["messages"]] == ["0", "1", "2"]
    assert [one["session_id"] for one in found["sessions"]] == ["s1"]
    assert [one["user_id"] for one in found["participants"]] == ["ann", None]
    assert views.conversations(cursor=None, limit=5)["items"] == api.get("/api/conversations")["items"]


def test_the_queue_by_status(views: Views, api: Caller, db: TenantStore, run: Run) -> None:
    made = [api.post("/api/agents", {"moniker": "echo"}) for _ in range(3)]
    run(mark_action_processed_async(db, ActionId(made[0]["action_id"]), status=ActionStatus.DEAD, error="e"))
    found = views.queue(statuses=["dead"], cursor=None, limit=5)
    assert [one["id"] for one in found["items"]] == [made[0]["action_id"]]
    assert found["counts"]["pending"] == 2
    assert views.frame()["badges"] == {"sessions": 0, "approvals": 0, "queue": 1, "tools": 0}


def test_the_live_cursor_misses_nothing_after_the_page(web: Web, views: Views, db: TenantStore, run: Run) -> None:
    run(upsert_agent_state(db, [state("s1")]))
    found = views.session("s1")
    assert found is not None
    run(append_agent_step(db, step("s1", 0)))
    page = run(web.relay.missed(Room(RoomKind.SESSION, "s1"), found["live_cursor"]))
    assert [(sent.event, sent.data["id"]) for sent in page.events] == [("step", "s1:0")]
    for room, cursor in {
        Room(RoomKind.SESSIONS): views.sessions(statuses=[], cursor=None, limit=1)["live_cursor"],
        Room(RoomKind.QUEUE): views.queue(statuses=[], cursor=None, limit=1)["live_cursor"],
    }.items():
        assert not run(web.relay.missed(room, cursor)).events


@pytest.mark.parametrize(
    "path",
    ["/sessions", "/sessions?status=done", "/sessions/s1", "/conversations", "/conversations/c", "/queue", "/docs"],
)
def test_pages_are_drawn(api: Caller, db: TenantStore, run: Run, path: str) -> None:
    run(upsert_agent_state(db, [state("s1"), state("s2", status=SessionStatus.ERROR, last_error="<b>x</b>")]))
    run(append_agent_step(db, step("s1", 0, text="<script>alert(1)</script>")))
    api.post("/api/conversations", {"conversation_id": "c", "title": "<script>"}, 201)
    answer = api.client.get(path, headers=BROWSER)
    assert (answer.status_code, answer.mimetype) == (200, "text/html")
    assert "<script>alert" not in answer.get_data(as_text=True)


@pytest.mark.parametrize("path", ["/sessions/nope", "/conversations/nope"])
def test_a_page_of_nothing_is_a_404_page(api: Caller, path: str) -> None:
    answer = api.client.get(path, headers=BROWSER)
    assert (answer.status_code, answer.mimetype) == (404, "text/html")


def test_a_cursor_that_is_none_is_a_400_page(api: Caller) -> None:
    assert api.client.get("/sessions?cursor=x", headers=BROWSER).status_code == 400
