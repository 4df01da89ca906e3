"""Rooms are made from checked ids only, and cursors from nothing but what was given out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.support import examples
from web import cursors
from web.problems import RefusedError
from web.rooms import Room, RoomKind, room_request
from web.subscriptions import MAX_ROOMS, Subscriptions

BAD_ROOMS: list[Any] = [
    None,
    "session:s1",
    [],
    {},
    {"session_id": ""},
    {"session_id": 1},
    {"session_id": "s1 "},
    {"session_id": " s1"},
    {"session_id": "a/b"},
    {"session_id": "a\\b"},
    {"session_id": ".."},
    {"session_id": "a\x00"},
    {"session_id": "a\u200b"},
    {"session_id": "s" * 201},
    {"session_id": ["s1"]},
    {"session_id": {"$ne": ""}},
    {"session_id": "s1", "conversation_id": "c1"},
    {"session_id": "s1", "topic": "queue"},
    {"topic": "session"},
    {"topic": "session:s1"},
    {"topic": "everything"},
    {"topic": None},
    {"session_id": "s1", "sid": "x"},
    {"session_id": "s1", "cursor": 5},
    {"session_id": "s1", "cursor": "x" * 2001},
]


@pytest.mark.parametrize("payload", BAD_ROOMS)
def test_what_is_no_room_is_refused(payload: Any) -> None:
    with pytest.raises(ValidationError):
        room_request(payload)


@pytest.mark.parametrize(
    ("payload", "name"),
    [
        ({"session_id": "s1"}, "session:s1"),
        ({"session_id": "queue"}, "session:queue"),
        ({"conversation_id": "s1"}, "conversation:s1"),
        ({"topic": "sessions"}, "sessions"),
        ({"topic": "queue", "cursor": None}, "queue"),
    ],
)
def test_a_room_has_one_name(payload: Any, name: str) -> None:
    assert room_request(payload).room.name == name


@examples(100)
@given(st.text(max_size=12), st.text(max_size=12))
def test_two_ids_never_share_a_room(first: str, second: str) -> None:
    names = set()
    for payload in ({"session_id": first}, {"session_id": second}, {"conversation_id": first}):
        try:
            names.add((room_request(payload).room.name, next(iter(payload.items()))))
        except ValidationError:
            continue
    assert len({name for name, _ in names}) == len(names)


NEWEST = {"queue": 5, "agent_state": 7}


def test_a_cursor_comes_back_as_it_was_given() -> None:
    assert cursors.decode(cursors.encode({"queue": 3, "agent_state": 7}), NEWEST) == {"queue": 3, "agent_state": 7}


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "%%%",
        "🙂",
        "x" * 3000,
        cursors.encode({}),
        cursors.encode({"queue": 3}),
        cursors.encode({"queue": 3, "agent_state": 1, "workers": 1}),
        cursors.encode({"queue": 6, "agent_state": 1}),
        cursors.encode({"queue": -1, "agent_state": 1}),
        cursors.encode({"queue": 2**62, "agent_state": 1}),
        "WzEsMl0",
        "eyJxdWV1ZSI6dHJ1ZSwiYWdlbnRfc3RhdGUiOjF9",
        "eyJxdWV1ZSI6MS41LCJhZ2VudF9zdGF0ZSI6MX0",
        "eyJxdWV1ZSI6IjEiLCJhZ2VudF9zdGF0ZSI6MX0",
    ],
)
def test_another_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(RefusedError, match="cursor"):
        cursors.decode(cursor, NEWEST)


@examples(200)
@given(st.text(max_size=40))
def test_no_text_breaks_the_parser(cursor: str) -> None:
    with pytest.raises(RefusedError):
        cursors.decode(cursor, NEWEST)


def test_a_room_is_followed_as_long_as_somebody_is_in_it() -> None:
    subscriptions, room = Subscriptions(), Room(RoomKind.SESSION, "s1")
    for sid in ("a", "b"):
        subscriptions.connected(sid)
        subscriptions.add(sid, room)
        subscriptions.add(sid, room)
    assert subscriptions.followed() == {room}
    assert subscriptions.remove("a", room)
    assert not subscriptions.remove("a", room)
    assert subscriptions.followed() == {room}
    subscriptions.disconnected("b")
    assert subscriptions.followed() == set()
    assert not subscriptions.is_connected("b")


def test_a_connection_has_so_many_rooms_and_no_more() -> None:
    subscriptions = Subscriptions()
    subscriptions.connected("a")
    rooms = [Room(RoomKind.SESSION, str(n)) for n in range(MAX_ROOMS + 1)]
    for room in rooms[:-1]:
        subscriptions.check("a", room)
        subscriptions.add("a", room)
    subscriptions.check("a", rooms[0])  # it is in this one already
    with pytest.raises(RefusedError, match="100 rooms"):
        subscriptions.check("a", rooms[-1])
