"""What a session does next: decided between two steps from what is known then. Nothing here acts or waits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import assert_never

from runtime.contract import Json, StepOut, Wait, WaitForApproval, WaitForInput, WaitUntil
from runtime.session import LiveSession, why_waiting
from store.agent_state import SessionStatus
from store.agent_steps import StepStatus


class Move(Enum):
    """What a runner does next."""

    STEP = auto()  # take a step
    HOLD = auto()  # stay in memory until there is news or the wait is over
    ROLL_BACK = auto()  # take the running turn back
    REST = auto()  # leave memory


@dataclass(frozen=True, slots=True)
class Decision:
    """A move and the status that the session has with it."""

    move: Move
    status: SessionStatus
    reason: str | None = None
    #: the spent budget that the session is paused for
    budget: Json | None = None


@dataclass(frozen=True, slots=True)
class Horizon:
    """The present, and how far off a moment may be for a session to stay in memory until it comes."""

    now: datetime
    hold_s: float

    def seconds_until(self, wait: WaitUntil) -> float:
        return (wait.time - self.now).total_seconds()

    def reaches(self, wait: WaitUntil) -> bool:
        return self.seconds_until(wait) <= self.hold_s


@dataclass(frozen=True, slots=True)
class Situation:
    """What a runner knows between two steps beside its session. What comes first in here is honoured first."""

    horizon: Horizon
    stop: bool = False
    #: the worker stops, or gives the session away: it stays as it is
    drain: bool = False
    roll_back: bool = False
    pause: bool = False
    #: a limit that was reached, in words
    limit: str | None = None
    #: seconds until a step that failed is tried again; not above 0 when there is nothing to wait for
    retry_in_s: float = 0.0
    #: there is something for the next step to read
    is_asked: bool = False


def decide(session: LiveSession, situation: Situation) -> Decision:
    """What to do between two steps: stop, rollback, pause, limits, another try, what is to be read, the wait asked for.

    A question that a step asks in its middle comes before what is to be read: unanswered, no step can be taken.
    """
    if session.ended:
        return Decision(Move.REST, session.status, session.reason)
    if situation.stop:
        return Decision(Move.REST, SessionStatus.STOPPED, "destroyed")
    if situation.drain:
        return Decision(Move.REST, session.status, session.reason)
    if situation.roll_back:
        return Decision(Move.ROLL_BACK, SessionStatus.RUNNING)
    if situation.pause:
        return Decision(Move.REST, SessionStatus.PAUSED, "paused")
    if situation.limit is not None:
        return Decision(Move.REST, SessionStatus.STOPPED, situation.limit)
    if situation.retry_in_s > 0:
        return Decision(Move.HOLD, SessionStatus.RUNNING, session.reason)
    if session.asks_in_step:
        return Decision(Move.REST, SessionStatus.WAITING, why_waiting(session.wait))
    if situation.is_asked or session.is_answered:
        return Decision(Move.STEP, SessionStatus.RUNNING)
    return _decide_wait(session, situation.horizon)


def _decide_wait(session: LiveSession, horizon: Horizon) -> Decision:
    wait = session.wait
    match wait:
        case None:
            return Decision(Move.STEP, SessionStatus.RUNNING)
        case WaitUntil() if horizon.seconds_until(wait) <= 0:
            return Decision(Move.STEP, SessionStatus.RUNNING)
        case WaitUntil() if horizon.reaches(wait):
            return Decision(Move.HOLD, SessionStatus.RUNNING, session.reason)
        case WaitUntil() | WaitForInput() | WaitForApproval():
            return Decision(Move.REST, SessionStatus.WAITING, why_waiting(wait))
        case _:
            assert_never(wait)


def limit_reached(session: LiveSession, seconds_left: float | None) -> str | None:
    """The limit that keeps the session from another step, in words; `seconds_left` are those of `max_runtime_s`."""
    spec = session.spec
    if spec.max_steps is not None and session.steps >= spec.max_steps:
        return f"max_steps {spec.max_steps} reached"
    if spec.max_runtime_s is not None and seconds_left is not None and seconds_left <= 0:
        return f"max_runtime_s {spec.max_runtime_s:g} reached"
    return None


def status_after(out: StepOut, horizon: Horizon, *, stops_when_done: bool) -> StepStatus:
    """What the session does after a step that answered `out`."""
    if out.done and stops_when_done:
        return StepStatus.DONE
    return StepStatus.WAITING if _rests_for(out.wait, horizon) else StepStatus.RUNNING


def _rests_for(wait: Wait | None, horizon: Horizon) -> bool:
    match wait:
        case None:
            return False
        case WaitUntil():
            return not horizon.reaches(wait)
        case WaitForInput() | WaitForApproval():
            return True
        case _:
            assert_never(wait)
