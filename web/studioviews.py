"""What the studio's page reads: the sets with their agents, one agent's versions, and the sessions to try it in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from store import AgentState, NotFoundError, SessionFilter, list_sessions
from store.conversations import find_conversations
from store.ids import SessionId
from web.bridge import StoreBridge
from web.copilotagents import find_set, newest_agents, versions_of
from web.lookup import find_known
from web.names import session_name
from web.routes import Api, ask
from web.shapes import Json
from web.workshop import COPILOT, ShippedSet

_MAX_SESSIONS: Final = 50


@dataclass(frozen=True, slots=True)
class StudioViews:
    """`web.studiopages.Views` over the store. Each method is one turn on the store's loop."""

    api: Api
    bridge: StoreBridge

    def frame(self) -> Json:
        """What surrounds every page."""
        return ask(self.bridge, self.api.vitals.now()).frame()

    def studio(self, agent_set: str, agent_id: str, session_id: str) -> Json | None:
        """Everything that the page begins with; None for a set or an agent that is not there."""
        try:
            return ask(self.bridge, _studio(self.api, agent_set, agent_id, session_id))
        except NotFoundError:
            return None


async def _studio(api: Api, agent_set: str, agent_id: str, session_id: str) -> Json:
    shipped = api.workshop.sets()
    sets = await asyncio.gather(*[_set(api, one) for one in shipped])
    session = await _session(api, session_id)
    chosen = find_set(api, agent_set or _set_of(session, shipped)) if shipped else None
    return {
        "sets": sets,
        "chosen": None if chosen is None else await _agent(api, chosen, agent_id, session),
        "sessions": await _sessions(api, session),
        "session": None if session is None else _entry(session, {}),
        "asked_session": session_id,
    }


async def _set(api: Api, of_set: ShippedSet) -> Json:
    newest = await newest_agents(api, of_set)
    return {
        "name": of_set.name,
        "title": of_set.title,
        "description": of_set.description,
        "agents": [
            {"agent_id": one["agent_id"], "name": _name(one["definition"]), "version": one["version"]} for one in newest
        ],
    }


def _name(definition: Any) -> str:
    given = _object(definition)
    return str(given.get("name") or given.get("id") or "")


async def _session(api: Api, session_id: str) -> AgentState | None:
    """The session that the page was opened for, if it is one of the copilot's that has begun."""
    known = None if not session_id else await find_known(api.db, SessionId(session_id))
    source = None if known is None else known.source
    return source if isinstance(source, AgentState) and source.moniker == COPILOT else None


def _set_of(session: AgentState | None, shipped: Sequence[ShippedSet]) -> str:
    named = "" if session is None else str(_config(session).get("agent_set") or "")
    names = [one.name for one in shipped]
    return named if named in names else names[0]


async def _agent(api: Api, of_set: ShippedSet, agent_id: str, session: AgentState | None) -> Json:
    """An agent of a set, by default its first, with all versions; one that only the session has is a draft."""
    wanted = agent_id or str(of_set.configs[0].get("id"))
    running = None if session is None else _running(session, of_set).get(wanted)
    try:
        versions = await versions_of(api, of_set, wanted)
    except NotFoundError:
        if running is None:
            raise
        versions = []
    newest = versions[0]["definition"] if versions else running
    return {
        "agent_set": of_set.name,
        "set_title": of_set.title,
        "agent_id": wanted,
        "name": _name(newest),
        "definition": newest,
        "based_on": versions[0]["version"] if versions else 0,
        "versions": versions,
        "running": _told(running, versions),
    }


def _running(session: AgentState, of_set: ShippedSet) -> Mapping[str, Any]:
    """The definitions that a session uses now, by agent; None for one that was taken away."""
    config = _config(session)
    of_config = [one for one in config.get("agents") or () if isinstance(one, Mapping)]
    shipped = of_set.configs if config.get("agent_set") == of_set.name else ()
    given = {str(one.get("id")): one for one in [*shipped, *of_config]}
    return {**given, **_object(_object(session.context).get("agents"))}


def _told(running: Any, versions: Sequence[Json]) -> str:
    """What of an agent a session uses, in words."""
    if running is None:
        return ""
    same = [one["version"] for one in versions if one["definition"] == running]
    if not same:
        return "a version of its own"
    return f"version {same[0]}" if same[0] else "the one that ships"


async def _sessions(api: Api, session: AgentState | None) -> list[Json]:
    """The newest sessions of the copilot, dry runs left out, and the one that the page was opened for."""
    page = await list_sessions(api.db, SessionFilter(moniker=COPILOT), limit=_MAX_SESSIONS)
    shown = [one for one in page.items if not _config(one).get("dry_run")]
    if session is not None and all(one.session_id != session.session_id for one in shown):
        shown.append(session)
    threads = await find_conversations(api.db, [one.conversation_id for one in shown if one.conversation_id])
    titles = {str(thread.conversation_id): thread.title for thread in threads.values()}
    return [_entry(one, titles) for one in shown]


def _entry(session: AgentState, titles: Mapping[str, str]) -> Json:
    return {
        "session_id": session.session_id,
        "name": session_name(session.session_id),
        "title": titles.get(session.conversation_id or "", ""),
        "status": session.status.value,
        "ended": session.ended,
        "iteration": session.iteration,
    }


def _config(session: AgentState) -> Mapping[str, Any]:
    return _object(_object(session.spec).get("config"))


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
