"""Retention: deletes what is old or too much, in small bites, and never what the runtime still needs.

Invariant: **what is kept is whole.** Of a session the first steps go, never one from the middle; every step that is
kept can be rebuilt from kept ones. Never deleted: a session's last step and those that its state is rebuilt from,
a step that answers an open action, a step that a projection may still lack, fences; open actions and the creates that
sessions were made from; the records of steps that are kept.

Crash before a bite: nothing. Between the records of some steps and the steps: the next turn deletes the steps. After:
all of the bite is gone. A turn that is repeated finds less to do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lancedb.expr import Expr

from store import filters
from store.actions import OPEN_STATUSES, ActionKind, ActionStatus, queue_of
from store.agent_events import LIVE_TEXT, events_of
from store.agent_state import states_of
from store.agent_steps import AgentStep, journal_of
from store.database import TenantStore
from store.ids import SessionId, step_id
from store.leases import LeaseStatus, list_leases
from store.memories import memories_of
from store.records import records_of
from store.schema import AGENT_EVENTS, AGENT_STEPS, MEMORIES, QUEUE, RECORDS, TRACES, WORKERS
from store.traces import traces_of
from store.workers import Worker, WorkerStatus, list_workers, workers_of

_PROCESSED = (ActionStatus.DONE, ActionStatus.FAILED, ActionStatus.DEAD)
_MAX_NAMED = 500


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """How much is kept. None, or 0 for a count, keeps everything."""

    steps_age: timedelta | None = None
    #: steps a session
    steps_count: int = 0
    events_age: timedelta | None = timedelta(hours=1)
    #: the live text of a stored step; a page that was away for longer reads the step
    live_text_age: timedelta = timedelta(minutes=1)
    #: since the action was processed
    queue_age: timedelta | None = timedelta(days=30)
    #: since the turn ended
    traces_age: timedelta | None = timedelta(days=30)
    #: since the worker was last heard of
    workers_age: timedelta = timedelta(days=1)
    #: rows of one bite, about
    bite: int = 5000
    #: sessions of one bite
    sessions: int = 50


@dataclass(frozen=True, slots=True)
class Bite:
    """So many rows of a table were deleted in one commit."""

    table: str
    rows: int


async def retain(db: TenantStore, rules: RetentionRules) -> AsyncIterator[Bite]:
    """One turn over all tables; between two bites the caller may rest or leave."""
    for turn in (trim_events, trim_live_text, trim_queue, trim_steps, trim_traces, trim_workers, trim_memories):
        async for bite in turn(db, rules):
            if bite.rows:
                yield bite


async def trim_events(db: TenantStore, rules: RetentionRules) -> AsyncIterator[Bite]:
    """Delete the events older than `events_age`, oldest first."""
    if rules.events_age is None:
        return
    old = filters.below("created_at", db.clock.now() - rules.events_age)
    while oldest := await events_of(db).find(
        old, order=[("created_at", False)], limit=rules.bite, columns=["created_at"]
    ):
        deleted = await events_of(db).delete(old, filters.at_most("created_at", oldest[-1].created_at))
        yield Bite(AGENT_EVENTS.name, deleted)


async def trim_live_text(db: TenantStore, rules: RetentionRules) -> AsyncIterator[Bite]:
    """Delete the live text of steps that are stored: nobody is shown it any more. That of a running step stays."""
    if rules.events_age is None:
        return
    old = filters.equals("kind", LIVE_TEXT) & filters.below("created_at", db.clock.now() - rules.live_text_age)
    rows = await events_of(db).find(old, columns=["session_id", "iteration"])
    first: dict[SessionId, int] = {}
    for event in rows:
        first[event.session_id] = min(event.iteration, first.get(event.session_id, event.iteration))
    names = sorted(first)
    for start in range(0, len(names), rules.sessions):
        named = filters.one_of("session_id", names[start : start + rules.sessions])
        stored = await states_of(db).find(named, columns=["session_id", "iteration"])
        gone = [
            filters.equals("session_id", state.session_id) & filters.at_most("iteration", state.iteration)
            for state in stored
            if first[state.session_id] <= state.iteration
        ]
        if gone:
            yield Bite(AGENT_EVENTS.name, await events_of(db).delete(old, filters.either(*gone)))


async def trim_queue(db: TenantStore, rules: RetentionRules) -> AsyncIterator[Bite]:
    """Delete the actions that were processed longer than `queue_age` ago, and their idempotency keys with them.

    The create that a session was made from stays: the session's row can be rebuilt from it, and its id is in use.
    """
    if rules.queue_age is None:
        return
    old = filters.below("processed_at", db.clock.now() - rules.queue_age)
    may_go = old & filters.one_of("status", _PROCESSED) & filters.equals("processed", True)
    may_go &= filters.either(filters.differs("kind", ActionKind.CREATE), filters.differs("status", ActionStatus.DONE))
    while oldest := await queue_of(db).find(
        may_go, order=[("processed_at", False)], limit=rules.bite, columns=["processed_at"]
    ):
        reached = oldest[-1].processed_at
        if reached is None:
            return
        # The whole condition again: what was requeued in the meantime is open and stays.
        yield Bite(QUEUE.name, await queue_of(db).delete(may_go, filters.at_most("processed_at", reached)))


async def trim_steps(db: TenantStore, rules: RetentionRules) -> AsyncIterator[Bite]:
    """Delete the oldest steps of each session, with their records, down to what the rules and the runtime need."""
    if rules.steps_age is None and not rules.steps_count:
        return
    watermark = await _lowest_watermark(db)
    open_actions = (await queue_of(db).values("id", filters.one_of("status", OPEN_STATUSES))).to_pylist()
    async for last in _sessions(db, rules.sessions):
        cuts = await _wanted_cuts(db, rules, last)
        cuts = _lowered(cuts, await _first_unprojected(db, cuts, watermark))
        cuts = _lowered(cuts, await _first_answering(db, cuts, open_actions))
        cuts = await _at_snapshots(db, cuts)
        if cuts:
            gone = [filters.equals("session_id", name) & filters.below("iteration", at) for name, at in cuts.items()]
            yield Bite(RECORDS.name, await records_of(db).delete(filters.either(*gone)))
            yield Bite(AGENT_STEPS.name, await journal_of(db).delete(filters.either(*gone)))


async def trim_traces(db: TenantStore, rules: RetentionRules) -> AsyncIterator[Bite]:
    """Delete the traces of turns that ended longer than `traces_age` ago, oldest first."""
    if rules.traces_age is None:
        return
    old = filters.below("ended_at", db.clock.now() - rules.traces_age)
    while oldest := await traces_of(db).find(old, order=[("ended_at", False)], limit=rules.bite, columns=["ended_at"]):
        reached = oldest[-1].ended_at
        if reached is None:
            return
        yield Bite(TRACES.name, await traces_of(db).delete(old, filters.at_most("ended_at", reached)))


async def trim_workers(db: TenantStore, rules: RetentionRules) -> AsyncIterator[Bite]:
    """Delete the rows of workers that are long gone; the newest stay, and those that something still leans on."""
    workers = await list_workers(db)
    limit = db.clock.now() - rules.workers_age
    needed = {*[lease.owner for lease in (await list_leases(db)).values()], *_highest(workers)}
    gone = [worker.worker_id for worker in workers if worker.heartbeat_at < limit and worker.worker_id not in needed]
    for start in range(0, len(gone), _MAX_NAMED):
        named = filters.one_of("worker_id", gone[start : start + _MAX_NAMED])
        yield Bite(WORKERS.name, await workers_of(db).delete(named, filters.below("heartbeat_at", limit)))


async def trim_memories(db: TenantStore, _: RetentionRules) -> AsyncIterator[Bite]:
    """Delete the memories that have expired."""
    yield Bite(MEMORIES.name, await memories_of(db).delete(filters.at_most("expires_at", db.clock.now())))


def _highest(workers: Sequence[Worker]) -> set[str]:
    """The next worker counts its epoch and its watermark on from the highest ones."""
    if not workers:
        return set()
    newest = max(workers, key=lambda worker: (worker.epoch, worker.started_at))
    furthest = max(workers, key=lambda worker: worker.journal_version)
    return {newest.worker_id, furthest.worker_id}


async def _lowest_watermark(db: TenantStore) -> int:
    """Every journal row up to here is in every projection, whichever worker was to store it.

    A lane that is being taken over is folded from its lease's watermark on, whatever its new owner's is.
    """
    leases, workers = (await list_leases(db)).values(), await list_workers(db)
    places = [lease.watermark for lease in leases if lease.status is LeaseStatus.CLAIMING]
    places += [worker.journal_version for worker in workers if worker.status is WorkerStatus.RUNNING]
    return min(places) if places else max((worker.journal_version for worker in workers), default=0)


async def _sessions(db: TenantStore, size: int) -> AsyncIterator[dict[SessionId, int]]:
    """The last known iteration of every session, some sessions at a time."""
    after: Expr | None = None
    while found := await states_of(db).find(
        after, order=[("session_id", False)], limit=size, columns=["session_id", "iteration"]
    ):
        yield {state.session_id: state.iteration for state in found}
        after = filters.above("session_id", found[-1].session_id)


Cuts = dict[SessionId, int]  # the first iteration that a session keeps


async def _wanted_cuts(db: TenantStore, rules: RetentionRules, last: Mapping[SessionId, int]) -> Cuts:
    """Where the rules alone would cut; a session's last step stays whatever they say."""
    cuts = {name: at + 1 - rules.steps_count for name, at in last.items()} if rules.steps_count else {}
    if rules.steps_age is not None:
        for name, iteration in (await _old_steps(db, last, db.clock.now() - rules.steps_age)).items():
            cuts[name] = max(cuts.get(name, 0), iteration + 1)
    return {name: min(at, last[name]) for name, at in cuts.items() if min(at, last[name]) > 0}


async def _old_steps(db: TenantStore, sessions: Collection[SessionId], limit: datetime) -> Cuts:
    """The newest step of each session that is older than `limit`."""
    found = await _steps(db, sessions, filters.below("created_at", limit))
    return {step.session_id: step.iteration for step in sorted(found, key=lambda step: step.iteration)}


async def _first_unprojected(db: TenantStore, cuts: Cuts, watermark: int) -> Cuts:
    found = await _steps(db, cuts, filters.above(filters.CREATED_VERSION, watermark))
    return _first_of_each(found)


async def _first_answering(db: TenantStore, cuts: Cuts, open_actions: Sequence[str]) -> Cuts:
    """A starting worker knows by these steps what was read already."""
    found: list[AgentStep] = []
    for start in range(0, len(open_actions), _MAX_NAMED):
        found += await _steps(db, cuts, filters.one_of("action_id", open_actions[start : start + _MAX_NAMED]))
    return _first_of_each(found)


async def _at_snapshots(db: TenantStore, cuts: Cuts) -> Cuts:
    """Cut before the row that holds the whole state which the first kept step's is made of."""
    if not cuts:
        return {}
    ids = [step_id(name, at) for name, at in cuts.items()]
    found = await journal_of(db).find(filters.one_of("id", ids), columns=["session_id", "iteration", "base"])
    firsts: Cuts = {}
    for step in found:
        first = step.iteration if step.base is None else min(step.base, step.iteration)
        firsts[step.session_id] = min(first, firsts.get(step.session_id, first))
    return {name: at for name, at in firsts.items() if at > 0}


async def _steps(db: TenantStore, sessions: Collection[SessionId], condition: Expr) -> list[AgentStep]:
    if not sessions:
        return []
    columns = ["session_id", "iteration"]
    return await journal_of(db).find(filters.one_of("session_id", sessions), condition, columns=columns)


def _first_of_each(steps: Sequence[AgentStep]) -> Cuts:
    ordered = sorted(steps, key=lambda step: step.iteration, reverse=True)
    return {step.session_id: step.iteration for step in ordered}


def _lowered(cuts: Cuts, limits: Cuts) -> Cuts:
    """Each cut, but not beyond its limit; cuts that would delete nothing are left out."""
    lowered = {name: min(at, limits.get(name, at)) for name, at in cuts.items()}
    return {name: at for name, at in lowered.items() if at > 0}
