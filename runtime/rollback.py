"""Rollback: taking a running turn back, so that another input begins in its place.

The journal only grows, so a rollback is a step of its own: it has the state, the tokens and the wait of the step M
that came before the turn. Found from the journal, it is the same after a restart.

    M ── n (read the input) ── n+1 ── ... ── k ── rollback: as M ── the new input's first step
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from runtime.contract import Json
from runtime.session import LiveSession
from store.agent_steps import AgentStep, StepFilter, StepStatus, is_rollback, list_agent_steps
from store.database import TenantStore
from store.ids import ActionId, SessionId, step_id
from store.money import money_text

_PAGE = 100
#: steps before the turn that are searched for what was said and pulled last
_LOOK_BACK = 200


@dataclass(frozen=True, slots=True)
class Before:
    """Where a session stood before the running turn."""

    #: the last step before the turn; None when the turn began with the first step
    step: AgentStep | None
    result: Any
    pulled_to: int | None

    @property
    def iteration(self) -> int:
        return -1 if self.step is None else self.step.iteration


async def before_turn(db: TenantStore, session: LiveSession, turn: ActionId) -> Before:
    """Where the session stood before `turn`, by its journal. The steps of a turn name it, without a gap."""
    found: list[AgentStep] = []
    async for step in _backwards(db, session.session_id):
        if not found and session.turn == turn and _turn_of(step) == turn:
            continue
        found.append(step)
        if len(found) == _LOOK_BACK or is_rollback(step):
            break
    pulled = [_read_by(step)["pulled_to"] for step in found if "pulled_to" in _read_by(step)]
    return Before(found[0] if found else None, _result_at(found), pulled[0] if pulled else None)


def _result_at(steps: Sequence[AgentStep]) -> Any:
    """What the session had said last; `steps` are newest first and go back to a rollback or far enough."""
    for step in steps:
        if step.text is not None:
            return step.text
        if is_rollback(step):
            return _read_by(step).get("result")
    return None


def rollback_step(
    session: LiveSession, before: Before, turn: ActionId, by: ActionId, first_step: str, now: datetime
) -> AgentStep:
    """The row that takes `turn` back for the input `by`."""
    went_back_to = before.step
    taken_back = [before.iteration + 1, session.iteration] if session.iteration > before.iteration else []
    read: Json = {"rolled_back": taken_back, "turn_taken_back": turn, "by": by, "result": before.result}
    if before.pulled_to is not None:
        read["pulled_to"] = before.pulled_to
    waits = went_back_to is not None and went_back_to.status is StepStatus.WAITING
    return AgentStep(
        id=step_id(session.session_id, session.steps),
        created_at=now,
        agent_id=session.identity.agent_id,
        session_id=session.session_id,
        action_id=turn,
        iteration=session.steps,
        step_token=first_step if went_back_to is None else went_back_to.step_token,
        next_step_token=first_step if went_back_to is None else went_back_to.next_step_token,
        status=StepStatus.WAITING if waits else StepStatus.RUNNING,
        text=None,
        data={"rolled_back": taken_back, "action_id": turn, "by": by},
        state={} if went_back_to is None else went_back_to.state,
        guidance=read,
        notes=f"rolled back to iteration {before.iteration}",
        wait=None if went_back_to is None else went_back_to.wait,
        latency_ms=0.0,
        error=None,
        usage=_usage(session),
        epoch=session.epoch,
        lane=session.lane,
    )


def _usage(session: LiveSession) -> Json:
    """The session's totals with what the step that is taken back had used before it could be stored."""
    used = session.open.row()
    cost = {} if "cost" not in used else {"cost": money_text(session.spent.money)}
    counted = {name: session.usage.get(name, 0) + value for name, value in used.items() if name != "cost"}
    before = {name: value for name, value in session.usage.items() if name != "step"}
    return {**before, **counted, **cost, "steps": session.steps + 1}


async def taken_back_by(db: TenantStore, session_id: SessionId, turn: ActionId) -> ActionId | None:
    """The action whose rollback was the last thing that happened to the turn `turn`, if it was one."""
    async for step in _backwards(db, session_id):
        if step.action_id == turn:
            by: ActionId | None = _read_by(step).get("by")
            return by
    return None


def _read_by(step: AgentStep) -> Json:
    return step.guidance if isinstance(step.guidance, dict) else {}


def _turn_of(step: AgentStep) -> ActionId | None:
    turn: ActionId | None = _read_by(step).get("turn")
    return turn


async def _backwards(db: TenantStore, session_id: SessionId) -> AsyncIterator[AgentStep]:
    """A session's steps, newest first."""
    cursor: str | None = None
    while True:
        page = await list_agent_steps(db, StepFilter(session_id), order="desc", limit=_PAGE, cursor=cursor)
        for step in page.items:
            yield step
        cursor = page.next_cursor
        if cursor is None:
            return
