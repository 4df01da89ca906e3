"""The Socket.IO events: connect, subscribe, unsubscribe, disconnect. Whatever a client sends, it gets an answer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

import structlog
from flask import request
from flask_socketio import SocketIO, join_room, leave_room
from pydantic import ValidationError

from web.api.conversations import POST_MESSAGE
from web.emitter import Sender
from web.problems import Problem, field_errors, problem_of, unforeseen
from web.relay import Relay
from web.replay import Missed
from web.rooms import Room, room_request
from web.routes import Door, ask
from web.schemas import Segment
from web.shapes import Json, time_of
from web.subscriptions import Subscriptions
from web.version import VERSION
from web.vitals import model_shape

_log = structlog.get_logger(__name__)

Payload = tuple[Any, ...]

_NO_SEGMENT: Final = "this is no segment: give conversation_id, speaker and text"
_NO_ROOM: Final = "this is no room: give one of session_id, conversation_id and topic"


@dataclass(frozen=True, slots=True)
class Live:
    """What the handlers work with."""

    boot_id: str
    door: Door
    relay: Relay
    subscriptions: Subscriptions
    turn: AbstractContextManager[Any]
    #: takes secrets out of an error's text
    redact: Callable[[str], str] = str

    def hello(self) -> Json:
        """What a client is told first."""
        return {
            "boot_id": self.boot_id,
            "version": VERSION,
            "model": model_shape(self.door.api.vitals.model),
            "server_time": time_of(self.door.api.db.clock.now()),
        }

    def greet(self, sender: Sender, sid: str) -> None:
        """Send the first words; straight to the connection, so that no message queue need be there."""
        sender.emit("hello", self.hello(), to=sid, ignore_queue=True)

    def subscribe(self, sid: str, payload: Payload) -> Json:
        """Tell what was missed and, when that is all, let the connection into the room."""
        wanted = room_request(_only(payload))
        room = wanted.room
        with self.turn:
            self.subscriptions.check(sid, room)
            missed = ask(self.door.bridge, self.relay.missed(room, wanted.cursor))
            self._enter_or_leave(sid, room, caught_up=not missed.more)
        return _acknowledged(room, missed, self.boot_id)

    def unsubscribe(self, sid: str, payload: Payload) -> Json:
        """Let the connection out of the room; leaving a room that one is not in is fine."""
        room = room_request(_only(payload)).room
        with self.turn:
            self._enter_or_leave(sid, room, caught_up=False)
        return {"ok": True, "room": room.name, "boot_id": self.boot_id}

    def segment(self, payload: Payload) -> Json:
        """Take what somebody said in a live conversation: stored, and an action queued for every session of the
        thread, as `POST /api/conversations/<id>/messages` does. One connection's segments keep their order."""
        said = Segment.model_validate(_only(payload))
        arguments = {"conversation_id": said.conversation_id, "body": said.post()}
        accepted = self.door.answer(POST_MESSAGE, arguments).body
        return {"ok": True, "message_id": accepted["message_id"], "action_ids": accepted["action_ids"]}

    def _enter_or_leave(self, sid: str, room: Room, *, caught_up: bool) -> None:
        """A connection that has more to read is not in the room: a live cursor would lead it past the rest."""
        if caught_up and self.subscriptions.is_connected(sid):
            join_room(room.name)
            self.subscriptions.add(sid, room)
        elif self.subscriptions.remove(sid, room):
            leave_room(room.name)


def install_sockets(socketio: SocketIO, live: Live) -> None:
    """Register the handlers."""

    @socketio.on("connect")
    def connect(*_: Any) -> None:
        with live.turn:
            live.subscriptions.connected(_sid())
        live.greet(socketio, _sid())

    @socketio.on("disconnect")
    def disconnect(*_: Any) -> None:
        with live.turn:
            live.subscriptions.disconnected(_sid())

    @socketio.on("subscribe")
    def subscribe(*payload: Any) -> Json:
        return _answered("subscribe", lambda: live.subscribe(_sid(), payload), live.redact)

    @socketio.on("unsubscribe")
    def unsubscribe(*payload: Any) -> Json:
        return _answered("unsubscribe", lambda: live.unsubscribe(_sid(), payload), live.redact)

    @socketio.on("segment")
    def segment(*payload: Any) -> Json:
        return _answered("segment", lambda: live.segment(payload), live.redact, _NO_SEGMENT)


def _sid() -> str:
    return str(request.sid)  # type: ignore[attr-defined]  # set by Flask-SocketIO


def _only(payload: Payload) -> Any:
    """The one object that a client should send; anything else is no room."""
    return payload[0] if len(payload) == 1 else None


def _acknowledged(room: Room, missed: Missed, boot_id: str) -> Json:
    return {
        "ok": True,
        "room": room.name,
        "cursor": missed.cursor,
        "missed": [{"event": sent.event, "data": sent.data} for sent in missed.events],
        "more": missed.more,
        "boot_id": boot_id,
    }


def _answered(event: str, handle: Callable[[], Json], redact: Callable[[str], str], malformed: str = _NO_ROOM) -> Json:
    try:
        return handle()
    except ValidationError as error:
        return _refusal(event, Problem(400, malformed, field_errors(error)))
    except Exception as error:
        problem = problem_of(error)
        if problem is None:
            _log.error("socket event failed", socket_event=event, exc_info=error)
        return _refusal(event, (problem or unforeseen()).without(redact))


def _refusal(event: str, problem: Problem) -> Json:
    return {"ok": False, "error": problem.body(f"/socket.io#{event}")}
