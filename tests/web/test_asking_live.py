"""Questions as they open and close: one event with what a session asks now, in its rooms and in the topic of all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from store import SessionStatus, TenantStore, upsert_agent_state
from tests.web.kit import START, state
from web.delivery import Sent
from web.relay import Relay
from web.rooms import Room, RoomKind, room_request

Run = Callable[[Any], Any]
TOPIC, SESSION, THREAD, SESSIONS = (
    Room(RoomKind.APPROVALS),
    Room(RoomKind.SESSION, "s1"),
    Room(RoomKind.CONVERSATION, "c1"),
    Room(RoomKind.SESSIONS),
)


@pytest.fixture
def relay(db: TenantStore, run: Run) -> Any:
    """A relay of its own."""
    made = Relay(db)
    run(made.start())
    yield made
    run(made.stop())


def asking(*keys: str, at: int = 0, session_id: str = "s1") -> Any:
    """A session that asks these questions, or has asked and goes on."""
    items = [
        {"id": f"{session_id}:3:{n}", "kind": "plan", "key": key, "question": f"{key}?"} for n, key in enumerate(keys)
    ]
    wait = {"wait": {"kind": "approval", "items": items}} if keys else {}
    return state(
        session_id,
        status=SessionStatus.WAITING if keys else SessionStatus.RUNNING,
        inbox={"asked": 3, **wait},
        conversation_id="c1",
        updated_at=START + timedelta(seconds=at),
    )


def told(events: list[Sent], room: Room) -> list[tuple[str, Any]]:
    """What a room is sent: the event, and of questions their keys."""
    mine = [sent for sent in events if sent.room == room]
    return [(one.event, [item["key"] for item in one.data.get("items", ())]) for one in mine]


def test_every_room_is_told_when_questions_open_and_close(relay: Relay, db: TenantStore, run: Run) -> None:
    rooms = {TOPIC, SESSION, THREAD, SESSIONS}
    for row, keys in ((asking("a", "b"), ["a", "b"]), (asking("b", at=1), ["b"]), (asking(at=2), [])):
        run(upsert_agent_state(db, [row]))
        events = run(relay.poll(rooms)).events
        assert told(events, TOPIC) == [("approval", keys)]
        assert told(events, SESSION) == told(events, THREAD) == [("approval", keys), ("state", [])]
        assert told(events, SESSIONS) == [("state", [])]
        (one,) = [sent.data for sent in events if sent.room == TOPIC]
        assert one.keys() == {"session_id", "conversation_id", "items", "updated_at", "room", "cursor"}
    run(upsert_agent_state(db, [state("quiet", conversation_id="c1")]))
    events = run(relay.poll(rooms)).events
    assert told(events, TOPIC) == []
    assert told(events, THREAD) == [("state", [])], "who never asked costs nothing more"


@pytest.mark.parametrize("room", [TOPIC, SESSION, THREAD])
def test_a_connection_that_is_cut_at_any_event_misses_no_question(
    relay: Relay, db: TenantStore, run: Run, room: Room
) -> None:
    before = run(relay.missed(room, None)).cursor
    others = [asking("x", session_id=f"o{n}") for n in range(2)]
    run(upsert_agent_state(db, [asking("a"), *[replace(one, conversation_id=None) for one in others]]))
    whole = run(relay.missed(room, before)).events
    assert ("approval", ["a"]) in told(list(whole), room)
    for cut in range(len(whole)):
        cursor = whole[cut - 1].data["cursor"] if cut else before
        seen = [*whole[:cut], *run(relay.missed(room, cursor)).events]
        assert {(one.event, one.data["session_id"]) for one in whole} == {
            (one.event, one.data["session_id"]) for one in seen
        }


def test_the_topic_is_a_room() -> None:
    assert room_request({"topic": "approvals"}).room == TOPIC
    assert TOPIC.name == "approvals"


def test_a_session_that_asks_with_a_deadline_does_not_sleep(db: TenantStore, run: Run, api: Any) -> None:
    row = replace(asking("a"), wake_at=START, reason="a?")
    asleep = replace(
        asking(session_id="s2"), status=SessionStatus.WAITING, wake_at=START, reason="sleeping until 2026-01-01"
    )
    run(upsert_agent_state(db, [row, asleep]))
    found = {one["session_id"]: one["wake_at"] for one in api.get("/api/sessions")["items"]}
    assert (found["s1"], found["s2"] is None) == (None, False)
