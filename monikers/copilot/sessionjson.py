"""A session as JSON: what has to survive a restart beside the board (docs/copilot.md, "A session over a restart").

Times are seconds since 1970, to the millisecond, so that the time in between counts. What says nothing is left out.

**Invariant: taking up never raises.** The data comes from a store, perhaps of another version: what is malformed costs
that value and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from monikers.copilot.approval import HeldInsight
from monikers.copilot.jsonvalues import json_object
from monikers.copilot.limits import RateLimit
from monikers.copilot.models import AgentInsight
from monikers.copilot.sessions import AgentSlot, Moment, Session

#: no time is later (it is in the year 33658), and all are exact to the millisecond
MAX_WALL_S = 1e12
_MS_DIGITS = 3


# --- writing ---------------------------------------------------------------------------------------------------------


def session_json(
    session: Session,
    held: Iterable[HeldInsight],
    moment: Moment,
    *,
    window_s: float,
    limits: Mapping[str, RateLimit],
) -> dict[str, Any]:
    """What has to be kept of a session: when it began, its counter, what it keeps for each agent, what waits.

    What was said `window_s` seconds ago or earlier, and starts that an agent's limit counts no more, are left out. The
    same session at the same moment gives the same.
    """
    return _telling(
        began=_wall(session.began, moment),
        turns=session.turns,
        agents={
            agent_id: _slot_json(slot, moment, window_s, limits.get(agent_id))
            for agent_id, slot in session.agents.items()
        },
        held=[{"id": one.held_id, "insight": _insight_json(one.insight)} for one in held],
    )


def _slot_json(slot: AgentSlot, moment: Moment, window_s: float, limit: RateLimit | None) -> dict[str, Any]:
    now = moment.monotonic
    starts = slot.starts if limit is None else limit.counted(slot.starts, now)
    told = _telling(
        started=_wall(slot.started, moment) if math.isfinite(slot.started) else None,
        starts=[_wall(start, moment) for start in starts],
        said={words: _wall(at, moment) for words, at in (slot.said or {}).items() if now - at < window_s},
        usage=json_object(slot.usage),
    )
    # {} is what an agent keeps that emptied what it began with, None that it has changed nothing
    return told if slot.private_state is None else {**told, "private": json_object(slot.private_state)}


def _insight_json(insight: AgentInsight) -> dict[str, Any]:
    """An insight without the fields that are as they usually are."""
    fields = AgentInsight.model_fields
    usual = {name: field.get_default(call_default_factory=True) for name, field in fields.items()}
    return {
        name: value for name, value in json_object(vars(insight)).items() if name in fields and value != usual[name]
    }


def _telling(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def _wall(monotonic: float, moment: Moment) -> float:
    return round(moment.wall - (moment.monotonic - monotonic), _MS_DIGITS)


# --- taking up -------------------------------------------------------------------------------------------------------


def take_up(session: Session, data: Mapping[str, Any], moment: Moment) -> None:
    """Make a session what `session_json` told of it; its own board stays. A time that has not come yet counts as now.

    Never raises: what is malformed is as if it had been left out.
    """
    known = json_object(data)
    began, turns, agents = _monotonic(known.get("began"), moment), known.get("turns"), known.get("agents")
    session.began = moment.monotonic if began is None else began
    session.turns = turns if type(turns) is int else 0
    session.agents = {agent_id: _slot(kept, moment) for agent_id, kept in _entries(agents) if isinstance(kept, dict)}


def _slot(kept: Mapping[str, Any], moment: Moment) -> AgentSlot:
    slot = AgentSlot()
    started = _monotonic(kept.get("started"), moment)
    if started is not None:
        slot.started, slot.started_wall = started, _wall(started, moment)
    starts = kept.get("starts")
    times = [_monotonic(start, moment) for start in starts] if isinstance(starts, list) else []
    slot.starts = sorted(start for start in times if start is not None)
    said = {words: _monotonic(at, moment) for words, at in _entries(kept.get("said"))}
    slot.said = {words: at for words, at in said.items() if at is not None} or None
    if usage := kept.get("usage"):
        slot.add_usage(usage)
    private = kept.get("private")
    slot.private_state = private if isinstance(private, dict) else None
    return slot


def held_of(data: Mapping[str, Any], session_id: str) -> Iterator[HeldInsight]:
    """The insights that waited, oldest first. Never raises."""
    held = json_object(data).get("held")
    for one in held if isinstance(held, list) else ():
        held_id = one.get("id") if isinstance(one, dict) else None
        try:
            if isinstance(held_id, str):
                yield HeldInsight(held_id, session_id, AgentInsight.model_validate(one.get("insight")))
        except ValidationError:
            continue


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    return iter(value.items() if isinstance(value, dict) else ())


def _monotonic(wall: Any, moment: Moment) -> float | None:
    """A time of the wall on the clock that never goes back; None of what is no time. 0 stands for never."""
    if not isinstance(wall, int | float) or isinstance(wall, bool) or not 1 <= wall <= MAX_WALL_S:
        return None
    return moment.monotonic - max(moment.wall - wall, 0.0)
