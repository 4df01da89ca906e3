"""What the pages read: the same shapes as the API, each with the live cursor that was valid before it was read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from store import (
    Action,
    ActionFilter,
    ActionStatus,
    AgentState,
    NotFoundError,
    Page,
    SessionFilter,
    SessionStatus,
    StepFilter,
    TenantStore,
    count_actions,
    count_sessions,
    get_conversation,
    list_actions,
    list_agent_steps,
    list_conversations,
    list_messages,
    list_participants,
    list_sessions,
)
from store.agent_state import get_agent_states
from store.approvals import list_approvals
from store.ids import ConversationId, SessionId, step_id
from store.paging import encode_cursor
from store.search import SearchKind, Sought, search
from store.tool_pins import list_tool_pins
from web.api import openapi
from web.api.budgets import budgets_of_session, budgets_page
from web.api.memories import memories_page
from web.api.monikers import moniker_shapes
from web.api.search import search_shape
from web.api.table import OPERATIONS
from web.api.tools import tool_shape
from web.bridge import StoreBridge
from web.livetext import live_text
from web.lookup import find_known
from web.queries import MemoriesQuery
from web.recent import last_texts
from web.replay import cursor_of
from web.rooms import Room, RoomKind
from web.routes import Api, ask, read_query
from web.shapes import Json, counts, listed_session_shape, many, shape

T = TypeVar("T")

NEWEST = 100


@dataclass(frozen=True, slots=True)
class StoreViews:
    """`web.pages.Views` over the store. Each method is one turn on the store's loop."""

    api: Api
    bridge: StoreBridge

    def frame(self) -> Json:
        """What surrounds every page."""
        return ask(self.bridge, self.api.vitals.now()).frame()

    def sessions(self, *, statuses: Sequence[str], cursor: str | None, limit: int) -> Json:
        """A page of sessions in any of some statuses, each with its last text."""
        return ask(self.bridge, _sessions(self.api.db, statuses, cursor, limit))

    def session(self, session_id: str) -> Json | None:
        """A session with its newest steps."""
        return ask(self.bridge, _session(self.api.db, SessionId(session_id)))

    def conversations(self, *, cursor: str | None, limit: int) -> Json:
        """A page of threads."""
        return ask(self.bridge, _conversations(self.api.db, cursor, limit))

    def conversation(self, conversation_id: str) -> Json | None:
        """A thread with its newest messages and who takes part."""
        return ask(self.bridge, _conversation(self.api.db, ConversationId(conversation_id)))

    def queue(self, *, statuses: Sequence[str], cursor: str | None, limit: int) -> Json:
        """A page of actions in any of some statuses."""
        return ask(self.bridge, _queue(self.api.db, statuses, cursor, limit))

    def budgets(self, *, cursor: str | None, limit: int) -> Json:
        """A page of budgets with what was spent."""
        return ask(self.bridge, _budgets(self.api.db, cursor, limit))

    def memories(self, asked: Mapping[str, str], *, cursor: str | None, limit: int) -> Json:
        """A page of what agents remember."""
        return ask(self.bridge, _memories(self.api.db, asked, cursor, limit))

    def approvals(self, *, limit: int) -> Json:
        """The questions that were asked first."""
        return ask(self.bridge, _approvals(self.api.db, limit))

    def tools(self) -> Json:
        """Every tool of an MCP server that was ever seen."""
        return ask(self.bridge, _tools(self.api.db))

    def search(self, q: str, *, kind: str, cursor: str | None, limit: int) -> Json:
        """A page of what holds some words; any other `kind` than one of them is for all."""
        kinds = tuple(one for one in SearchKind if one.value == kind) or tuple(SearchKind)
        page = search(self.api.db, Sought(q, kinds), limit=limit, cursor=cursor)
        return search_shape(ask(self.bridge, page))

    def monikers(self) -> list[Json]:
        """Every moniker, in the order to offer them."""
        return moniker_shapes(self.api.catalogue)

    def openapi(self) -> Json:
        """The OpenAPI document."""
        return openapi.document(OPERATIONS)


async def _sessions(db: TenantStore, statuses: Sequence[str], cursor: str | None, limit: int) -> Json:
    live_cursor = await cursor_of(db, Room(RoomKind.SESSIONS))
    page = await _any_of(
        [SessionStatus(status) for status in statuses],
        lambda status: list_sessions(db, SessionFilter(status=status), limit=limit, cursor=cursor),
        lambda state: (state.created_at, state.session_id),
        limit,
    )
    texts = await last_texts(db, [(state.session_id, state.iteration) for state in page.items])
    items = [_with_text(state, texts) for state in page.items]
    return many(items, page.next_cursor, counts=counts(await count_sessions(db)), live_cursor=live_cursor)


def _with_text(state: AgentState, texts: dict[str, str | None]) -> Json:
    text = texts.get(step_id(state.session_id, state.iteration))
    return {**listed_session_shape(state), "last_text": text}


async def _session(db: TenantStore, session_id: SessionId) -> Json | None:
    live_cursor = await cursor_of(db, Room(RoomKind.SESSION, session_id))
    known = await find_known(db, session_id)
    if known is None:
        return None
    newest = await list_agent_steps(db, StepFilter(session_id=session_id), order="desc", limit=NEWEST)
    last = newest.items[0].iteration if newest.items else -1
    return {
        "session": known.shape(),
        "steps": [shape(step) for step in reversed(newest.items)],
        "live_text": await live_text(db, {session_id: last}),
        "budgets": await budgets_of_session(db, known.source) if isinstance(known.source, AgentState) else [],
        "live_cursor": live_cursor,
    }


async def _conversations(db: TenantStore, cursor: str | None, limit: int) -> Json:
    page = await list_conversations(db, cursor=cursor, limit=limit)
    return many(map(shape, page.items), page.next_cursor)


async def _conversation(db: TenantStore, conversation_id: ConversationId) -> Json | None:
    live_cursor = await cursor_of(db, Room(RoomKind.CONVERSATION, conversation_id))
    try:
        thread = await get_conversation(db, conversation_id)
    except NotFoundError:
        return None
    members = await list_participants(db, conversation_id)
    messages = await list_messages(db, conversation_id, order="desc", limit=NEWEST)
    states = await get_agent_states(db, [member.session_id for member in members if member.session_id])
    running = {state.session_id: state.iteration for state in states.values() if not state.ended}
    return {
        "conversation": shape(thread),
        "messages": [shape(message) for message in reversed(messages.items)],
        "participants": [shape(member) for member in members],
        "sessions": [listed_session_shape(state) for state in states.values()],
        "live_text": await live_text(db, running),
        "stored": {state.session_id: state.iteration for state in states.values()},
        "live_cursor": live_cursor,
    }


async def _queue(db: TenantStore, statuses: Sequence[str], cursor: str | None, limit: int) -> Json:
    live_cursor = await cursor_of(db, Room(RoomKind.QUEUE))
    page: Page[Action] = await _any_of(
        [ActionStatus(status) for status in statuses],
        lambda status: list_actions(db, ActionFilter(status=status), limit=limit, cursor=cursor),
        lambda action: (action.created_at, action.id),
        limit,
    )
    return many(
        map(shape, page.items), page.next_cursor, counts=counts(await count_actions(db)), live_cursor=live_cursor
    )


async def _budgets(db: TenantStore, cursor: str | None, limit: int) -> Json:
    live_cursor = await cursor_of(db, Room(RoomKind.SESSIONS))
    return {**await budgets_page(db, limit=limit, cursor=cursor), "live_cursor": live_cursor}


async def _memories(db: TenantStore, asked: Mapping[str, str], cursor: str | None, limit: int) -> Json:
    live_cursor = await cursor_of(db, Room(RoomKind.SESSIONS))
    query = read_query(MemoriesQuery, {**asked, "limit": limit, "cursor": cursor})
    return {**await memories_page(db, query), "live_cursor": live_cursor}


async def _approvals(db: TenantStore, limit: int) -> Json:
    live_cursor = await cursor_of(db, Room(RoomKind.APPROVALS))
    page = await list_approvals(db, limit=limit)
    return many(map(shape, page.items), page.next_cursor, live_cursor=live_cursor)


async def _tools(db: TenantStore) -> Json:
    live_cursor = await cursor_of(db, Room(RoomKind.TOOLS))
    pins = sorted(await list_tool_pins(db), key=lambda pin: (pin.server, pin.tool))
    return many(map(tool_shape, pins), live_cursor=live_cursor)


async def _any_of(
    statuses: Iterable[Any],
    read: Callable[[Any], Awaitable[Page[T]]],
    place: Callable[[T], tuple[Any, Any]],
    limit: int,
) -> Page[T]:
    """One page over several statuses: a page of each, merged; all have the same order and so the same cursors."""
    pages = await asyncio.gather(*[read(status) for status in statuses or [None]])
    merged = sorted((item for page in pages for item in page.items), key=place, reverse=True)
    more = len(merged) > limit or any(page.next_cursor for page in pages)
    items = tuple(merged[:limit])
    return Page(items, encode_cursor(place(items[-1])) if more and items else None)
