"""What a copilot's page shows, made from the rows of its session: what was said, insights, the board, the turns.

Pure: the newest steps of a session in, JSON-ready dictionaries out. `web/static/js/` folds what comes live alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from store import Action, AgentStep, StepStatus
from store.agent_events import AgentEvent
from store.insights import insight_of, insights_in
from web.copilotwords import ZONES, fact_name, items_of, mappings, zone_of
from web.shapes import Json, insight_shape, time_of
from web.words import steps_taken_back

#: cards of a zone that the page begins with
ZONE_CARDS: Final = 12
#: segments that the page begins with
SAID_ROWS: Final = 100
#: turns that the page begins with
TURN_ROWS: Final = 30
#: speakers are told apart by so many colours, in the order in which they first speak
VOICES: Final = 6
#: who speaks when nobody says who
NOBODY: Final = "USER"
_ENGINE: Final = "engine"
#: fields that make an input a command, whose text nobody has said unless a segment says so
_COMMANDS: Final = frozenset(
    {"events", "trigger", "agent_ids", "variables", "agents", "remove_agents", "groups", "overrides", "decide"}
)


def said_in(steps: Sequence[AgentStep], waiting: Iterable[Action] = ()) -> list[Json]:
    """What was said, oldest first: what steps have heard, then what waits to be heard.

    `key` is the same for the message, the action and the step of one segment.
    """
    rows: list[Json] = []
    heard = [_heard(step) for step in steps]
    for row in [*filter(None, heard), *filter(None, map(_waiting, waiting))]:
        _put(rows, row)
    return _with_voices(rows[-SAID_ROWS:])


def _heard(step: AgentStep) -> Json | None:
    segment = _object(_data(step).get("segment"))
    if not segment.get("text"):
        return None
    return {**_said(segment), "key": key_of(step), "iteration": step.iteration, "created_at": time_of(step.created_at)}


def _waiting(action: Action) -> Json | None:
    payload, about = _object(action.payload), _object(action.metadata)
    data = _object(payload.get("data"))
    if not payload.get("text") or (_COMMANDS & data.keys() and "segment" not in data):
        return None
    segment = {**_object(data.get("segment")), "text": payload["text"]}
    segment.setdefault("speaker", about.get("sender") or NOBODY)
    key = str(about.get("message_id") or action.id)
    return {**_said(segment), "key": key, "iteration": None, "created_at": time_of(action.created_at)}


def _said(segment: Mapping[str, Any]) -> Json:
    return {
        "speaker": str(segment.get("speaker") or NOBODY),
        "text": str(segment["text"]),
        "timestamp": segment.get("timestamp"),
        "is_final": segment.get("is_final") is not False,
    }


def _put(rows: list[Json], row: Json) -> None:
    """A segment takes the place of its speaker's unfinished one."""
    for at in range(len(rows) - 1, -1, -1):
        if rows[at]["key"] == row["key"] or (rows[at]["speaker"] == row["speaker"] and not rows[at]["is_final"]):
            rows[at] = row
            return
    rows.append(row)


def _with_voices(rows: list[Json]) -> list[Json]:
    voices: dict[str, int] = {}
    before = None
    for row in rows:
        row["voice"] = voices.setdefault(row["speaker"], len(voices)) % VOICES + 1
        row["goes_on"] = row["speaker"] == before
        before = row["speaker"]
    return rows


def key_of(step: AgentStep) -> str:
    """What began the step: its message, else its action; what the session did by itself has the step's id."""
    read = mappings(_object(step.guidance).get("inputs"))
    named = next((str(one["message_id"]) for one in read if one.get("message_id")), None)
    return named or str(step.action_id if read and step.action_id else step.id)


def insights_by_zone(steps: Sequence[AgentStep], early: Iterable[AgentEvent] = ()) -> dict[str, list[Json]]:
    """The newest insights of each zone, newest first. One that a later step tells again takes its earlier place.

    `early` are events of a step that is not stored yet.
    """
    gone = steps_taken_back([{"iteration": step.iteration, "guidance": step.guidance} for step in steps])
    found: dict[str, Json] = {}
    for step in steps:
        if step.status is StepStatus.ERROR:
            continue
        for insight in insights_in(step.data) or ():
            shown = insight_shape(
                insight, session_id=step.session_id, iteration=step.iteration, created_at=step.created_at
            )
            found[insight.insight_id] = {**shown, "taken_back": step.iteration in gone}
    for event in early:
        if (told := insight_of(event.data)) is not None:
            found[told.insight_id] = insight_shape(
                told,
                session_id=event.session_id,
                iteration=event.iteration,
                created_at=event.created_at,
                stored=False,
            )
    newest = list(reversed(found.values()))
    return {zone: [one for one in newest if zone_of(one) == zone][:ZONE_CARDS] for zone, _ in ZONES}


def turns_in(steps: Sequence[AgentStep]) -> list[Json]:
    """The turns, newest first: of each its numbers, and what the engine did. A step that did nothing is none."""
    return [_turn(step) for step in reversed(steps) if _is_turn(_data(step))][:TURN_ROWS]


def _is_turn(data: Mapping[str, Any]) -> bool:
    return "turn" in data and any(data.get(name) for name in ("turns", "insights", "problem"))


def _turn(step: AgentStep) -> Json:
    data = _data(step)
    turns = [{**turn, "phases": mappings(turn.get("phases"))} for turn in mappings(data.get("turns"))]
    runs = list(_runs(turns))
    return {
        "iteration": step.iteration,
        "turn": data["turn"],
        "key": key_of(step),
        "created_at": time_of(step.created_at),
        "trigger": data.get("trigger"),
        "turns": [{**turn, "phases": [_phase(phase) for phase in turn["phases"]]} for turn in turns],
        "ran": len(runs),
        "failed": sum(1 for run in runs if run.get("failed")),
        "insights": sum(len(items_of(run.get("insights"))) for run in runs),
        "skipped": sum(len(mappings(phase.get("skipped"))) for turn in turns for phase in turn["phases"]),
        "latency_ms": step.latency_ms,
        "usage": _object(_object(step.usage).get("step")),
        "decided": bool(items_of(data.get("insights"))) and not turns,
        "problem": str(data.get("problem") or "") or step.error,
    }


def _phase(phase: Mapping[str, Any]) -> Json:
    ran, skipped = mappings(phase.get("ran")), mappings(phase.get("skipped"))
    return {**phase, "ran": ran, "skipped": skipped, "events": [str(name) for name in items_of(phase.get("events"))]}


def _runs(turns: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for turn in turns:
        for phase in mappings(turn.get("phases")):
            yield from mappings(phase.get("ran"))


def board_of(steps: Sequence[AgentStep]) -> Json:
    """The board after the last of these steps: `{turn, iteration, board, written: [[part, name, by]]}`."""
    stored = [step for step in steps if isinstance(_object(step.state).get("board"), Mapping)]
    written = [[part, name, by] for (part, name), by in _written(steps).items()]
    if not stored:
        return {"turn": None, "iteration": None, "board": {}, "written": written}
    last = stored[-1]
    turn = _data(last).get("turn", _object(last.state).get("turn"))
    return {"turn": turn, "iteration": last.iteration, "board": last.state["board"], "written": written}


def sections_of(found: Mapping[str, Any]) -> list[Json]:
    """The parts of a board that `board_of` found, with what stands in each; `is_fresh` marks what its step wrote."""
    board, iteration = found["board"], found["iteration"]
    written = {(part, name): by for part, name, by in found["written"]}
    variables = _object(board.get("variables")).items()
    own = [(name, value) for name, value in variables if not _is_engines(name)]
    engines = [(name, value) for name, value in variables if _is_engines(name)]
    parts = (
        ("variables", "Variables", own),
        ("queues", "Queues", list(_object(board.get("queues")).items())),
        ("facts", "Facts", [(fact_name(fact), fact) for fact in mappings(board.get("facts"))]),
        ("memory", "Memory of agents", list(_remembered(board.get("memory")))),
        (_ENGINE, "Of the engine", engines),
    )
    return [
        {
            "key": key,
            "title": title,
            "entries": [
                _entry(value, str(name), written.get((key, str(name))), key, iteration) for name, value in there
            ],
        }
        for key, title, there in parts
    ]


def _is_engines(name: str) -> bool:
    return name.startswith("sys.")


def _remembered(memory: Any) -> Iterator[tuple[str, Any]]:
    for agent_id, values in _object(memory).items():
        for name, value in _object(values).items():
            yield f"{agent_id} · {name}", value


def _entry(value: Any, name: str, by: Json | None, part: str, iteration: int | None) -> Json:
    is_fact = part == "facts"
    return {
        "name": name,
        "value": value.get("value") if is_fact else value,
        "confidence": value.get("confidence") if is_fact else None,
        "by": by,
        "is_engine": part == _ENGINE,
        "is_fresh": by is not None and by["iteration"] == iteration,
    }


def _written(steps: Iterable[AgentStep]) -> dict[tuple[str, str], Json]:
    """Who wrote what last: (part, name) -> `{agent_id, name, turn, iteration}`."""
    found: dict[tuple[str, str], Json] = {}
    for step in steps:
        data = _data(step)
        for run in _runs(mappings(data.get("turns"))):
            by = {
                "agent_id": str(run.get("agent_id") or ""),
                "name": str(run.get("name") or run.get("agent_id") or ""),
                "turn": data.get("turn"),
                "iteration": step.iteration,
            }
            found.update((place, by) for place in _places(run))
    return found


def _places(run: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for part in ("variables", "queues"):
        yield from ((part, str(name)) for name in _object(run.get(part)))
    yield from (("facts", fact_name(fact)) for fact in mappings(run.get("facts")))
    yield from (("memory", f"{run.get('agent_id')} · {name}") for name in _object(run.get("memory")))


def _data(step: AgentStep) -> Mapping[str, Any]:
    return _object(step.data)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
