"""Which tables are shown live: for each, what its rows are called, look like, and which rooms they belong to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from store import Action, AgentState, AgentStep, Message, TenantStore, filters
from store.actions import queue_of
from store.agent_events import AgentEvent, events_of, shown_events
from store.agent_state import LIST_COLUMNS, states_of
from store.agent_steps import StepStatus, journal_of, shown_steps, whole_steps
from store.approvals import has_asked
from store.insights import insight_of, insights_in
from store.messages import EventType, messages_of
from store.schema import AGENT_EVENTS, AGENT_STATE, AGENT_STEPS, MESSAGES, QUEUE, TOOL_PINS
from store.scope import ScopedTable, Versioned
from store.tool_pins import ToolPin, tool_pins_of
from web.rooms import Room, RoomKind
from web.shapes import Json, asking_shape, event_shape, insight_shape, listed_session_shape, plain, session_shape, shape

#: conversation id -> the sessions that take part in it
Members = Mapping[str, frozenset[str]]

#: with more ids than this in a filter it is cheaper to read all that is new
MAX_NAMED: Final = 100
#: as the row of a session that asks, or has asked not long ago, is stored
_ASKED: Final = '"asked"'
#: an insight that an agent has just found, told before its step is stored
INSIGHT: Final = "insight"
LIVE_EVENTS: Final = ("token", "progress", INSIGHT)
#: what is told of a tool live: not its words, which can be many, and which nobody may judge without reading them anew
_TOOL_COLUMNS: Final = (
    "tool",
    "server",
    "hash",
    "seen_at",
    "approved_hash",
    "approved_at",
    "approved_by",
    "withdrawn_at",
    "withdrawn_by",
)


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
    #: a row as it looks in a room; None where the room shows it in other events only
    look: Callable[[Any, Room], Json | None]
    #: the order of rows within one commit
    rank: Callable[[Any], Any]
    #: what has to be read for these rooms; None means everything
    columns: Callable[[Collection[Room]], Sequence[str] | None]
    #: a column that is enough to count rows
    key: str
    #: makes items whole that are stored in parts, with one read for all of them
    whole: Callable[[TenantStore, Sequence[Any]], Awaitable[Sequence[Any]]] | None = None
    #: leaves out rows that must not be seen
    shown: Callable[[TenantStore, Sequence[Versioned[Any]]], Awaitable[list[Versioned[Any]]]] | None = None

    #: more events that a row makes in a room, before its own
    also: Callable[[Any, Room], Iterable[tuple[str, Json]]] | None = None

    def events_of(self, item: Any, room: Room) -> list[tuple[str, Json]]:
        """All that is sent of a row to a room, in order."""
        found = [] if self.also is None else list(self.also(item, room))
        look = self.look(item, room)
        return found if look is None else [*found, (self.event, look)]

    @property
    def mark(self) -> str:
        """The column with the version that a row is ordered by."""
        return filters.CREATED_VERSION if self.follow == "created" else filters.UPDATED_VERSION


async def completed(db: TenantStore, source: Source, rows: Sequence[Versioned[Any]]) -> list[Versioned[Any]]:
    """Rows as they are shown: without those of an owner that was replaced, and with what a row holds only in part."""
    if source.shown is not None and rows:
        rows = await source.shown(db, rows)
    if source.whole is None or not rows:
        return list(rows)
    items = await source.whole(db, [row.item for row in rows])
    return [replace(row, item=item) for row, item in zip(rows, items, strict=True)]


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
    threads = keys(rooms, RoomKind.CONVERSATION)
    ids = [*keys(rooms, RoomKind.SESSION), *(one for thread in threads for one in members.get(thread, ()))]
    return (*_named("session_id", ids), filters.one_of("kind", LIVE_EVENTS)) if ids else None


def _in_conversations(rooms: Collection[Room], _: Members) -> Sequence[Any] | None:
    ids = keys(rooms, RoomKind.CONVERSATION)
    return _named("conversation_id", ids) if ids else None


def _in_queue(rooms: Collection[Room], members: Members) -> Sequence[Any] | None:
    return () if Room(RoomKind.QUEUE) in rooms else _in_sessions(rooms, members)


def _tools(rooms: Collection[Room], _: Members) -> Sequence[Any] | None:
    return () if Room(RoomKind.TOOLS) in rooms else None


def _states(rooms: Collection[Room], members: Members) -> Sequence[Any] | None:
    if Room(RoomKind.SESSIONS) in rooms:
        return ()
    threads = keys(rooms, RoomKind.CONVERSATION)
    sessions = [*keys(rooms, RoomKind.SESSION), *(one for thread in threads for one in members.get(thread, ()))]
    if len(threads) > MAX_NAMED or len(sessions) > MAX_NAMED:
        return ()
    wanted = [filters.one_of("session_id", sessions)] if sessions else []
    wanted += [filters.one_of("conversation_id", threads)] if threads else []
    wanted += [filters.contains("inbox", _ASKED)] if Room(RoomKind.APPROVALS) in rooms else []
    return (filters.either(*wanted),) if wanted else None


def _state_columns(rooms: Collection[Room]) -> Sequence[str] | None:
    """A session's context can be large: it is read only when somebody looks at a session."""
    if keys(rooms, RoomKind.SESSION):
        return None
    asks = Room(RoomKind.APPROVALS) in rooms or keys(rooms, RoomKind.CONVERSATION)
    return (*LIST_COLUMNS, "inbox") if asks else LIST_COLUMNS


def _rooms_of_state(state: AgentState, members: Members) -> Iterable[Room]:
    threads = {thread for thread, sessions in members.items() if state.session_id in sessions}
    threads |= {state.conversation_id} if state.conversation_id else set()
    yield Room(RoomKind.SESSION, state.session_id)
    yield from (Room(RoomKind.CONVERSATION, thread) for thread in sorted(threads))
    yield Room(RoomKind.SESSIONS)
    if has_asked(state):
        yield Room(RoomKind.APPROVALS)


def _rooms_of_action(action: Action, _: Members) -> Iterable[Room]:
    if action.session_id:
        yield Room(RoomKind.SESSION, action.session_id)
    yield Room(RoomKind.QUEUE)


def _room_of_step(step: AgentStep, _: Members) -> Iterable[Room]:
    yield Room(RoomKind.SESSION, step.session_id)


def _rooms_of_event(event: AgentEvent, members: Members) -> Iterable[Room]:
    yield Room(RoomKind.SESSION, event.session_id)
    threads = sorted(thread for thread, sessions in members.items() if event.session_id in sessions)
    yield from (Room(RoomKind.CONVERSATION, thread) for thread in threads)


def _room_of_message(message: Message, _: Members) -> Iterable[Room]:
    yield Room(RoomKind.CONVERSATION, message.conversation_id)


def _room_of_tool(_: ToolPin, __: Members) -> Iterable[Room]:
    yield Room(RoomKind.TOOLS)


def _look_of_tool(pin: ToolPin, _: Room) -> Json | None:
    return {**{name: plain(getattr(pin, name)) for name in _TOOL_COLUMNS}, "state": pin.state.value}


def _look_of_state(state: AgentState, room: Room) -> Json | None:
    if room.kind is RoomKind.APPROVALS:
        return None
    return session_shape(state) if room.kind is RoomKind.SESSION else listed_session_shape(state)


def _questions_of_state(state: AgentState, room: Room) -> Iterable[tuple[str, Json]]:
    if room.kind is not RoomKind.SESSIONS and has_asked(state):
        yield "approval", asking_shape(state)


def _insights_of_step(step: AgentStep, _: Room) -> Iterable[tuple[str, Json]]:
    for insight in (None if step.status is StepStatus.ERROR else insights_in(step.data)) or ():
        shown = insight_shape(insight, session_id=step.session_id, iteration=step.iteration, created_at=step.created_at)
        yield INSIGHT, shown


def _insight_of_message(message: Message, _: Room) -> Iterable[tuple[str, Json]]:
    insight = insight_of(message.data) if message.event_type is EventType.INSIGHT else None
    if insight is not None and message.session_id is not None and message.iteration is not None:
        shown = insight_shape(
            insight, session_id=message.session_id, iteration=message.iteration, created_at=message.created_at
        )
        yield INSIGHT, shown


def _insight_of_event(event: AgentEvent, _: Room) -> Iterable[tuple[str, Json]]:
    insight = insight_of(event.data) if event.kind == INSIGHT else None
    if insight is not None:
        shown = insight_shape(
            insight,
            session_id=event.session_id,
            iteration=event.iteration,
            created_at=event.created_at,
            stored=False,
        )
        yield INSIGHT, shown


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
    whole=whole_steps,
    shown=shown_steps,
    also=_insights_of_step,
)
TOKENS: Final = Source(
    table=AGENT_EVENTS.name,
    event="token",
    follow="created",
    scoped=events_of,
    rooms_of=_rooms_of_event,
    conditions=_events_in_sessions,
    look=lambda event, _: None if event.kind == INSIGHT else event_shape(event),
    rank=lambda event: (event.session_id, event.iteration, event.epoch, event.event_seq),
    columns=_everything,
    key="id",
    shown=shown_events,
    also=_insight_of_event,
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
    also=_insight_of_message,
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
    also=_questions_of_state,
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
TOOLS: Final = Source(
    table=TOOL_PINS.name,
    event="tool",
    follow="changed",
    scoped=tool_pins_of,
    rooms_of=_room_of_tool,
    conditions=_tools,
    look=_look_of_tool,
    rank=lambda pin: pin.tool,
    columns=lambda _: _TOOL_COLUMNS,
    key="tool",
)

#: what happened comes before what is now
ALL: Final = (TOKENS, STEPS, POSTS, ACTIONS, STATES, TOOLS)
_OF_KIND: Final[Mapping[RoomKind, tuple[Source, ...]]] = {
    RoomKind.SESSION: (TOKENS, STEPS, ACTIONS, STATES),
    RoomKind.CONVERSATION: (TOKENS, POSTS, STATES),
    RoomKind.SESSIONS: (STATES,),
    RoomKind.QUEUE: (ACTIONS,),
    RoomKind.APPROVALS: (STATES,),
    RoomKind.TOOLS: (TOOLS,),
}
