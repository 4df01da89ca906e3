"""The turns of one session: the inputs that wait for theirs, and the one whose turn is running.

All of it is in memory. The input of every turn is open in the queue until its turn has ended: after a crash it is read
from there, and handed over again.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import deque
from dataclasses import dataclass

from runtime.contract import WaitForInput, WaitUntil
from runtime.errors import ParkedError, RefusedError
from runtime.session import LiveSession
from store.actions import Action
from store.cancelling import CANCELLED
from store.ids import ActionId


@dataclass(frozen=True, slots=True)
class Turn:
    """An `agent_input` and the future that its handler waits for."""

    action: Action
    ended: asyncio.Future[None]

    def fail(self, error: Exception) -> None:
        """End with `error`, unless nobody waits any more."""
        if not self.ended.done():
            self.ended.set_exception(error)


class Turns:
    """Who is next, who is at it, and who is told what when it is over.

    With `at_any_step` a step answers an input as soon as it can, and no turn is longer than that one step.
    """

    def __init__(self, session: LiveSession, *, at_any_step: bool) -> None:
        self._session = session
        self._at_any_step = at_any_step
        self._waiting: deque[Turn] = deque()
        #: the running turn, when its input was handed over
        self.running: Turn | None = None

    @property
    def running_id(self) -> ActionId | None:
        """The turn that is running, be it that its first step is not stored yet."""
        return self._session.turn or (None if self.running is None else self.running.action.id)

    @property
    def any_wait(self) -> bool:
        """Whether there are inputs that no turn has begun with."""
        return bool(self._waiting)

    @property
    def cut_short(self) -> Turn | None:
        """The running turn, when no step of it is stored: the next step reads its input again."""
        return self.running if self._session.turn is None else None

    @property
    def urgency(self) -> int | None:
        """How urgent the first input in line is; None when there is none."""
        return self._waiting[0].action.urgency if self._waiting else None

    def hand_over(self, action: Action) -> Turn:
        """Take an input in: the running turn's own, which came again, or one more that waits."""
        turn = _turn_of(action)
        if self._session.turn == action.id:
            self.running = turn
        else:
            insort(self._waiting, turn, key=_by_urgency)  # among equals the one that came first stays first
        return turn

    def put_first(self, action: Action) -> Turn:
        """Take an input in that comes before all others, however urgent they are."""
        turn = _turn_of(action)
        self._waiting.appendleft(turn)
        return turn

    def withdraw(self, action_id: ActionId) -> bool:
        """Take an input back that no step has read; its handler gets a `RefusedError`. False when there is none."""
        for turn in self._waiting:
            if turn.action.id == action_id and not turn.ended.done():
                self._waiting.remove(turn)
                turn.fail(RefusedError(CANCELLED))
                return True
        return False

    def next(self) -> Turn | None:
        """The input to begin a turn with, if one may begin; one that a rollback was made for is waited for."""
        if not self._waiting or not self._may_begin():
            return None
        due = self._session.due
        return next((turn for turn in self._waiting if due is None or turn.action.id == due), None)

    def _may_begin(self) -> bool:
        if self._at_any_step or isinstance(self._session.wait, WaitForInput):
            return True
        # A wait for a moment ends early, but not within a turn: that one ends first.
        return isinstance(self._session.wait, WaitUntil) and self._session.turn is None

    def begin(self, turn: Turn) -> None:
        """A step reads the input of `turn`, which waited."""
        self._waiting.remove(turn)
        self.running = turn

    def going_on(self, turn: ActionId | None) -> ActionId | None:
        """`turn`, the turn of a step after which the session runs on, if it is more than that step."""
        return None if self._at_any_step else turn

    def end(self, failed: Exception | None) -> None:
        """A step is stored: if the running turn ended with it, tell its handler so; `failed` says that it did badly."""
        if self._session.turn is not None:  # the stored step says that it goes on
            return
        turn, self.running = self.running, None
        if turn is None:
            return
        if failed is not None:
            turn.fail(failed)
        elif not turn.ended.done():
            turn.ended.set_result(None)

    def take_back(self, by: ActionId) -> None:
        """The running turn was rolled back for the input `by`: its handler gets a `RefusedError`."""
        turn, self.running = self.running, None
        if turn is not None:
            turn.fail(RefusedError(f"rolled back by action {by}"))

    def leave(self) -> None:
        """The session leaves memory: whoever still waits gets a `RefusedError` if it has ended, else `ParkedError`."""
        for turn in [*([self.running] if self.running else []), *self._waiting]:
            turn.fail(self._unread(turn))
        self._waiting.clear()

    def _unread(self, turn: Turn) -> Exception:
        session = self._session
        if session.ended:
            why = session.reason or session.status.value
            return RefusedError(f"session {session.session_id!r} ended before the turn did ({why})")
        return ParkedError(f"session {session.session_id!r} rests; action {turn.action.id} stays open")


def _turn_of(action: Action) -> Turn:
    return Turn(action, asyncio.get_running_loop().create_future())


def _by_urgency(turn: Turn) -> int:
    return -turn.action.urgency
