"""What traces are made from, read from the store: the steps of turns and what those called.

Every function takes many at once and asks in few reads, of the light columns only: no state, no text, and of results
only those of calls that failed. Steps are found by their ids where those are known: that takes milliseconds however
long the journal is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from store import filters
from store.actions import CREATING_KINDS, Action, ActionKind, ActionStatus, queue_of
from store.agent_state import FINAL_STATUSES, AgentState, SessionStatus, find_agent_state
from store.agent_steps import AgentStep, StepStatus, find_steps, journal_of, shown_steps
from store.callspans import TOLD_BY_RESULT
from store.cancelling import CANCELLED
from store.database import TenantStore
from store.ids import ActionId, SessionId, step_id
from store.records import Record, records_of
from store.tracing import MAX_STEPS, End, Told, TraceKind, TraceStatus, trace_id_of
from store.turnsteps import Stretch, ends_stretch, goes_on_with, last_stretch, of_turn

STEP_COLUMNS: Final = (
    *("id", "created_at", "agent_id", "session_id", "action_id", "iteration", "step_token", "status"),
    *("guidance", "wait", "latency_ms", "error", "epoch", "lane"),
)
_RECORD_COLUMNS: Final = (
    *("id", "created_at", "session_id", "iteration", "event_seq", "key", "kind", "usage", "latency_ms", "epoch"),
)
#: how many steps are looked at first: most turns are short
_LOOKS: Final = (8, 64, MAX_STEPS)
_TERMS: Final = 50
#: steps behind the last one that names its turn: it mostly ends there
_BEHIND: Final = 2

#: first and last iteration, both included
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class StretchEnd:
    """The last step of what a session took by itself, and how it ended; None while it goes on."""

    session_id: SessionId
    iteration: int
    end: End | None
    #: the step itself says so; a session's end only counts where no step does
    by_step: bool = True


_NOTHING: Final = Stretch(0, whole=True, ended=False, own=())


# Turns: what an input began.


async def told_of_turns(db: TenantStore, inputs: Sequence[Action]) -> list[Told]:
    """What the traces of some inputs are made from; an input that no step has read has a trace, too."""
    steps = await _steps_of_turns(db, await _spans_of_turns(db, inputs))
    told = [_told_of_turn(action, steps.get((_session(action), action.id), [])) for action in inputs]
    found = await with_records(db, told)
    return [one if one.steps else await cut_in_first_step(db, one) for one in found]


def _session(action: Action) -> SessionId:
    return action.session_id or SessionId("")


async def _spans_of_turns(db: TenantStore, inputs: Sequence[Action]) -> dict[tuple[SessionId, ActionId], Span]:
    """Between which iterations steps name an input; a turn's last steps may name an interrupt instead."""
    if not inputs:
        return {}
    rows = await journal_of(db).find_versioned(
        filters.one_of("session_id", {_session(action) for action in inputs}),
        filters.one_of("action_id", [action.id for action in inputs]),
        columns=["session_id", "action_id", "iteration", "lane", "epoch"],
    )
    found: defaultdict[tuple[SessionId, ActionId], list[int]] = defaultdict(list)
    for row in await shown_steps(db, rows):
        if row.item.action_id is not None:
            found[row.item.session_id, row.item.action_id].append(row.item.iteration)
    return {name: (min(at), max(at)) for name, at in found.items()}


async def _steps_of_turns(
    db: TenantStore, spans: Mapping[tuple[SessionId, ActionId], Span]
) -> dict[tuple[SessionId, ActionId], list[AgentStep]]:
    """The steps of some turns, the newest of a very long one."""
    wanted = {name: (max(0, first - 1, last - 2 * MAX_STEPS), last + _BEHIND) for name, (first, last) in spans.items()}
    read = await _steps_in(db, [(name[0], span) for name, span in wanted.items()])
    found = {}
    for (session_id, turn), (first, last) in wanted.items():
        steps = _in_order(read, session_id, (first, last))
        while steps and steps[-1].iteration == last and goes_on_with(steps[-1]) == turn:
            first, last = last + 1, last + MAX_STEPS
            steps += _in_order(await _steps_in(db, [(session_id, (first, last))]), session_id, (first, last))
        found[session_id, turn] = of_turn(steps, turn)
    return found


def _told_of_turn(action: Action, steps: Sequence[AgentStep]) -> Told:
    return Told(
        trace_id=trace_id_of(action),
        kind=TraceKind.TURN,
        session_id=_session(action),
        action=action,
        steps=steps[-MAX_STEPS:],
        steps_left_out=max(0, len(steps) - MAX_STEPS),
        unstored=steps[-1].iteration + 1 if steps and goes_on_with(steps[-1]) else None,
        agent_id=action.agent_id or (steps[-1].agent_id if steps else None),
    )


# Own stretches: what a create, a moment or an interrupt began.


async def told_of_stretches(db: TenantStore, ends: Sequence[StretchEnd]) -> list[Told]:
    """What the traces of what sessions took by themselves are made from; none where all of it was turns."""
    found = await _stretches(db, ends)
    creates = await _creates_of(db, {end.session_id for end, stretch in found.items() if stretch.first <= 0})
    guided = {own[0].action_id for stretch in found.values() if (own := stretch.own) and own[0].guidance}
    interrupts = await _actions(db, {action_id for action_id in guided if action_id is not None})
    told = [_told_of_stretch(end, stretch, creates, interrupts) for end, stretch in found.items()]
    return await with_records(db, [one for one in told if one is not None])


async def _stretches(db: TenantStore, ends: Sequence[StretchEnd]) -> dict[StretchEnd, Stretch]:
    """The stretch of each end; the own steps of a long one are its newest."""
    found = {end: _NOTHING for end in ends if end.iteration < 0}
    left = [end for end in dict.fromkeys(ends) if end.iteration >= 0]
    for look in _LOOKS:
        spans = {end: (max(0, end.iteration - look + 1), end.iteration) for end in left}
        read = await _steps_in(db, [(end.session_id, span) for end, span in spans.items()])
        left = []
        for end, span in spans.items():
            steps = _in_order(read, end.session_id, span)
            if not steps or (not end.by_step and ends_stretch(steps[-1])):
                continue  # retention was here, or the last step has told it already
            found[end] = last_stretch(steps)
            left += [] if found[end].whole else [end]
    for end in left:
        found[end] = replace(found[end], first=await _begin_before(db, end.session_id, found[end].first))
    return found


async def _begin_before(db: TenantStore, session_id: SessionId, iteration: int) -> int:
    """The first iteration of the stretch that goes on before an iteration."""
    rows = await journal_of(db).find_versioned(
        filters.equals("session_id", session_id),
        filters.below("iteration", iteration),
        filters.differs("status", StepStatus.RUNNING),
        columns=["session_id", "iteration", "status", "guidance", "lane", "epoch"],
    )
    ends = [row.item.iteration for row in await shown_steps(db, rows) if ends_stretch(row.item)]
    return max(ends, default=-1) + 1


def _told_of_stretch(
    end: StretchEnd,
    stretch: Stretch,
    creates: Mapping[SessionId, Action],
    interrupts: Mapping[ActionId, Action],
) -> Told | None:
    own = stretch.own[-MAX_STEPS:]
    left_out = own[0].iteration - stretch.first if own and not stretch.whole else 0
    if stretch.first <= 0:
        action = creates.get(end.session_id)
        trace_id = None if action is None else trace_id_of(action)
    elif own:
        action = interrupts.get(own[0].action_id or ActionId(""))
        trace_id = trace_id_of(action) if action else step_id(end.session_id, stretch.first)
    else:
        return None
    if trace_id is None:
        return None  # the create is gone: retention keeps those that sessions were made from
    return Told(
        trace_id=trace_id,
        kind=TraceKind.CREATE if stretch.first <= 0 else TraceKind.OWN,
        session_id=end.session_id,
        action=action,
        steps=own,
        steps_left_out=left_out,
        unstored=None if stretch.ended else end.iteration + 1,
        end=end.end,
        agent_id=own[-1].agent_id if own else None,
    )


def end_of_step(step: AgentStep) -> StretchEnd | None:
    """The stretch that a step ends, if it does."""
    if not ends_stretch(step):
        return None
    status = TraceStatus.FAILED if step.status is StepStatus.ERROR else TraceStatus.DONE
    return StretchEnd(step.session_id, step.iteration, End(status, step.created_at, step.error))


def end_of_session(state: AgentState) -> StretchEnd | None:
    """The stretch that a session's end cut off, be it that no step says so; None while the session lives."""
    if state.status not in FINAL_STATUSES:
        return None
    by_status = {SessionStatus.DONE: TraceStatus.DONE, SessionStatus.ERROR: TraceStatus.FAILED}
    status = by_status.get(state.status, TraceStatus.CANCELLED)
    return StretchEnd(state.session_id, state.iteration, End(status, state.updated_at, state.reason), by_step=False)


async def told_of_creates(db: TenantStore, creates: Sequence[Action]) -> list[Told]:
    """What the traces of creates are made from that could not be carried out."""
    failed = (ActionStatus.FAILED, ActionStatus.DEAD)
    return [
        Told(trace_id_of(create), TraceKind.CREATE, _session(create), create, agent_id=create.agent_id)
        for create in creates
        if create.status in failed
    ]


# Reading.


async def _creates_of(db: TenantStore, sessions: Collection[SessionId]) -> dict[SessionId, Action]:
    if not sessions:
        return {}
    rows = await queue_of(db).find(
        filters.one_of("session_id", sessions), filters.one_of("kind", CREATING_KINDS), order=[("created_at", True)]
    )
    carried_out = [row for row in rows if row.status not in (ActionStatus.FAILED, ActionStatus.DEAD)]
    return {_session(row): row for row in carried_out}


async def _actions(db: TenantStore, ids: Collection[ActionId]) -> dict[ActionId, Action]:
    return {row.id: row for row in await queue_of(db).find(filters.one_of("id", ids))} if ids else {}


async def _steps_in(
    db: TenantStore, wanted: Iterable[tuple[SessionId, Span]]
) -> dict[tuple[SessionId, int], AgentStep]:
    ids = [step_id(session_id, n) for session_id, (first, last) in wanted for n in range(first, last + 1)]
    return {(step.session_id, step.iteration): step for step in await find_steps(db, ids, STEP_COLUMNS)}


def _in_order(read: Mapping[tuple[SessionId, int], AgentStep], session_id: SessionId, span: Span) -> list[AgentStep]:
    return [read[at] for number in range(span[0], span[1] + 1) if (at := (session_id, number)) in read]


async def with_records(db: TenantStore, told: Sequence[Told]) -> list[Told]:
    """With what their steps called, and what a step called that was never stored, or is not yet."""
    spans = {index: span for index, one in enumerate(told) if (span := _called_in(one)) is not None}
    records: defaultdict[SessionId, list[Record]] = defaultdict(list)
    wanted = [(told[index].session_id, span) for index, span in spans.items()]
    for start in range(0, len(wanted), _TERMS):
        for record in await _records_in(db, wanted[start : start + _TERMS]):
            records[record.session_id].append(record)
    found = []
    for index, one in enumerate(told):
        first, last = spans.get(index, (0, -1))
        mine = [record for record in records[one.session_id] if first <= record.iteration <= last]
        found.append(replace(one, records=mine))
    return found


def _called_in(told: Told) -> Span | None:
    """The iterations that a trace's calls were made in."""
    stored = [step.iteration for step in told.steps]
    known = [*stored, *([] if told.unstored is None else [told.unstored])]
    return (known[0], known[-1]) if known else None


async def _records_in(db: TenantStore, wanted: Sequence[tuple[SessionId, Span]]) -> list[Record]:
    terms = [
        filters.equals("session_id", session_id)
        & filters.at_least("iteration", first)
        & filters.at_most("iteration", last)
        for session_id, (first, last) in wanted
    ]
    of_these = filters.either(*terms)
    light = await records_of(db).find(of_these, columns=_RECORD_COLUMNS)
    if not any(record.kind in TOLD_BY_RESULT for record in light):
        return light
    whole = await records_of(db).find(of_these, filters.one_of("kind", TOLD_BY_RESULT))
    results = {record.id: record.result for record in whole}
    return [replace(record, result=results.get(record.id)) for record in light]


async def cut_in_first_step(db: TenantStore, told: Told) -> Told:
    """With the calls of a turn's first step, where that runs or was cut before it was stored: its row names no turn.

    They belong to the input that was the first in line, and to none while the session was at something else.
    """
    action = told.action
    if action is None or action.status is ActionStatus.DONE or action.error == CANCELLED:
        return told
    state = await find_agent_state(db, session_id=told.session_id)
    if state is None or state.iteration < 0:
        return told
    before = await _steps_in(db, [(told.session_id, (state.iteration, state.iteration + 1))])
    last = before.get((told.session_id, state.iteration))
    if last is None or len(before) > 1 or not ends_stretch(last):
        return told
    span = (state.iteration + 1, state.iteration + 1)
    records = await _records_in(db, [(told.session_id, span)])
    if records and await _first_in_line(db, told.session_id, min(record.created_at for record in records)) == action.id:
        return replace(told, records=records)
    return told


async def _first_in_line(db: TenantStore, session_id: SessionId, at: datetime) -> ActionId | None:
    """Which input of a session, none of whose steps is stored, came first among those open at a moment."""
    asked = await queue_of(db).find(
        filters.equals("session_id", session_id),
        filters.equals("kind", ActionKind.INPUT),
        filters.at_most("created_at", at),
    )
    were_open = [
        one for one in asked if (one.processed_at is None or one.processed_at >= at) and one.error != CANCELLED
    ]
    begun = await _spans_of_turns(db, were_open)
    waited = [one for one in were_open if (session_id, one.id) not in begun and one.error != CANCELLED]
    return min(waited, key=lambda one: (-one.urgency, one.created_at, one.id)).id if waited else None
