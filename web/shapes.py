"""From the store's records to what goes over the wire: JSON-ready dictionaries, times in ISO 8601 UTC."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from typing_extensions import TypedDict

from store import Action, ActionStatus, AgentState, AgentStep, SessionStatus
from store.agent_events import AgentEvent
from store.approvals import open_approvals_of
from store.insights import Insight
from store.jsontext import json_dumps
from web.names import session_name

Json = dict[str, Any]

#: of one value of a session's config, as JSON, in a list of sessions
_LISTED_CHARS = 500
CREATE_FAILED = frozenset({ActionStatus.FAILED, ActionStatus.DEAD})


#: columns that are the store's own business
_INNER = frozenset({"lane", "changes", "base", "beats", "lease_s"})
_EPOCH_SHOWN = (AgentStep, AgentEvent)
_SPEC_FIELDS = ("task", "config", "stop_on_done", "max_steps", "max_runtime_s", "forked_from", "budget")


class Session(TypedDict):
    """A session."""

    session_id: str
    agent_id: str
    conversation_id: str | None
    moniker: str
    name: str
    status: SessionStatus
    reason: str | None
    iteration: int
    step_token: str | None
    next_step_token: str
    result: Any
    context: Any
    last_error: str | None
    usage: Any
    task: str | None
    config: Any
    stop_on_done: bool | None
    max_steps: int | None
    max_runtime_s: float | None
    forked_from: Any
    budget: Any
    wake_at: datetime | None
    created_at: datetime
    updated_at: datetime


def plain(value: Any) -> Any:
    """A value of a record as JSON has it."""
    if isinstance(value, datetime):
        return time_of(value)
    return value.value if isinstance(value, StrEnum) else value


def time_of(moment: datetime) -> str:
    """ISO 8601 in UTC, always with microseconds."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def shape(record: Any) -> Json:
    """A step, message, action, conversation, participant or agent: its fields, as JSON has them."""
    return {name: plain(getattr(record, name)) for name in shown_fields(type(record))}


def shown_fields(kind: type[Any]) -> tuple[str, ...]:
    """The fields of a record that go over the wire."""
    hidden = _INNER if kind in _EPOCH_SHOWN else _INNER | {"epoch"}
    return tuple(item.name for item in dataclasses.fields(kind) if item.name not in hidden)


def session_shape(state: AgentState) -> Json:
    """A session from its row."""
    own = ("session_id", "agent_id", "conversation_id", "moniker")
    return {
        **{name: getattr(state, name) for name in own},
        "name": session_name(state.session_id),
        "status": state.status.value,
        "reason": state.reason,
        "iteration": state.iteration,
        "step_token": state.step_token,
        "next_step_token": state.next_step_token,
        "result": state.result,
        "context": state.context,
        "last_error": state.last_error,
        "usage": state.usage,
        **_spec_fields(state.spec),
        "wake_at": plain(state.wake_at) if _sleeps(state) else None,
        "created_at": time_of(state.created_at),
        "updated_at": time_of(state.updated_at),
    }


def _sleeps(state: AgentState) -> bool:
    """Whether its moment ends a sleep; that of a session which asks a person ends the time for an answer."""
    return state.status is not SessionStatus.WAITING or (state.reason or "").startswith("sleeping")


def asking_shape(state: AgentState) -> Json:
    """What a session asks people now: all its open questions, none when it asks nothing any more."""
    return {
        "session_id": state.session_id,
        "conversation_id": state.conversation_id,
        "items": [shape(one) for one in open_approvals_of(state)],
        "updated_at": time_of(state.updated_at),
    }


def listed_session_shape(state: AgentState) -> Json:
    """A session in a list: without its context and without what is long in its config."""
    shown = session_shape(state)
    return {**shown, "context": None, "config": _short(shown["config"])}


def _short(config: Any) -> Any:
    if not isinstance(config, Mapping):
        return config
    return {name: value if len(json_dumps(value)) <= _LISTED_CHARS else None for name, value in config.items()}


def queued_session_shape(create: Action) -> Json:
    """A session whose create has not been carried out yet, or could not be.

    Its stamp is that of the create until that failed: the session's first row may carry an earlier one than the end of
    its create, and must not look older than what is shown before it.
    """
    payload = create.payload if isinstance(create.payload, Mapping) else {}
    failed = create.status in CREATE_FAILED
    return {
        "session_id": create.session_id,
        "agent_id": create.agent_id,
        "conversation_id": create.conversation_id,
        "moniker": str(payload.get("moniker", "")),
        "name": session_name(create.session_id or ""),
        "status": (SessionStatus.ERROR if failed else SessionStatus.CREATED).value,
        "reason": "it could not be created" if failed else "in the queue, not begun yet",
        "iteration": -1,
        "step_token": None,
        "next_step_token": "",
        "result": None,
        "context": None,
        "last_error": create.error if failed else None,
        "usage": None,
        **_spec_fields(payload),
        "wake_at": None,
        "created_at": time_of(create.created_at),
        "updated_at": time_of((create.processed_at if failed else None) or create.created_at),
    }


def insight_shape(
    insight: Insight, *, session_id: str, iteration: int, created_at: datetime, stored: bool = True
) -> Json:
    """An insight as it is told live; one that is not `stored` yet may still be replaced, or become void."""
    return {
        **insight.row(),
        "session_id": session_id,
        "iteration": iteration,
        "created_at": time_of(created_at),
        "expires_at": time_of(created_at + timedelta(seconds=insight.expiry)),
        "stored": stored,
    }


def event_shape(event: AgentEvent) -> Json:
    """Something that happened inside a step: a token or its progress."""
    return shape(event)


def many(items: Iterable[Json], next_cursor: str | None = None, **more: Any) -> Json:
    """A list, as every list looks."""
    return {"items": list(items), "next_cursor": next_cursor, **more}


def counts(found: Mapping[Any, int]) -> dict[str, int]:
    """How many there are in each status."""
    return {status.value: number for status, number in found.items()}


def _spec_fields(spec: Any) -> Json:
    given = spec if isinstance(spec, Mapping) else {}
    return {name: given.get(name) for name in _SPEC_FIELDS}
