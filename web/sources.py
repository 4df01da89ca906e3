"""Which tables are shown live: for each, what its rows are called, look like, and which rooms they belong to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from store import Action, AgentState, AgentStep, Message, TenantStore, filters
from store.actions import queue_of
from store.agent_events import AgentEvent, events_of
from store.agent_state import LIST_COLUMNS, states_of
from store.agent_steps import journal_of
from store.messages import messages_of
from store.schema import AGENT_EVENTS, AGENT_STATE, AGENT_STEPS, MESSAGES, QUEUE
from store.scope import ScopedTable
from web.rooms import Room, RoomKind
from web.shapes import Json, event_shape, listed_session_shape, session_shape, shape

#: conversation id -> the sessions that take part in it
Members = Mapping[str, frozenset[str]]

#: with more ids than this in a filter it is cheaper to read all that is new
MAX_NAMED: Final = 100
LIVE_EVENTS: Final = ("token", "progress")


@dataclass(frozen=True, slots=True)
class Source:
    """One table as it is shown live."""

    table: str
    event: str
    #: whether rows only come, or also change
    follow: Literal["created", "changed"]
    scoped: Callable[[TenantStore], ScopedTable[Any]]
    #: which rooms a row is for, were all of them followed
    rooms_of: Callable[[Any, Members], Iterable[Room]]
    #: conditions for the rows of some rooms; None when these rooms show nothing of this table
    conditions: Callable[[Collection[Room], Members], Sequence[Any] | None]
    #: a row as it looks in a room
    look: Callable[[Any, Room], Json]
    #: the order of rows within one commit
    rank: Callable[[Any], Any]
    #: what has to be read for these rooms; None means everything
    columns: Callable[[Collection[Room]], Sequence[str] | None]
    #: a column that is enough to count rows
    key: str

    @property
    def mark(self) -> str:
        """The column with the version that a row is ordered by."""
        return filters.CREATED_VERSION if self.follow == "created" else filters.UPDATED_VERSION


def of_room(room: Room) -> tuple[Source, ...]:
    """The sources that a room shows, in the order in which their rows are sent."""
    return _OF_KIND[room.kind]


def keys(rooms: Iterable[Room], kind: RoomKind) -> list[str]:
    """The ids of the rooms of one kind."""
    return [room.key for room in rooms if room.kind is kind]


def _named(column: str, ids: Sequence[str]) -> Sequence[Any]:
    return () if len(ids) > MAX_NAMED else (filters.one_of(column, ids),)


def _everything(_: Collection[Room]) -> None:
    return None


def _in_sessions(rooms: Collection[Room], _: Members) -> Sequence[Any] | None:
    ids = keys(rooms, RoomKind.SESSION)
    return _named("session_id", ids) if ids else None


def _events_in_sessions(rooms: Collection[Room], members: Members) -> Sequence[Any] | None:
    found = _in_sessions(rooms, members)
    return None if found is None else (*found, filters.one_of("kind", LIVE_EVENTS))


def _in_conversations(rooms: Collection[Room], _: Members) -> Sequence[Any] | None:
    ids = keys(rooms, RoomKind.CONVERSATION)
    return _named("conversation_id", ids) if ids else None


def _in_queue(rooms: Collection[Room], members: Members) -> Sequence[Any] | None:
    return () if Room(RoomKind.QUEUE) in rooms else _in_sessions(rooms, members)


def _states(rooms: Collection[Room], members: Members) -> Sequence[Any] | None:
    if Room(RoomKind.SESSIONS) in rooms:
        return ()
    threads = keys(rooms, RoomKind.CONVERSATION)
    sessions = [*keys(rooms, RoomKind.SESSION), *(one for thread in threads for one in members.get(thread, ()))]
    if len(threads) > MAX_NAMED or len(sessions) > MAX_NAMED:
        return ()
    by_session = filters.one_of("session_id", sessions) if sessions else None
    by_thread = filters.one_of("conversation_id", threads) if threads else None
    if by_session is not None and by_thread is not None:
        return (by_session | by_thread,)
    found = by_session if by_session is not None else by_thread
    return None if found is None else (found,)


def _state_columns(rooms: Collection[Room]) -> Sequence[str] | None:
    """A session's context can be large: it is read only when somebody looks at a session."""
    return None if keys(rooms, RoomKind.SESSION) else LIST_COLUMNS


def _rooms_of_state(state: AgentState, members: Members) -> Iterable[Room]:
    threads = {thread for thread, sessions in members.items() if state.session_id in sessions}
    threads |= {state.conversation_id} if state.conversation_id else set()
    yield Room(RoomKind.SESSION, state.session_id)
    yield from (Room(RoomKind.CONVERSATION, thread) for thread in sorted(threads))
    yield Room(RoomKind.SESSIONS)


def _rooms_of_action(action: Action, _: Members) -> Iterable[Room]:
    if action.session_id:
        yield Room(RoomKind.SESSION, action.session_id)
    yield Room(RoomKind.QUEUE)


def _room_of_step(step: AgentStep | AgentEvent, _: Members) -> Iterable[Room]:
    yield Room(RoomKind.SESSION, step.session_id)


def _room_of_message(message: Message, _: Members) -> Iterable[Room]:
    yield Room(RoomKind.CONVERSATION, message.conversation_id)


def _look_of_state(state: AgentState, room: Room) -> Json:
    return session_shape(state) if room.kind is RoomKind.SESSION else listed_session_shape(state)


STEPS: Final = Source(
    table=AGENT_STEPS.name,
    event="step",
    follow="created",
    scoped=journal_of,
    rooms_of=_room_of_step,
    conditions=_in_sessions,
    look=lambda step, _: shape(step),
    rank=lambda step: (step.session_id, step.iteration),
    columns=_everything,
    key="id",
)
TOKENS: Final = Source(
    table=AGENT_EVENTS.name,
    event="token",
    follow="created",
    scoped=events_of,
    rooms_of=_room_of_step,
    conditions=_events_in_sessions,
    look=lambda event, _: event_shape(event),
    rank=lambda event: (event.session_id, event.iteration, event.event_seq),
    columns=_everything,
    key="id",
)
POSTS: Final = Source(
    table=MESSAGES.name,
    event="message",
    follow="created",
    scoped=messages_of,
    rooms_of=_room_of_message,
    conditions=_in_conversations,
    look=lambda message, _: shape(message),
    rank=lambda message: (message.created_at, message.message_id),
    columns=_everything,
    key="message_id",
)
STATES: Final = Source(
    table=AGENT_STATE.name,
    event="state",
    follow="changed",
    scoped=states_of,
    rooms_of=_rooms_of_state,
    conditions=_states,
    look=_look_of_state,
    rank=lambda state: (state.updated_at, state.session_id),
    columns=_state_columns,
    key="session_id",
)
ACTIONS: Final = Source(
    table=QUEUE.name,
    event="action",
    follow="changed",
    scoped=queue_of,
    rooms_of=_rooms_of_action,
    conditions=_in_queue,
    look=lambda action, _: shape(action),
    rank=lambda action: (action.created_at, action.id),
    columns=_everything,
    key="id",
)

#: what happened comes before what is now
ALL: Final = (TOKENS, STEPS, POSTS, ACTIONS, STATES)
_OF_KIND: Final[Mapping[RoomKind, tuple[Source, ...]]] = {
    RoomKind.SESSION: (TOKENS, STEPS, ACTIONS, STATES),
    RoomKind.CONVERSATION: (POSTS, STATES),
    RoomKind.SESSIONS: (STATES,),
    RoomKind.QUEUE: (ACTIONS,),
}
