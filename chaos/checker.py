"""The checker: pure functions from the evidence to what was broken. It knows the promises, not how they are kept."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from chaos.evidence import Evidence, RecordRow, StepRow
from chaos.ledger import Ask, Asked, Blow, CallId, Effect, Harm, Ledger, ModelFault

_DEATHS = frozenset({Harm.KILL, Harm.POINT})
#: a request that a process sent just before it was stopped may reach the stand-in this much later
_LATE_S = 0.5
#: a process that was stopped and goes on has looked at its leases after this
_NOTICES_S = 1.5


class Promised(StrEnum):
    """What was promised; each has a line in the table, and each line should end in 0."""

    ANSWERED = "requests without a good answer"
    KEPT = "lost actions"
    READ_ONCE = "inputs and interrupts read twice"
    FINISHED = "stuck or failed sessions"
    NUMBERED = "gaps and repeats in iterations"
    SHOWN_ONCE = "steps shown twice"
    TAKEN_ONCE = "steps taken twice"
    OWNED = "rows visible from a stale owner"
    FOLDED = "sessions that are not their journal"
    TOLD_ONCE = "messages shown twice"
    TOLD = "messages missing in a transcript"
    CALLED_ONCE = "repeated model calls"
    ACTED_ONCE = "repeated tool effects"
    RECORDED = "steps that differ from their records"
    FOLLOWED = "events missed by a live client"
    ALIVE = "processes that ended by themselves"


@dataclass(frozen=True, slots=True)
class Broken:
    """One breach, in words that lead to its rows."""

    promise: Promised
    what: str


@dataclass(frozen=True, slots=True)
class Repeats:
    """Repeats that no runtime can avoid: the call was in flight when its process died or was stopped."""

    model_calls: int
    effects: int
    #: of both, those that a replaced owner made when it woke up in the middle of a step
    woken: int
    #: steps of stalled owners that nobody is shown
    late_rows: int


def broken(evidence: Evidence) -> list[Broken]:
    """Every breach of every promise."""
    return [Broken(promise, what) for promise, check in _CHECKS.items() for what in check(evidence)]


def in_flight(evidence: Evidence) -> Repeats:
    """How many calls were made again because a fault hit them in flight."""
    blows, asks, effects = _by_victim(evidence.ledger), _paid(evidence.ledger), _by_key(evidence.ledger)
    again = [(ask.worker, ask.asked_at) for calls in asks.values() for ask in calls[1:]]
    acted = [(effect.worker, effect.at) for same in effects.values() for effect in same[1:]]
    woken = sum(_just_woken(blows.get(worker, ()), moment) for worker, moment in [*again, *acted])
    return Repeats(len(again), len(acted), woken, len(late_rows(evidence)))


def recoveries(ledger: Ledger) -> list[float]:
    """For each call that was in flight when its worker died or stalled: seconds until another life made it again."""
    lasted = []
    by_call: defaultdict[CallId, list[Ask]] = defaultdict(list)
    for ask in ledger.asks:
        by_call[ask.call].append(ask)
    for blow in ledger.blows:
        if blow.harm not in {*_DEATHS, Harm.STALL}:
            continue
        for ask in ledger.asks:
            if ask.worker == blow.victim and _open_at(ask, blow.at):
                others = [one.asked_at for one in by_call[ask.call] if one.worker != ask.worker]
                again = [moment for moment in others if moment > blow.at]
                lasted += [min(again) - blow.at] if again else []
    return lasted


def _open_at(ask: Ask, moment: float) -> bool:
    unanswered = ask.answered_at is None or ask.answered_at > moment
    return ask.asked_at <= moment and unanswered and ask.fault is ModelFault.NONE


# --- each promise ----------------------------------------------------------------------------------------------------


def _answered(evidence: Evidence) -> Iterator[str]:
    yield from evidence.ledger.refusals


def _alive(evidence: Evidence) -> Iterator[str]:
    yield from evidence.ledger.broken


def _kept(evidence: Evidence) -> Iterator[str]:
    """A 202 whose action is not there, did not end well, or had no effect."""
    states = {state.session_id for state in evidence.states}
    read = Counter(said for step in evidence.shown if step.status != "error" for said in step.read)
    for promise in evidence.ledger.promises:
        for action_id in promise.action_ids:
            action = evidence.actions.get(action_id)
            if action is None:
                yield f"{promise.kind} {action_id} of {promise.session_id} is not in the queue"
            elif action.status != "done":
                yield f"{promise.kind} {action_id} of {promise.session_id} is {action.status}: {action.error}"
        if promise.kind is Asked.CREATE:
            if promise.session_id not in states:
                yield f"session {promise.session_id} was promised and is not there"
        elif not read[promise.said]:
            yield f"{promise.said!r} was promised and no step has read it"


def _read_once(evidence: Evidence) -> Iterator[str]:
    read = Counter(said for step in evidence.shown if step.status != "error" for said in step.read)
    yield from (f"{said!r} was read by {times} steps" for said, times in read.items() if times > 1)


def _finished(evidence: Evidence) -> Iterator[str]:
    for state in evidence.states:
        if state.status != "done":
            yield f"session {state.session_id} is {state.status} at {state.iteration}: {state.last_error}"


def _numbered(evidence: Evidence) -> Iterator[str]:
    for session_id, iterations in _iterations(evidence).items():
        distinct = sorted(set(iterations))
        if distinct != list(range(len(distinct))):
            yield f"session {session_id} has the iterations {distinct}"


def _shown_once(evidence: Evidence) -> Iterator[str]:
    for session_id, iterations in _iterations(evidence).items():
        for iteration, times in Counter(iterations).items():
            if times > 1:
                yield f"step {session_id}:{iteration} is shown {times} times"


def _iterations(evidence: Evidence) -> Mapping[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for step in evidence.shown:
        found[step.session_id].append(step.iteration)
    return found


def _taken_once(evidence: Evidence) -> Iterator[str]:
    """A step that was true was taken again. A row behind a fence never was true."""
    hidden = late_rows(evidence)
    rows = Counter((row.session_id, row.iteration) for row in evidence.steps if row not in hidden)
    yield from (f"step {where[0]}:{where[1]} is stored {times} times" for where, times in rows.items() if times > 1)


def _owned(evidence: Evidence) -> Iterator[str]:
    """A shown row that is behind a newer owner's fence, or behind a step of a newer owner."""
    shown = {(step.session_id, step.iteration, step.epoch) for step in evidence.shown}
    first: dict[tuple[str, int, int], StepRow] = {}
    newest: dict[str, int] = {}
    for row in sorted(evidence.steps, key=lambda row: (row.version, row.iteration)):
        where = (row.session_id, row.iteration, row.epoch)
        if first.setdefault(where, row) is row and where in shown:
            if row.epoch < newest.get(row.session_id, row.epoch):
                yield f"step {where[0]}:{where[1]} of epoch {row.epoch} is shown behind {newest[row.session_id]}"
            elif _late(row, evidence.fences):
                yield f"step {where[0]}:{where[1]} of epoch {row.epoch} is shown behind a fence"
        newest[row.session_id] = max(row.epoch, newest.get(row.session_id, row.epoch))


def late_rows(evidence: Evidence) -> set[StepRow]:
    """The rows that an owner wrote after it had been replaced."""
    by_lane: defaultdict[str, list[StepRow]] = defaultdict(list)
    for fence in evidence.fences:
        by_lane[fence.lane].append(fence)
    return {row for row in evidence.steps if _late(row, by_lane[row.lane])}


def _late(row: StepRow, fences: Iterable[StepRow]) -> bool:
    return any(fence.lane == row.lane and fence.epoch > row.epoch and fence.version < row.version for fence in fences)


def _folded(evidence: Evidence) -> Iterator[str]:
    iterations = _iterations(evidence)
    states = {state.session_id: state for state in evidence.states}
    for session_id in iterations.keys() - states.keys():
        yield f"session {session_id} has steps and no row"
    for session_id, state in states.items():
        last = max(iterations.get(session_id, [-1]))
        if state.iteration != last:
            yield f"session {session_id} is at {state.iteration}, its journal at {last}"


def _told_once(evidence: Evidence) -> Iterator[str]:
    for thread, messages in evidence.threads.items():
        for message, times in Counter(messages).items():
            if times > 1:
                yield f"message {message} is {times} times in {thread}"


def _told(evidence: Evidence) -> Iterator[str]:
    for thread, wanted in _expected_messages(evidence).items():
        for message in sorted(wanted - set(evidence.threads.get(thread, ()))):
            yield f"message {message} is not in {thread}"


def _expected_messages(evidence: Evidence) -> Mapping[str, set[str]]:
    wanted: defaultdict[str, set[str]] = defaultdict(set)
    for step in evidence.shown:
        if (thread := evidence.thread_of.get(step.session_id)) is not None:
            wanted[thread].add(f"{step.session_id}:{step.iteration}")
    for promise in evidence.ledger.promises:
        if promise.conversation_id is not None and promise.message_id is not None:
            wanted[promise.conversation_id].add(promise.message_id)
    return wanted


def expected_events(evidence: Evidence) -> dict[str, set[str]]:
    """What a client that follows from the beginning has to be sent, by room."""
    wanted: defaultdict[str, set[str]] = defaultdict(set)
    for step in evidence.shown:
        wanted[f"session:{step.session_id}"].add(f"{step.session_id}:{step.iteration}")
    for thread, messages in _expected_messages(evidence).items():
        wanted[f"conversation:{thread}"] |= messages
    return {room: ids for room, ids in wanted.items() if room in evidence.ledger.live}


def _followed(evidence: Evidence) -> Iterator[str]:
    for room, wanted in expected_events(evidence).items():
        for missing in sorted(wanted - evidence.ledger.live[room]):
            yield f"{missing} was never sent to {room}"


# --- calls and effects -----------------------------------------------------------------------------------------------


def _called_once(evidence: Evidence) -> Iterator[str]:
    stored = _first_records(evidence.records)
    blows = _by_victim(evidence.ledger)
    for call, asks in _paid(evidence.ledger).items():
        record = stored.get((call.session_id, call.iteration, f"llm:{call.call}"))
        for earlier, later in pairwise(asks):
            reason = _why_not(blows, earlier, later, record)
            if reason:
                where = f"{call.session_id}:{call.iteration}"
                yield f"call {call.call} of {where} was paid again by {later.worker}: {reason}"


def _acted_once(evidence: Evidence) -> Iterator[str]:
    stored = _first_records(evidence.records)
    blows = _by_victim(evidence.ledger)
    for key, effects in _by_key(evidence.ledger).items():
        session_id, iteration, name = key.split(":", 2)
        record = stored.get((session_id, int(iteration), name))
        for earlier, later in pairwise(effects):
            reason = _why_not(blows, earlier, later, record)
            if reason:
                yield f"effect {key} was had again by {later.worker}: {reason}"


def _why_not(
    blows: Mapping[str, list[Blow]], earlier: Ask | Effect, later: Ask | Effect, record: RecordRow | None
) -> str | None:
    """Why a repeat is no call in flight; None when it is one.

    In flight means: the process that made the call died or was stopped before it was made again, and, if it died,
    its answer had not been stored by then. (What a process asked last may reach the stand-in after its death.) Or one
    of the two calls belongs to the step that a process was stopped in.
    """
    began, again_at = _moment(earlier), _moment(later)
    mine = blows.get(earlier.worker, ())
    if _just_woken(mine, began) or _just_woken(blows.get(later.worker, ()), again_at):
        return None
    hit = [blow for blow in mine if blow.at <= again_at and (blow.harm in _DEATHS or began <= blow.at + _LATE_S)]
    if not hit:
        return f"nothing happened to {earlier.worker} in between"
    if all(blow.harm in _DEATHS for blow in hit) and record is not None and record.serial == earlier.serial:
        return "its answer was stored before"
    return None


def _moment(call: Ask | Effect) -> float:
    return call.asked_at if isinstance(call, Ask) else call.at


def _just_woken(blows: Iterable[Blow], moment: float) -> bool:
    """Whether a process asked in a step that was under way when it was stopped, before it knew of being replaced."""
    return any(
        blow.harm is Harm.STALL and blow.until is not None and blow.at <= moment <= blow.until + _NOTICES_S
        for blow in blows
    )


def _recorded(evidence: Evidence) -> Iterator[str]:
    """A shown step says what a record says. (A stalled owner's record may stand beside the new owner's.)"""
    stored = _records_by_call(evidence.records)
    for step in evidence.shown:
        said = {f"llm:{number}": serial for number, serial in enumerate(step.model, 1)}
        if step.tool is not None:
            said["effect"] = step.tool
        for key, serial in said.items():
            serials = {row.serial for row in stored[step.session_id, step.iteration, key]}
            if serial not in serials:
                yield f"{key} of {step.session_id}:{step.iteration} is {serial}, its records say {sorted(serials)}"


def _records_by_call(records: Iterable[RecordRow]) -> defaultdict[tuple[str, int, str], list[RecordRow]]:
    found: defaultdict[tuple[str, int, str], list[RecordRow]] = defaultdict(list)
    for row in records:
        found[row.session_id, row.iteration, row.key].append(row)
    return found


def _first_records(records: Iterable[RecordRow]) -> Mapping[tuple[str, int, str], RecordRow]:
    grouped = _records_by_call(records)
    return {where: min(rows, key=lambda row: row.version) for where, rows in grouped.items()}


def _paid(ledger: Ledger) -> Mapping[CallId, list[Ask]]:
    found: defaultdict[CallId, list[Ask]] = defaultdict(list)
    for ask in sorted(ledger.asks, key=lambda ask: ask.asked_at):
        if ask.paid:
            found[ask.call].append(ask)
    return found


def _by_key(ledger: Ledger) -> Mapping[str, list[Effect]]:
    found: defaultdict[str, list[Effect]] = defaultdict(list)
    for effect in sorted(ledger.effects, key=lambda effect: effect.at):
        found[effect.key].append(effect)
    return found


def _by_victim(ledger: Ledger) -> Mapping[str, list[Blow]]:
    found: defaultdict[str, list[Blow]] = defaultdict(list)
    for blow in ledger.blows:
        if blow.harm in {*_DEATHS, Harm.STALL}:
            found[blow.victim].append(blow)
    return found


_CHECKS: Mapping[Promised, Callable[[Evidence], Iterable[str]]] = {
    Promised.ANSWERED: _answered,
    Promised.KEPT: _kept,
    Promised.READ_ONCE: _read_once,
    Promised.FINISHED: _finished,
    Promised.NUMBERED: _numbered,
    Promised.SHOWN_ONCE: _shown_once,
    Promised.TAKEN_ONCE: _taken_once,
    Promised.OWNED: _owned,
    Promised.FOLDED: _folded,
    Promised.TOLD_ONCE: _told_once,
    Promised.TOLD: _told,
    Promised.CALLED_ONCE: _called_once,
    Promised.ACTED_ONCE: _acted_once,
    Promised.RECORDED: _recorded,
    Promised.FOLLOWED: _followed,
    Promised.ALIVE: _alive,
}
