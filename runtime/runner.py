"""The runner: carries one session's moniker from step to step (spec 1, "Runner loop").

    decide ─▶ STEP ─▶ frame ─▶ moniker ─▶ commit (the step is true) ─▶ decide ...
       ├─▶ HOLD  until something is asked of it or its short wait is over
       └─▶ REST  its row is stored and it leaves memory

Invariant: **the next step starts only when the last one is committed.** Killed during a step: the step never was;
the next owner takes it again from the records of its calls. Killed after the commit: the next owner goes on behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, assert_never

from pydantic import BaseModel

from runtime.agent_core import InterruptMixin, PauseMixin, StopMixin
from runtime.context import Services, StepContext, calls_of
from runtime.contract import Moniker, MonikerError, StepFrame, StepOut, WaitUntil
from runtime.decisions import Decision, Horizon, Move, Situation, decide, limit_reached, status_after
from runtime.errors import OwnershipLostError, RefusedError, SpentError
from runtime.firstof import first_of
from runtime.guard.errors import GateFailedError
from runtime.llm.port import LlmError
from runtime.ownership import Ownership
from runtime.projector import Projector
from runtime.reading import Reading, next_reading
from runtime.retries import RetryPolicy
from runtime.rollback import before_turn, rollback_step
from runtime.session import Guidance, LiveSession
from runtime.slots import Asker, Slots
from runtime.stepcall import StepCall, StepCutError, is_being_cancelled, uncancel
from runtime.steprows import Taken, asking_row, ended_row, failed_row
from runtime.trying import NextTry, next_try, said_by_moniker, words_of
from runtime.turns import Turns
from runtime.watchers import Watchers
from runtime.worktime import WorkTime
from store.actions import Action
from store.agent_state import SessionStatus
from store.agent_steps import AgentStep, StepStatus
from store.clock import SystemChance
from store.errors import StoreError
from store.ids import ActionId

NO_RETRIES = RetryPolicy(SystemChance(), max_attempts=1)


@dataclass(frozen=True, slots=True)
class Workplace:
    """What all runners of a worker share. `forget` is called, without an await, when one has left memory."""

    services: Services
    projector: Projector
    ownership: Ownership
    slots: Slots
    #: seconds: a session that waits no longer than this stays in memory
    hold_s: float
    forget: Callable[[Runner], None]
    retries: RetryPolicy = NO_RETRIES


class Runner(PauseMixin, InterruptMixin[Guidance], StopMixin):
    """Runs one session until it rests. `reopened` says that it was in memory before: its step may have been tried."""

    def __init__(
        self, session: LiveSession, moniker: Moniker[Any], config: BaseModel, workplace: Workplace, *, reopened: bool
    ) -> None:
        super().__init__(interrupts=session.guidance)
        self.session = session
        self._moniker = moniker
        self._config = config
        self._services = workplace.services
        self._projector = workplace.projector
        self._ownership = workplace.ownership
        self._slots = workplace.slots
        self._retries = workplace.retries
        self._hold_s = workplace.hold_s
        self._forget = workplace.forget
        self._turns = Turns(session, at_any_step=moniker.takes_input == "any_step")
        self._time = WorkTime(session, self._services.clock)
        self._call = StepCall(moniker, self._time)
        self._watchers = Watchers()
        self._may_have_records = reopened
        #: the moment (monotonic) of the next try of a step that failed
        self._retry_at: float | None = None
        #: the input that the running turn has to make room for
        self._rollback_by: ActionId | None = None
        self._draining = False
        #: it left because the store could not be reached, not because it wanted to rest
        self.lost_store = False
        if self.is_paused_by_a_person:
            self.request_pause()

    # What others ask of it.

    def hand_over(self, action: Action) -> asyncio.Future[None]:
        """Give the session an input; the future is done when its turn has ended.

        It raises `RefusedError` when the session ends first, `ParkedError` when it rests before it has read it.
        """
        turn = self._turns.hand_over(action)
        self.nudge()
        return turn.ended

    def roll_back(self, action: Action) -> asyncio.Future[None]:
        """Take the running turn back and begin the turn of `action` in its place; without one, like `hand_over`.

        What waits behind the running turn stays. The future is as that of `hand_over`.
        """
        turn = self._turns.put_first(action)
        if self.turn is not None:
            self._rollback_by = action.id
            self.cancel_step()
        self.nudge()
        return turn.ended

    @property
    def turn(self) -> ActionId | None:
        """The turn that is running, be it that its first step is not stored yet."""
        return self._turns.running_id

    @property
    def inputs_wait(self) -> bool:
        """Whether there are inputs that no turn has begun with."""
        return self._turns.any_wait

    @property
    def is_paused_by_a_person(self) -> bool:
        """Whether only a person lets it go on: one that is paused for a spent budget looks again by itself."""
        return self.session.status is SessionStatus.PAUSED and self.session.budget is None

    def interrupt(self, guidance: Guidance) -> None:
        """Have the next step read `guidance`; a step that waits for its next try is tried at once."""
        self._retry_at = None
        super().interrupt(guidance)

    def withdraw(self, action_id: ActionId) -> bool:
        """Take an input back that no step has read; its handler gets a `RefusedError`. False when there is none."""
        withdrawn = self._turns.withdraw(action_id)
        if withdrawn:
            self.nudge()
        return withdrawn

    def drain(self) -> None:
        """Leave after the running step, with the session as it is: another start carries it on."""
        self._draining = True
        self.nudge()

    def abandon(self) -> None:
        """Leave at once and store nothing: another worker has the session."""
        self._draining = True
        if self._task is not None:
            self._task.cancel()

    def cancel_step(self) -> None:
        """Cancel the moniker's call, if one runs; a commit is never cancelled."""
        if self._call.runs:
            super().cancel_step()

    def go_on_when_answered(self) -> None:
        """Have the session go on if all that it asked is answered now; else it rests again."""
        session, now = self.session, self._services.clock.now()
        if session.is_answered and session.status is SessionStatus.WAITING:
            session.enter(SessionStatus.RUNNING, "answered", now)
        else:  # whoever looks on sees by the stamp that it asks less than before
            session.enter(session.status, session.reason, now)
        self._projector.touch(self.session)
        self.nudge()

    def nudge(self) -> None:
        super().nudge()
        self._watchers.look()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when `condition` holds or the runner has left; it is looked at whenever something changes."""
        if not self._left():
            await self._watchers.until(condition)

    def _left(self) -> bool:
        return self._task is not None and self._task.done()

    # The loop.

    async def run(self) -> None:
        """Step, hold and rest until there is nothing left to do. Never raises but when the worker is cancelled."""
        try:
            await self._run()
        except asyncio.CancelledError:
            if not self._draining:
                raise
        except OwnershipLostError as error:
            self._services.log.warning(
                "a session was taken over by another worker; its last step here is not shown",
                session_id=self.session.session_id,
                error=str(error),
            )
        except StoreError as error:
            self.lost_store = True
            self._services.log.error(
                "a session lost its store; it goes on when the store is back",
                session_id=self.session.session_id,
                error=str(error),
            )
        finally:
            self._leave()

    async def _run(self) -> None:
        while True:
            decision = self._with_slot(self._decide())
            self._enter(decision)
            match decision.move:
                case Move.STEP:
                    if not self._ownership.fresh():
                        await self._ownership.until_fresh()
                        continue
                    await self._step()
                    self._slots.step_ended(self.session.session_id)
                case Move.HOLD:
                    await self._hold()
                case Move.ROLL_BACK:
                    await self._roll_back()
                case Move.REST:
                    kept = self.session.inbox()
                    await self._projector.stored(self.session)
                    # Something may have been asked while the row was stored, of a paused session too, which goes on
                    # resting: whoever opens it next reads the row. From here to the end nothing awaits.
                    if self._decide() == decision and self.session.inbox() == kept:
                        return
                case _:
                    assert_never(decision.move)

    def _decide(self) -> Decision:
        return self._within_budget(self._decide_freely())

    def _within_budget(self, decision: Decision) -> Decision:
        """`decision`, but no step, nor any other end of the pause, while a budget is spent."""
        waits = decision.status is SessionStatus.WAITING and self.session.budget is not None
        if not (decision.move is Move.STEP or waits):
            return decision
        spent = self._services.budgets.hindrance(self.session)
        return decision if spent is None else Decision(Move.REST, SessionStatus.PAUSED, spent.words, spent.mark())

    def _decide_freely(self) -> Decision:
        return decide(
            self.session,
            Situation(
                horizon=self._horizon(),
                stop=self.stop_requested,
                drain=self._draining,
                roll_back=self._rollback_by is not None,
                pause=self.pause_requested,
                limit=limit_reached(self.session, self._time.left()),
                retry_in_s=self._seconds_to_retry(),
                is_asked=self._is_asked(),
            ),
        )

    def _horizon(self) -> Horizon:
        return Horizon(self._services.clock.now(), self._hold_s)

    def _seconds_to_retry(self) -> float:
        return 0.0 if self._retry_at is None else self._retry_at - self._services.clock.monotonic()

    def _is_asked(self) -> bool:
        turns = self._turns
        return turns.cut_short is not None or self.next_interrupt() is not None or turns.next() is not None

    def _with_slot(self, decision: Decision) -> Decision:
        """`decision`, but a step only with a slot; every other move gives the slots back."""
        reason = None
        if decision.move is Move.STEP:
            reason = self._slots.take(self._asker())
        else:
            self._slots.leave(self.session.session_id, self.session.identity.agent_id)
        if reason is None:
            self._time.go_on()
            return decision
        self._time.stand_still()
        return Decision(Move.HOLD, SessionStatus.RUNNING, reason)

    def _asker(self) -> Asker:
        session, urgency = self.session, self._turns.urgency
        return Asker(
            session.session_id,
            session.identity.agent_id,
            session.spec.max_concurrent,
            session.spec.urgency if urgency is None else urgency,
            wake=self.nudge,
        )

    def _enter(self, decision: Decision) -> None:
        session = self.session
        if (session.status, session.reason) != (decision.status, decision.reason):
            now = self._services.clock.now()
            # Each pause is asked about once: its question has a number of its own.
            budget = None if decision.budget is None else {**decision.budget, "n": round(now.timestamp() * 1000)}
            session.enter(decision.status, decision.reason, now, budget=budget)
            self._projector.touch(session)
        self._watchers.look()

    async def _hold(self) -> None:
        if self._time.is_idle:  # for a slot: whoever gives it nudges
            await self._news.wait()
            self._news.clear()
            return
        wait, left = self.session.wait, self._seconds_to_retry()
        if left <= 0 and isinstance(wait, WaitUntil):
            left = self._horizon().seconds_until(wait)
        await first_of(self._services.clock.sleep(max(0.0, left)), self._news.wait())
        self._news.clear()

    # One step.

    async def _still_owned(self) -> None:
        """Return when it is certain that the session is still this worker's; raises `OwnershipLostError` when not."""
        if not self._ownership.fresh():
            await self._ownership.until_fresh()
        if self._ownership.epoch_of(self.session.lane) != self.session.epoch:
            raise OwnershipLostError(f"lane {self.session.lane!r} was claimed by another worker meanwhile")

    async def _step(self) -> None:
        self._retry_at = None
        reading = await next_reading(self._services.db, self.session, self._turns, self.next_interrupt())
        if self._rollback_by is not None:  # asked for while the posts were read
            return
        calls = calls_of(
            self._services,
            self.session,
            look_for_records=self._may_have_records,
            check_ownership=self._still_owned,
        )
        if (came := reading.taint).tainted:
            calls.add_taint(came.sources)
        context = StepContext(self._services, calls, self._config, hops=reading.hops_in(self.session))
        began = self._services.clock.monotonic()
        frame = self.session.frame(None if reading.guidance is None else reading.guidance.value, reading.inputs)
        failure: Exception | None = None
        try:
            out = await self._call.answer(context, frame, self._may_cut)
            step = self._ended_row(self._taken(frame, reading, context, began), out)
        except StepCutError:
            self._may_have_records = True
            return
        except OwnershipLostError:
            raise
        except Exception as error:  # whatever a moniker raises or answers is the session's error, never the worker's
            failure = error
            if not context.questions and (later := next_try(self.session, error, context.event_seq, self._retries)):
                await self._try_later(later, error)
                return
            step = self._failed_row(self._taken(frame, reading, context, began), error)
        if context.questions:
            failure = None
            step = asking_row(self.session, self._taken(frame, reading, context, began), context.questions)
        await self._commit(step, failure)

    def _may_cut(self) -> bool:
        return self.stop_requested or self._rollback_by is not None

    async def _try_later(self, later: NextTry, error: Exception) -> None:
        """Have the step tried again. The count is stored before that: a restart does not begin at one."""
        clock, session, most = self._services.clock, self.session, self._retries.max_attempts
        at = (clock.now() + timedelta(seconds=later.delay_s)).isoformat(timespec="seconds")
        words = self._services.secrets.redact(words_of(error))
        said = f"try {later.tried} of {most} failed: {words}; next try at {at}"
        self._services.log.warning("a step failed; it is tried again", session_id=session.session_id, said=said)
        self._retry_at = clock.monotonic() + later.delay_s
        session.enter(SessionStatus.RUNNING, said, clock.now())
        await self._projector.stored(session)

    def _taken(self, frame: StepFrame, reading: Reading, context: StepContext, began: float) -> Taken:
        clock = self._services.clock
        return Taken(
            frame=frame,
            reading=reading,
            used=context.usage,
            runtime_s=self._time.seconds(),
            latency_ms=round((clock.monotonic() - began) * 1000, 3),
            ended_at=clock.now(),
            costs=context.calls.costs,
            taint=context.calls.taint,
        )

    def _ended_row(self, taken: Taken, out: StepOut) -> AgentStep:
        chosen = self.session.spec.stop_on_done
        stops = self._moniker.stop_on_done if chosen is None else chosen
        status = status_after(out, Horizon(taken.ended_at, self._hold_s), stops_when_done=stops)
        goes_on = self._turns.going_on(taken.reading.turn_in(self.session)) if status is StepStatus.RUNNING else None
        return ended_row(self.session, taken, out, status, goes_on)

    def _failed_row(self, taken: Taken, error: Exception) -> AgentStep:
        tried, said = 0 if self.session.tries is None else self.session.tries.count, words_of(error)
        said = self._services.secrets.redact(said)
        message = f"{said} (try {tried} of {self._retries.max_attempts})" if tried > 1 else said
        self._services.log.warning(
            "a step failed; the session rests until it is resumed",
            session_id=self.session.session_id,
            iteration=self.session.steps,
            error=message,
            exc_info=None if isinstance(error, MonikerError | LlmError | GateFailedError) else error,
        )
        return failed_row(self.session, taken, message, keeps_inputs=isinstance(error, GateFailedError))

    async def _roll_back(self) -> None:
        """Store that the running turn is taken back; its input's action fails.

        Crash before the row: both inputs are open, the newer one rolls the older one back again. After it: the journal
        says that the turn was taken back, and which input comes next.
        """
        if is_being_cancelled() and not (self._draining or self.stop_requested):
            uncancel()  # the step ended by itself although it was cut
        by, turn = self._rollback_by, self.turn
        self._rollback_by = self._retry_at = None
        if by is None or turn is None:
            return  # it has ended by itself meanwhile
        session, now = self.session, self._services.clock.now()
        before = await before_turn(self._services.db, session, turn)
        self._projector.visit("rollback.before_row")
        await self._store(rollback_step(session, before, turn, by, self._moniker.first_step, now))
        self._projector.visit("rollback.after_row")
        self._turns.take_back(by)

    async def _commit(self, step: AgentStep, failure: Exception | None) -> None:
        await self._store(step)
        self._turns.end(None if failure is None else _turn_failed(step, failure))

    async def _store(self, step: AgentStep) -> None:
        await self._projector.commit(self.session, step)
        self._may_have_records = False
        self._time.begin_again()
        self._watchers.look()

    # Leaving.

    def _leave(self) -> None:
        self._turns.leave()
        self._slots.leave(self.session.session_id, self.session.identity.agent_id)
        self._forget(self)
        self._watchers.release()


def _turn_failed(step: AgentStep, failure: Exception) -> Exception:
    kind = RefusedError if said_by_moniker(failure) else SpentError
    return kind(f"the turn failed: {step.error}")
