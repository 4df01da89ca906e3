"""What came of a dry run, from the rows that its fork left: asked, answered, found, or not run and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from typing_extensions import TypedDict

from store import Action, AgentState, AgentStep, NotFoundError, get_action, list_agent_steps_latest
from store.agent_steps import state_at
from store.errors import BadRowError
from store.ids import ActionId
from store.records import Record, list_records
from web.lookup import Known
from web.routes import Api
from web.shapes import Json, shape
from web.workshop import in_time

_MODEL_CALL = "model"


class Asked(TypedDict):
    """A message to a model."""

    role: str
    content: str


class Answered(TypedDict):
    """What a model said, word for word, or why it said nothing."""

    text: str | None
    error: str | None
    model: str | None
    input_tokens: int
    output_tokens: int
    cost: str | None
    ms: float


class DryRunResult(TypedDict):
    """A dry run. `step` is null until its turn is stored; `run` is the agent's, null when it was not run.

    `asked` is the prompt on the board as it was before the turn; null when that cannot be made any more.
    """

    session_id: str
    status: str
    reason: str | None
    agent_id: str | None
    definition: Any
    asked: list[Asked] | None
    answers: list[Answered]
    run: Any
    skipped: str | None
    insights: list[Any]
    step: Any


async def dry_run_of(api: Api, fork: Known) -> Json:
    """The dry run whose fork this is. Raises `NotFoundError` for a session that is none."""
    config = _config_of(fork)
    if not config.get("dry_run"):
        raise NotFoundError("dry run", fork.session_id)
    shown = fork.shape()
    found: Json = {
        "session_id": fork.session_id,
        "status": shown["status"],
        "reason": shown["last_error"] or shown["reason"],
        "agent_id": None,
        "definition": None,
        "asked": None,
        "answers": [],
        "run": None,
        "skipped": None,
        "insights": [],
        "step": None,
    }
    step = await _turn(api, fork)
    return found if step is None else {**found, **await _told(api, fork, config, step)}


def _config_of(fork: Known) -> Mapping[str, Any]:
    source = fork.source
    spec = source.spec if isinstance(source, AgentState) else source.payload
    return _object(_object(spec).get("config"))


async def _turn(api: Api, fork: Known) -> AgentStep | None:
    """The step that took the fork's one input."""
    newest = await list_agent_steps_latest(api.db, session_id=fork.session_id, limit=1)
    return newest[0] if newest and newest[0].iteration > 0 else None


async def _told(api: Api, fork: Known, config: Mapping[str, Any], step: AgentStep) -> Json:
    definition = _object(next(iter(_tried(await _input_of(api, step))), {}))
    agent_id = definition.get("id")
    data = _object(step.data)
    phases = [phase for turn in _rows(data, "turns") for phase in _rows(turn, "phases")]
    mine = [run for phase in phases for run in _rows(phase, "ran") if run.get("agent_id") == agent_id]
    skips = [skip for phase in phases for skip in _rows(phase, "skipped") if skip.get("agent_id") == agent_id]
    records = await list_records(api.db, fork.session_id, step.iteration)
    return {
        "agent_id": agent_id,
        "definition": definition or None,
        "asked": await _asked(api, fork, config, definition),
        "answers": [_answered(record) for record in records if record.kind == _MODEL_CALL],
        "run": mine[0] if mine else None,
        "skipped": str(skips[0].get("reason")) if skips and not mine else None,
        "insights": _rows(data, "insights"),
        "step": shape(step),
    }


async def _input_of(api: Api, step: AgentStep) -> Action | None:
    """The input that the step took; None where it is gone from the queue."""
    if step.action_id is None:
        return None
    try:
        return await get_action(api.db, ActionId(step.action_id))
    except NotFoundError:
        return None


def _tried(said: Action | None) -> list[Any]:
    data = _object(_object(None if said is None else said.payload).get("data"))
    return _rows(data, "agents")


async def _asked(api: Api, fork: Known, config: Mapping[str, Any], definition: Mapping[str, Any]) -> Any:
    try:
        before = _object(await state_at(api.db, fork.session_id, 0))
    except (NotFoundError, BadRowError):
        return None
    draft = await in_time(api.workshop.preview, definition, fork.session_id, config, before)
    return None if draft.problems else [dict(message) for message in draft.messages]


def _answered(record: Record) -> Json:
    """A record of a model call; a call that failed is one too (`runtime.llm.recorded`)."""
    told = _object(record.result)
    used, failed = _object(told.get("usage")), _object(told.get("failed"))
    return {
        "text": told.get("text"),
        "error": str(failed.get("message") or failed.get("kind") or failed) if failed else None,
        "model": told.get("model"),
        "input_tokens": used.get("input_tokens") or 0,
        "output_tokens": used.get("output_tokens") or 0,
        "cost": told.get("cost"),
        "ms": record.latency_ms,
    }


def _rows(value: Any, name: str) -> list[Any]:
    """The objects in a list of an object; whatever else stands there is left out."""
    return list(_objects(_object(value).get(name)))


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    yield from (one for one in (value if isinstance(value, list) else ()) if isinstance(one, Mapping))


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
