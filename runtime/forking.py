"""Forks: a session that begins with what another one had after one of its steps.

Its first row (iteration 0) carries the state, the step tokens and the wait of that step; from there it is a session of
its own. A wait is waited for again; a fork of a `done` step waits for an input; a fork of a failed step takes that step
again. What the old session reads, says or becomes later changes nothing here, and the other way round.

Crash before the first row's commit: the action is open and is carried out again. After it: the row is there and is
found, so there is no second one.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from runtime.approvals.items import bare, wait_items
from runtime.contract import Json, WaitForApproval, WaitForInput
from runtime.errors import RefusedError
from runtime.projector import Projector
from runtime.session import LiveSession, taint_of, taint_row
from runtime.spec import ForkedFrom
from store.actions import Action
from store.agent_steps import AgentStep, StepStatus, find_step
from store.database import TenantStore
from store.ids import SessionId, step_id
from store.stepstates import is_changes

_NOTHING_USED: Json = {"steps": 1, "runtime_s": 0.0, "calls": 0, "input_tokens": 0, "output_tokens": 0}


async def begin_fork(
    db: TenantStore, projector: Projector, session: LiveSession, origin: ForkedFrom, action: Action
) -> None:
    """Give a new session its first row; when this returns it is stored.

    Raises `RefusedError` when the step to begin from is not stored, or its state cannot be rebuilt.
    """
    earlier = await find_step(db, session.session_id, 0)
    if earlier is not None:
        session.apply(earlier)
        projector.touch(session)
        return
    source = await find_step(db, SessionId(origin.session_id), origin.iteration)
    if source is None or is_changes(source):
        raise RefusedError(
            f"there is no whole step {origin.iteration} of session {origin.session_id!r} to fork from; "
            "it was never stored, or retention has removed what it is rebuilt from"
        )
    await projector.commit(session, _first_row(session, source, origin, action, db.clock.now()))


def _first_row(session: LiveSession, source: AgentStep, origin: ForkedFrom, action: Action, now: datetime) -> AgentStep:
    status, wait = _status_and_wait(session, source, now)
    stored = session.trail.stored({}, source.state)
    return AgentStep(
        id=step_id(session.session_id, 0),
        created_at=now,
        agent_id=session.identity.agent_id,
        session_id=session.session_id,
        action_id=action.id,
        iteration=0,
        step_token=source.step_token,
        next_step_token=source.next_step_token,
        status=status,
        text=source.text,
        data={"forked_from": origin.model_dump(mode="json")},
        state=stored.state,
        guidance=_read_again(source),
        notes=f"forked from session {origin.session_id}, step {origin.iteration}",
        wait=wait,
        latency_ms=0.0,
        error=None,
        usage={**_NOTHING_USED, **taint_row(taint_of(source.usage))},
        epoch=session.epoch,
        lane=session.lane,
        changes=stored.changes,
        base=stored.base,
    )


def _read_again(source: AgentStep) -> Json | None:
    """What a step that asked has to read again: in the fork it asks anew."""
    read = source.guidance if isinstance(source.guidance, dict) else {}
    return {name: value for name, value in read.items() if name != "turn"} if read.get("again") else None


def _status_and_wait(session: LiveSession, source: AgentStep, now: datetime) -> tuple[StepStatus, Json | None]:
    if _read_again(source) is not None:
        return StepStatus.RUNNING, None
    match source.status:
        case StepStatus.DONE:
            return StepStatus.WAITING, WaitForInput().model_dump(mode="json")
        case StepStatus.ERROR:
            return StepStatus.RUNNING, None
        case StepStatus.RUNNING | StepStatus.WAITING:
            return source.status, _own_wait(session, source.wait, now)


def _own_wait(session: LiveSession, wait: Any, now: datetime) -> Json | None:
    """A wait as the fork has it: its questions are its own, and an answer to the old session's is none to them."""
    if not isinstance(wait, dict) or wait.get("kind") != "approval":
        found: Json | None = wait
        return found
    items = wait_items(
        bare(wait["items"]), session_id=session.session_id, iteration=0, asked_at=now, epoch=session.epoch
    )
    return WaitForApproval(items=items).model_dump(mode="json")
