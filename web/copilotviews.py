"""What the copilot's pages read: the sessions of its moniker, and one of them with the live cursors of its rooms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from store import (
    Action,
    ActionFilter,
    ActionKind,
    ActionStatus,
    AgentState,
    SessionFilter,
    StepFilter,
    TenantStore,
    list_actions,
    list_agent_steps,
    list_sessions,
)
from store.agent_events import running_events
from store.conversations import find_conversations
from store.ids import SessionId
from web.api.budgets import budgets_of_session
from web.bridge import StoreBridge
from web.copilotpages import MONIKER
from web.copilotshapes import board_of, insights_by_zone, said_in, sections_of, turns_in
from web.copilotwords import agent_set_of, is_dry_run
from web.lookup import find_known
from web.replay import cursor_of
from web.rooms import Room, RoomKind
from web.routes import Api, ask
from web.shapes import Json, listed_session_shape, many
from web.sources import INSIGHT

#: steps that a page is made of
NEWEST: Final = 100


@dataclass(frozen=True, slots=True)
class CopilotViews:
    """The reads behind the pages. Each method is one turn on the store's loop."""

    api: Api
    bridge: StoreBridge

    def frame(self) -> Json:
        """What surrounds every page."""
        return ask(self.bridge, self.api.vitals.now()).frame()

    def sessions(self, *, cursor: str | None, limit: int) -> Json:
        """`{"items": [session with `title`], "next_cursor", "live_cursor"}`, newest first."""
        return ask(self.bridge, _sessions(self.api.db, cursor, limit))

    def session(self, session_id: str) -> Json | None:
        """A session with what was said, its insights, board and turns; None for an unknown id."""
        return ask(self.bridge, _session(self.api.db, SessionId(session_id)))


async def _sessions(db: TenantStore, cursor: str | None, limit: int) -> Json:
    live_cursor = await cursor_of(db, Room(RoomKind.SESSIONS))
    page = await list_sessions(db, SessionFilter(moniker=MONIKER), limit=limit, cursor=cursor)
    titles = await _titles(db, page.items)
    shapes = (listed_session_shape(state) for state in page.items)
    items = [{**one, "title": titles.get(one["session_id"], "")} for one in shapes if not is_dry_run(one)]
    return many(items, page.next_cursor, live_cursor=live_cursor)


async def _titles(db: TenantStore, states: tuple[AgentState, ...]) -> dict[str, str]:
    threads = {state.session_id: state.conversation_id for state in states if state.conversation_id}
    known = await find_conversations(db, list(threads.values())) if threads else {}
    return {session_id: known[thread].title for session_id, thread in threads.items() if thread in known}


async def _session(db: TenantStore, session_id: SessionId) -> Json | None:
    # before the rows: what is stored in between then comes twice, and is dropped by its id
    cursor = await cursor_of(db, Room(RoomKind.SESSION, session_id))
    known = await find_known(db, session_id)
    if known is None:
        return None
    thread = known.conversation_id
    thread_cursor = await cursor_of(db, Room(RoomKind.CONVERSATION, thread)) if thread else None
    page = await list_agent_steps(db, StepFilter(session_id=session_id), order="desc", limit=NEWEST)
    steps = list(reversed(page.items))
    early = await running_events(db, session_id, INSIGHT, after=steps[-1].iteration if steps else -1)
    titles = await find_conversations(db, [thread]) if thread else {}
    session, board, zones = known.shape(), board_of(steps), insights_by_zone(steps, early)
    return {
        "session": session,
        "plain": {**session, "context": None, "config": {"agent_set": agent_set_of(session)}},
        "title": titles[thread].title if thread in titles else "",
        "said": said_in(steps, await _unheard(db, session_id)),
        "zones": zones,
        "insight_list": [insight for listed in zones.values() for insight in listed],
        "board_now": board,
        "sections": sections_of(board),
        "turns": turns_in(steps),
        "first": steps[0].iteration if steps else 0,
        "last": steps[-1].iteration if steps else -1,
        "budgets": await budgets_of_session(db, known.source) if isinstance(known.source, AgentState) else [],
        "live_cursor": cursor,
        "thread_cursor": thread_cursor,
    }


async def _unheard(db: TenantStore, session_id: SessionId) -> list[Action]:
    """What was said to it and waits in the queue, oldest first."""
    found: list[Action] = []
    for status in (ActionStatus.CLAIMED, ActionStatus.PENDING):
        wanted = ActionFilter(session_id=session_id, kind=ActionKind.INPUT, status=status)
        found += (await list_actions(db, wanted, limit=NEWEST)).items
    return sorted(found, key=lambda action: (action.created_at, action.id))
