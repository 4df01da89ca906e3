"""How a step that was taken becomes a row of the journal: one that ended, one that failed, one that asks a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from runtime.approvals.items import wait_items
from runtime.contract import Json, StepFrame, StepOut, Wait, WaitForApproval
from runtime.guard.taint import CLEAN, Taint
from runtime.llm.money import NO_COSTS, CallCosts
from runtime.llm.port import Usage
from runtime.reading import Reading
from runtime.session import LiveSession, taint_of, taint_row
from runtime.usage import Used, totals
from store.agent_steps import AgentStep, StepStatus
from store.ids import ActionId, step_id

#: what a session's usage says of money, once there is something to say
_PRICED = ("cost", "unpriced_calls")


@dataclass(frozen=True, slots=True)
class Taken:
    """A step that was taken, whatever came of it."""

    frame: StepFrame
    reading: Reading
    #: what its calls have used
    used: Usage
    #: the session's seconds of work, this step's too
    runtime_s: float
    latency_ms: float
    ended_at: datetime
    #: what they cost
    costs: CallCosts = NO_COSTS
    #: where the text from outside in the session's context came from, the step's calls included
    taint: Taint = CLEAN


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What differs between a step that ended, one that failed and one that asks."""

    status: StepStatus
    #: the turn that goes on after it
    turn: ActionId | None
    next_step_token: str
    state: Json
    text: str | None = None
    data: Json | None = None
    notes: str | None = None
    wait: Json | None = None
    error: str | None = None
    #: what its calls brought in stays; else its next try reads the same calls and finds the same again
    keeps_taint: bool = False


def ended_row(session: LiveSession, taken: Taken, out: StepOut, status: StepStatus, turn: ActionId | None) -> AgentStep:
    """The row of a step that answered `out`; `turn` goes on after it.

    Raises whatever a state without JSON raises, and `MonikerError` for a wait with an item that is no question.
    """
    outcome = _Outcome(
        status=status,
        turn=turn,
        next_step_token=out.next_step,
        state=out.state,
        text=out.text,
        data=out.data,
        notes=out.notes,
        wait=_stored_wait(session, out.wait, taken.ended_at),
        keeps_taint=True,
    )
    return _row(session, taken, outcome)


def _stored_wait(session: LiveSession, wait: Wait | None, now: datetime) -> Json | None:
    if isinstance(wait, WaitForApproval):
        items = wait_items(
            wait.items, session_id=session.session_id, iteration=session.steps, asked_at=now, epoch=session.epoch
        )
        wait = WaitForApproval(items=items)
    return None if wait is None else wait.model_dump(mode="json")


def failed_row(session: LiveSession, taken: Taken, error: str, *, keeps_inputs: bool = False) -> AgentStep:
    """The row of a step that failed: it stays where it was, and its turn is over.

    With `keeps_inputs` what it read was not taken up, and is read again when the session is resumed.
    """
    outcome = _Outcome(
        status=StepStatus.ERROR,
        turn=None,
        next_step_token=taken.frame.step,
        state=session.context,
        error=error,
    )
    row = _row(session, taken, outcome)
    if not keeps_inputs or taken.reading.pulled_to is not None:  # what was pulled is pulled again
        return row
    return replace(row, guidance={**(Reading(inputs=taken.reading.inputs).row(None) or {}), "again": True})


def asking_row(session: LiveSession, taken: Taken, questions: Sequence[Json]) -> AgentStep:
    """The row of a step that waits for a person: it stays where it was and reads the same again.

    It answers no interrupt and keeps nothing that was pulled: both are where they were, and are read from there.
    """
    read = taken.reading
    again = Reading(turn=read.turn, inputs=() if read.pulled_to is not None else read.inputs, answers=read.answers)
    outcome = _Outcome(
        status=StepStatus.WAITING,
        turn=read.turn_in(session),
        next_step_token=taken.frame.step,
        state=session.context,
        notes="waits for a person's answer",
        wait=WaitForApproval(items=tuple(questions)).model_dump(mode="json"),
    )
    kept = {**(again.row(outcome.turn) or {}), "again": True}
    return replace(_row(session, taken, outcome), action_id=again.action_in(session), guidance=kept)


def _row(session: LiveSession, taken: Taken, outcome: _Outcome) -> AgentStep:
    stored = session.trail.stored(session.context, outcome.state)
    return AgentStep(
        id=step_id(session.session_id, session.steps),
        created_at=taken.ended_at,
        agent_id=session.identity.agent_id,
        session_id=session.session_id,
        action_id=taken.reading.action_in(session),
        iteration=session.steps,
        step_token=taken.frame.step,
        next_step_token=outcome.next_step_token,
        status=outcome.status,
        text=outcome.text,
        data=outcome.data,
        state=stored.state,
        guidance=taken.reading.row(outcome.turn),
        notes=outcome.notes,
        wait=outcome.wait,
        latency_ms=taken.latency_ms,
        error=outcome.error,
        usage=_usage(session, taken, keeps_taint=outcome.keeps_taint),
        epoch=session.epoch,
        lane=session.lane,
        changes=stored.changes,
        base=stored.base,
    )


def _usage(session: LiveSession, taken: Taken, *, keeps_taint: bool) -> Json:
    """The session's totals up to and with the step, and what the step used alone."""
    hops = taken.reading.hops_in(session)
    taint = taken.taint if keeps_taint else taint_of(session.usage).joined(taken.reading.taint)
    return {
        "steps": session.steps + 1,
        "runtime_s": round(taken.runtime_s, 6),
        **totals(session.usage, Used(taken.used, taken.costs)),
        **({"hops": hops} if hops else {}),
        **taint_row(taint),
    }
