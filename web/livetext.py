"""What the running steps of some sessions have said so far, for a page that begins in the middle of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from store import TenantStore
from store.agent_events import AgentEvent, running_text
from store.ids import SessionId
from web.shapes import Json, event_shape


async def live_text(db: TenantStore, last_steps: Mapping[SessionId, int]) -> list[Json]:
    """One event for each call of the steps behind `last_steps`, shaped as live ones: its text from the beginning.

    Take the page's cursor first: what is stored in between then comes twice, and offsets make that harmless.
    """
    events = await running_text(db, list(last_steps), last_steps)
    return [event_shape(event) for event in _joined(events)]


def _joined(events: Iterable[AgentEvent]) -> list[AgentEvent]:
    """Of each call the text of its newest stream in one event; a piece that came twice counts once."""
    calls: dict[tuple[str, int, int], AgentEvent] = {}
    for event in events:
        key = (event.session_id, event.iteration, event.data["call"])
        before = calls.get(key)
        if before is None or _stream(before) < _stream(event):
            calls[key] = event
        elif _stream(before) == _stream(event):
            calls[key] = _with(before, event)
    return list(calls.values())


def _stream(event: AgentEvent) -> tuple[int, int]:
    return event.epoch, event.data["stream"]


def _with(event: AgentEvent, more: AgentEvent) -> AgentEvent:
    known = len(event.data["text"]) - (more.data["offset"] - event.data["offset"])
    fresh = more.data["text"][max(0, known) :]
    return replace(event, data={**event.data, "text": event.data["text"] + fresh})
