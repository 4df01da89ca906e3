"""Each session beside its journal: gaps, states that cannot be rebuilt, and a row that is behind, ahead or wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

from runtime.checking.finding import Finding, FindingKind, Level
from runtime.checking.image import GRACE, Image
from runtime.checking.keys import check_steps, unreadable
from runtime.errors import RefusedError
from runtime.session import new_session, session_of_row
from runtime.spec import read_spec
from store import filters
from store.actions import find_create
from store.agent_state import CODEC as STATES
from store.agent_state import AgentState, SessionStatus, upsert_agent_state
from store.agent_steps import CODEC as STEPS
from store.agent_steps import AgentStep
from store.audit import audit
from store.database import TenantStore
from store.ids import SessionId
from store.messages import CODEC as MESSAGES
from store.messages import Message, messages_of, messages_of_step
from store.scope import Versioned

_AT_ONCE = 50
_WORKED_ON = (SessionStatus.CREATED, SessionStatus.RUNNING, SessionStatus.STOPPING)
#: statuses that a person or a limit gave, not a step
_GIVEN = (SessionStatus.PAUSED, SessionStatus.STOPPING, SessionStatus.STOPPED)
_MINOR = ("next_step_token", "usage", "last_error")


@dataclass(slots=True)
class Session:
    """A session's row and its steps as they are shown, each once, in order."""

    session_id: SessionId
    row: AgentState | None
    steps: list[Versioned[AgentStep]] = field(default_factory=list)
    #: the messages that are stored of its steps
    message_ids: set[str] = field(default_factory=set)
    readable: bool = True

    @property
    def last(self) -> AgentStep | None:
        """Its last step."""
        return self.steps[-1].item if self.steps else None


async def check_sessions(db: TenantStore, image: Image) -> AsyncIterator[Finding]:
    """The faults of every session, some sessions at a time."""
    known = await audit(db, STATES, columns=["session_id"])
    stepping = await audit(db, STEPS, filters.at_least("iteration", 0), columns=["session_id"])
    names = sorted({row.item.session_id for row in known.rows} | {row.item.session_id for row in stepping.rows})
    for start in range(0, len(names), _AT_ONCE):
        some = [SessionId(name) for name in names[start : start + _AT_ONCE]]
        sessions, faults = await _read(db, image, some)
        for fault in faults:
            yield fault
        for session in sessions:
            for fault in [*_journal_faults(session), *_row_faults(db, image, session)]:
                yield fault


async def _read(db: TenantStore, image: Image, names: Sequence[SessionId]) -> tuple[list[Session], list[Finding]]:
    named = filters.one_of("session_id", names)
    states = await audit(db, STATES, named)
    said = await audit(db, MESSAGES, named, columns=["message_id", "session_id"])
    steps = await audit(db, STEPS, named)
    sessions = {name: Session(name, None) for name in names}
    for state in states.rows:
        sessions[state.item.session_id].row = state.item
    for message in said.rows:
        sessions[message.item.session_id or SessionId("")].message_ids.add(message.item.message_id)
    for step in _shown_once(image, steps.rows):
        sessions[step.item.session_id].steps.append(step)
    for bad in [*states.unreadable, *steps.unreadable]:
        sessions[SessionId(str(bad.session_id))].readable = False
    faults = [*map(unreadable, steps.unreadable), *check_steps(db, image, steps.rows)]
    return [session for session in sessions.values() if session.readable], faults


def _shown_once(image: Image, rows: Sequence[Versioned[AgentStep]]) -> list[Versioned[AgentStep]]:
    first: dict[str, Versioned[AgentStep]] = {}
    for row in sorted(rows, key=lambda row: row.version):
        if row.item.iteration >= 0 and image.shows(row.item.lane, row.item.epoch, row.version):
            first.setdefault(row.item.id, row)
    return sorted(first.values(), key=lambda row: row.item.iteration)


# --- the journal by itself -------------------------------------------------------------------------------------------


def _journal_faults(session: Session) -> Iterator[Finding]:
    there = [row.item.iteration for row in session.steps]
    for before, after in pairwise(there):
        if after != before + 1:
            yield Finding(
                FindingKind.GAP,
                Level.LOST,
                STEPS.spec.name,
                f"{session.session_id}:{before + 1}",
                f"the session's steps jump from {before} to {after}",
                "restore the missing rows from an export or a copy; the session itself can go on",
            )
    yield from _broken_chains(session, set(there))


def _broken_chains(session: Session, there: set[int]) -> Iterator[Finding]:
    """A row of changes needs every row from its base on."""
    whole = {row.item.iteration for row in session.steps if row.item.base is None}
    for row in session.steps:
        step = row.item
        if step.base is None:
            continue
        missing = next((at for at in range(step.base, step.iteration) if at not in there), None)
        if missing is not None and missing > min(there):
            return  # that is a gap, and told as one
        if step.base not in whole:
            yield Finding(
                FindingKind.CHAIN_BROKEN,
                Level.LOST,
                STEPS.spec.name,
                step.id,
                f"its state is made of the steps from {step.base} on, and "
                + (f"step {missing} is not there" if missing is not None else f"step {step.base} holds no whole state"),
                "restore the missing rows from an export or a copy; the session itself can go on",
            )
            return  # the rows behind it on the same chain are broken by the same cause


# --- the session's row beside it -------------------------------------------------------------------------------------


def _row_faults(db: TenantStore, image: Image, session: Session) -> Iterator[Finding]:
    due = [row for row in session.steps if row.version <= image.watermark(row.item.lane)]
    row, last = session.row, session.last
    if row is None:
        if due:
            yield _fault(FindingKind.STATE_MISSING, session, "it has steps and no row", partial(_make_row, db, session))
        return
    if due and row.iteration < due[-1].item.iteration:
        problem = f"the row is at step {row.iteration}, the journal at {due[-1].item.iteration}"
        yield _fault(FindingKind.STATE_BEHIND, session, problem, partial(_fold_on, db, session))
    elif row.iteration > (last.iteration if last else -1):
        problem = f"the row is at step {row.iteration}, the journal ends at {last.iteration if last else 'nothing'}"
        yield _fault(
            FindingKind.STATE_AHEAD, session, problem, partial(_go_back, db, session) if last else None, Level.LOST
        )
    elif differing := _differing(session):
        problem = f"the row's {', '.join(differing)} differ from its step {row.iteration}"
        yield _fault(FindingKind.STATE_DIFFERS, session, problem, partial(_go_back, db, session))
    yield from _missing_messages(db, session, due)
    yield from _unowned(image, row)


def _fault(kind: FindingKind, session: Session, problem: str, mend: Any, level: Level = Level.WRONG) -> Finding:
    cure = "fold the journal into it" if mend else "destroy the session, or restore its steps from an export"
    return Finding(kind, level, STATES.spec.name, session.session_id, problem, cure, mend)


def _differing(session: Session) -> list[str]:
    """The columns of the row that contradict the step that it is at."""
    row = session.row
    step = next((each.item for each in session.steps if row is not None and each.item.iteration == row.iteration), None)
    if row is None or step is None:
        return []
    fold = _folded(row, step)
    found = [name for name in _MINOR if (getattr(row, name) or None) != (getattr(fold, name) or None)]
    if step.base is None and (row.context or {}) != (fold.context or {}):
        found.append("context")
    return found


def _folded(row: AgentState, step: AgentStep) -> AgentState:
    """The row as its last step makes it; a status that a person gave stays."""
    session = session_of_row(row, owner=row.owner or "", epoch=row.epoch)
    session.iteration = step.iteration - 1
    opened, mark = session.open, session.budget
    session.apply(step)
    if row.iteration == step.iteration:  # the step after it has begun
        session.open = opened
    if row.status in _GIVEN:
        session.enter(row.status, row.reason, row.updated_at, budget=mark)
    return session.snapshot()


async def _go_back(db: TenantStore, session: Session) -> str:
    row, last = session.row, session.last
    if row is None or last is None:
        return "nothing was there to fold"
    folded = _folded(row, last)
    if last.base is not None:
        folded = dataclasses.replace(folded, context=row.context)
    await upsert_agent_state(db, [dataclasses.replace(folded, lane=row.lane)])
    return f"the row is as step {last.iteration} left it"


async def _fold_on(db: TenantStore, session: Session) -> str:
    row = session.row
    if row is None:
        return "no row was there"
    await upsert_agent_state(db, [_folded_on(row, session.steps)])
    return f"the row was brought to step {session.steps[-1].item.iteration}"


def _folded_on(row: AgentState, steps: Sequence[Versioned[AgentStep]]) -> AgentState:
    live = session_of_row(row, owner=row.owner or "", epoch=row.epoch)
    for step in steps:
        live.apply(step.item)
    return dataclasses.replace(live.snapshot(), lane=row.lane)


async def _make_row(db: TenantStore, session: Session) -> str:
    create, first = await find_create(db, session.session_id), session.steps[0].item
    if create is None:
        return "its create is not in the queue any more, so nothing was done; restore the row from an export"
    try:
        spec = read_spec(create.payload, create.id)
        row = new_session(create, spec, first.step_token, owner="", epoch=first.epoch).snapshot()
    except RefusedError as error:
        return f"its create cannot be used ({error}), so nothing was done; restore the row from an export"
    await upsert_agent_state(db, [_folded_on(dataclasses.replace(row, lane=first.lane or row.lane), session.steps)])
    return f"the row was made again from its create and {len(session.steps)} steps"


def _missing_messages(db: TenantStore, session: Session, due: Sequence[Versioned[AgentStep]]) -> Iterator[Finding]:
    row = session.row
    if row is None or row.conversation_id is None:
        return
    for step in due:
        for message in messages_of_step(step.item, row.conversation_id):
            if message.message_id not in session.message_ids:
                yield Finding(
                    FindingKind.MESSAGE_MISSING,
                    Level.WRONG,
                    MESSAGES.spec.name,
                    message.message_id,
                    f"conversation {row.conversation_id!r} does not have what the step said",
                    "add it again from the step",
                    partial(_say_again, db, message),
                )


async def _say_again(db: TenantStore, message: Message) -> str:
    await messages_of(db).append(message)
    return "the message was added"


def _unowned(image: Image, row: AgentState) -> Iterator[Finding]:
    if row.status not in _WORKED_ON or not image.leases or row.updated_at + GRACE > image.now:
        return
    could = [worker for worker in image.alive if row.moniker in (worker.monikers or ())]
    lease = image.leases.get(row.place)
    if any(worker.started_at + GRACE < image.now for worker in could) and (lease is None or lease.owner is None):
        yield Finding(
            FindingKind.UNOWNED,
            Level.WRONG,
            STATES.spec.name,
            row.session_id,
            f"it is {row.status.value} and no worker owns its lane {row.place!r}",
            "restart a worker that knows the moniker " + row.moniker,
        )
