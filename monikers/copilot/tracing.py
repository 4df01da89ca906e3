"""Traces of turns as nested JSON, with hashes to replay by (spec 2 §11.2, §11.3)."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from collections.abc import Mapping
from datetime import UTC
from typing import Any

from monikers.copilot.board import Board, is_reserved
from monikers.copilot.callbacks import AgentCallbackHandler
from monikers.copilot.findings import Findings
from monikers.copilot.jsonvalues import json_value
from monikers.copilot.routing import Skip
from monikers.copilot.turnrecord import PhaseRecord, TurnRecord

MAX_TRACES = 200
#: what a replay may not depend on
_TIMES = ("timestamp",)
#: counted in every summary, also when there is none
_ALWAYS = (Skip.COOLDOWN, Skip.CONDITIONS, Skip.TRIGGER)

_log = logging.getLogger("AgentTracer")


class StructuredLogTracer(AgentCallbackHandler):
    """Keeps a trace of every turn in `traces`, newest last, and writes it to the log "AgentTracer" as one line of JSON.

    A trace holds what is on the board: whoever may read one may read the conversation's secrets. `include_prompts` adds
    the prompts and the models' answers, as agents tell them in `debug_info` ("prompt_messages", "llm_output").
    """

    def __init__(self, max_traces: int = MAX_TRACES, *, include_prompts: bool = False) -> None:
        self.traces: list[dict[str, Any]] = []
        self._max_traces = max_traces
        self._include_prompts = include_prompts

    async def on_turn_record(self, record: TurnRecord) -> None:
        trace = trace_of(record, include_prompts=self._include_prompts)
        self.traces.append(trace)
        del self.traces[: max(len(self.traces) - self._max_traces, 0)]
        if _log.isEnabledFor(logging.INFO):
            _log.info("TURN_TRACE: %s", json.dumps(trace))


def trace_of(record: TurnRecord, *, include_prompts: bool = False) -> dict[str, Any]:
    """A turn as the nested dict of §11.2, nothing in it but what JSON has. Durations are whole milliseconds."""
    initial, final = _board(record.initial), _board(record.final or record.initial)
    trace = {
        "turn_id": record.turn_id,
        "timestamp": record.began_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "session_id": record.context.session_id,
        "context": {
            "user_context": record.context.user_context,
            "language_directive": record.context.language_directive,
            "transcript_segments": len(record.context.recent_segments),
            "rag_docs_count": len(record.context.rag_docs),
        },
        "trigger": {"type": record.trigger, "metadata": _shown(record.metadata)},
        "blackboard_initial": initial,
        "phases": [_phase(phase) for phase in record.phases],
        "blackboard_final": final,
        "blackboard_delta": _delta(record, initial, final),
        "response": _response(record),
        "performance": _performance(record),
        "agents_skipped_summary": _skipped_summary(record),
        "replay": replay_hashes(record),
    }
    return {**trace, **_prompts(record)} if include_prompts else trace


def _board(board: Board) -> dict[str, Any]:
    return {
        "variables": _shown({key: value for key, value in board.variables.items() if not is_reserved(key)}),
        "queues": _shown(board.queues),
        "facts_count": len(board.facts),
        "events": _shown(board.events),
    }


def _phase(phase: PhaseRecord) -> dict[str, Any]:
    head: dict[str, Any] = {"phase": phase.number}
    if phase.number > 1:
        head["trigger_events"] = list(phase.trigger_events)
    return {
        **head,
        "agents_eligible": phase.eligible,
        "agents_skipped": [
            {"agent": agent_id, "reason": reason.value}
            for agent_id, reason in phase.skipped
            if reason is not Skip.TRIGGER
        ],
        "agents_run": [_run(found, duration_s) for found, duration_s in phase.runs],
        "events_collected": list(phase.emitted),
    }


def _run(found: Findings, duration_s: float) -> dict[str, Any]:
    run = {
        "agent": found.agent_id,
        "duration_ms": _ms(duration_s),
        "insights": len(found.insights),
        "events_emitted": [{"name": event.name, "payload": _shown(event.payload)} for event in found.events],
        "variable_updates": _shown(found.variables),
    }
    if found.queues:
        run["queue_pushes"] = _shown(found.queues)
    if found.facts:
        run["facts"] = len(found.facts)
    if found.failed:
        run["error"] = found.insights[0].content
    return run


def _delta(record: TurnRecord, initial: Mapping[str, Any], final: Mapping[str, Any]) -> dict[str, Any]:
    before = {id(fact) for fact in record.initial.facts}
    facts = (record.final or record.initial).facts
    return {
        "variables_changed": _changed(initial["variables"], final["variables"]),
        "queues_changed": _changed(initial["queues"], final["queues"]),
        "facts_added": sum(id(fact) not in before for fact in facts),
        "events_emitted": [event.name for event in record.response.events],
    }


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    absent = object()
    return [key for key in {**before, **after} if before.get(key, absent) != after.get(key, absent)]


def _response(record: TurnRecord) -> dict[str, int]:
    response = record.response
    return {
        "insights_count": len(response.insights),
        "variable_updates_count": len(response.variable_updates),
        "queue_pushes_count": sum(len(items) for items in response.queue_pushes.values()),
        "events_emitted_total": len(response.events),
    }


def _performance(record: TurnRecord) -> dict[str, Any]:
    durations = {phase.number: _ms(phase.duration_s) for phase in record.phases}
    return {
        "total_duration_ms": _ms(record.duration_s),
        "phase_1_duration_ms": durations.get(1, 0),
        "phase_2_duration_ms": durations.get(2, 0),
        "llm_calls": record.response.usage.get("calls", 0),
    }


def _skipped_summary(record: TurnRecord) -> dict[str, int]:
    counts = {reason.value: 0 for reason in _ALWAYS}
    for phase in record.phases:
        for _, reason in phase.skipped:
            counts[reason.value] = counts.get(reason.value, 0) + 1
    return counts


def _prompts(record: TurnRecord) -> dict[str, Any]:
    told = record.response.debug_info
    return {
        name: {agent_id: _told(info[key]) for agent_id, info in told.items() if key in info}
        for name, key in (("rendered_prompts", "prompt_messages"), ("llm_responses", "llm_output"))
    }


def _told(value: Any) -> str:
    """Messages or an answer as text; what is neither as JSON."""
    if isinstance(value, str):
        return value
    messages: list[Any] = value if isinstance(value, list) else []
    if messages and all(isinstance(one, dict) and {"role", "content"} <= one.keys() for one in messages):
        return "\n\n".join(f"{one['role']}:\n{one['content']}" for one in messages)
    return json.dumps(_shown(value), ensure_ascii=False)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


# --- replay ---------------------------------------------------------------------------------------------------------


def replay_hashes(record: TurnRecord) -> dict[str, str]:
    """Hashes of what a turn began with: the same three mean the same turn, as far as its models answer alike."""
    given = record.context.model_dump(exclude={"blackboard"})
    given |= {"trigger_type": record.trigger, "trigger_metadata": record.metadata, "turn_count": record.turn_count}
    return {
        "context_hash": digest(_without_times(_shown(given))),
        "blackboard_snapshot_hash": digest(_without_times(record.initial.to_dict())),
        "agent_configs_hash": digest(record.agent_configs),
    }


def digest(value: Any) -> str:
    """The hash of a value as canonical JSON: sorted keys, no white space. Objects that JSON does not know count by
    type."""
    text = json.dumps(_shown(value), sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _without_times(given: dict[str, Any]) -> dict[str, Any]:
    """The same without the timestamps of segments, events and facts; what people wrote under that name stays."""
    records = {name: given[name] for name in ("recent_segments", "events", "facts") if name in given}
    return {
        **given,
        **{
            name: [{key: held for key, held in item.items() if key not in _TIMES} for item in items]
            for name, items in records.items()
        },
    }


# --- values ---------------------------------------------------------------------------------------------------------


def _shown(value: Any) -> Any:
    """A value as JSON has it; what JSON does not know is told by its kind."""
    return json_value(value, _told_by_kind)


def _told_by_kind(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _shown(dataclasses.asdict(value))
    return f"<{type(value).__qualname__}>"
