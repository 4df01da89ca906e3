"""The runner: carries one session's moniker from step to step (spec 1, "Runner loop").

    decide ─▶ STEP ─▶ frame ─▶ moniker ─▶ commit (the step is true) ─▶ decide ...
       ├─▶ HOLD  until something is asked of it or its short wait is over
       └─▶ REST  its row is stored and it leaves memory

Invariant: **the next step starts only when the last one is committed.** Killed during a step: the step never was;
the next owner takes it again from the records of its calls. Killed after the commit: the next owner goes on behind it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, assert_never

from pydantic import BaseModel

from runtime.agent_core import InterruptMixin, PauseMixin, StopMixin
from runtime.context import Services, StepContext
from runtime.contract import (
    Json,
    Moniker,
    MonikerError,
    StepFrame,
    StepInput,
    StepOut,
    WaitForApproval,
    WaitForInput,
    WaitUntil,
)
from runtime.errors import ParkedError, RefusedError
from runtime.firstof import first_of
from runtime.llm.port import LlmError, Usage
from runtime.projector import Projector
from runtime.session import Guidance, LiveSession, why_waiting
from store.actions import Action
from store.agent_state import SessionStatus
from store.agent_steps import AgentStep, StepStatus
from store.conversations import Delivery
from store.errors import StoreError
from store.ids import ActionId, step_id
from store.messages import posts_after


class Move(Enum):
    """What a runner does next."""

    STEP = auto()  # take a step
    HOLD = auto()  # stay in memory until there is news or the wait is over
    REST = auto()  # leave memory


@dataclass(frozen=True, slots=True)
class Decision:
    """A move and the status that the session has with it."""

    move: Move
    status: SessionStatus
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """An `agent_input` and the future that its handler waits for."""

    action: Action
    ended: asyncio.Future[None]


@dataclass(frozen=True, slots=True)
class Reading:
    """What one step reads."""

    guidance: Guidance | None = None
    turn: Turn | None = None
    inputs: tuple[StepInput, ...] = ()
    pulled_to: int | None = None


class Runner(PauseMixin, InterruptMixin[Guidance], StopMixin):
    """Runs one session until it rests. `forget` is called, without an await, when it has left memory."""

    def __init__(
        self,
        session: LiveSession,
        moniker: Moniker[Any],
        config: BaseModel,
        *,
        services: Services,
        projector: Projector,
        hold_s: float,
        reopened: bool,
        forget: Callable[[Runner], None],
    ) -> None:
        super().__init__(interrupts=session.guidance)
        self.session = session
        self._moniker = moniker
        self._config = config
        self._services = services
        self._projector = projector
        self._hold_s = hold_s
        self._may_have_records = reopened
        self._forget = forget
        self._turns: deque[Turn] = deque()
        self._turn: Turn | None = None
        self._draining = False
        self._calling = False
        #: the loop's timer rang; it may be a little ahead of the clock that counts the runtime
        self._out_of_time = False
        self._active_since = services.clock.monotonic()
        self._watchers: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        if session.status is SessionStatus.PAUSED:
            self.request_pause()

    # What others ask of it.

    def hand_over(self, action: Action) -> asyncio.Future[None]:
        """Give the session an input; the future is done when its turn has ended.

        It raises `RefusedError` when the session ends first, `ParkedError` when it rests before it has read it.
        """
        turn = Turn(action, asyncio.get_running_loop().create_future())
        if self.session.turn == action.id:
            self._turn = turn
        else:
            self._turns.append(turn)
        self.nudge()
        return turn.ended

    def drain(self) -> None:
        """Leave after the running step, with the session as it is: another start carries it on."""
        self._draining = True
        self.nudge()

    def cancel_step(self) -> None:
        """Cancel the moniker's call, if one runs; a commit is never cancelled."""
        if self._calling:
            super().cancel_step()

    def nudge(self) -> None:
        super().nudge()
        self._look_at_watchers()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when `condition` holds or the runner has left; it is looked at whenever something changes."""
        if condition() or self._left():
            return
        future = asyncio.get_running_loop().create_future()
        self._watchers.append((condition, future))
        await future

    # The loop.

    async def run(self) -> None:
        """Step, hold and rest until there is nothing left to do. Never raises but when the worker is cancelled."""
        try:
            await self._run()
        except asyncio.CancelledError:
            if not self._draining:
                raise
        except StoreError as error:
            self._services.log.error(
                "a session lost its store; it goes on when a worker opens it again",
                session_id=self.session.session_id,
                error=str(error),
            )
        finally:
            self._leave()

    async def _run(self) -> None:
        while True:
            decision = self._decide()
            self._enter(decision)
            match decision.move:
                case Move.STEP:
                    await self._step()
                case Move.HOLD:
                    await self._hold()
                case Move.REST:
                    await self._projector.stored(self.session)
                    # Something may have been asked while the row was stored; from here to the end nothing awaits.
                    if self._decide() == decision:
                        return
                case _:
                    assert_never(decision.move)

    def _decide(self) -> Decision:
        """What to do between two steps: stop, then pause, limits, interrupts, inputs, and the wait asked for."""
        session = self.session
        if session.ended:
            return Decision(Move.REST, session.status, session.reason)
        if self.stop_requested:
            return Decision(Move.REST, SessionStatus.STOPPED, "destroyed")
        if self._draining:
            return Decision(Move.REST, session.status, session.reason)
        if self.pause_requested:
            return Decision(Move.REST, SessionStatus.PAUSED, "paused")
        if (limit := self._limit_reached()) is not None:
            return Decision(Move.REST, SessionStatus.STOPPED, limit)
        if self.next_interrupt() is not None or (self._turns and self._takes_inputs()):
            return Decision(Move.STEP, SessionStatus.RUNNING)
        return self._decide_wait()

    def _decide_wait(self) -> Decision:
        wait = self.session.wait
        match wait:
            case None:
                return Decision(Move.STEP, SessionStatus.RUNNING)
            case WaitUntil():
                left = self._seconds_until(wait)
                if left <= 0:
                    return Decision(Move.STEP, SessionStatus.RUNNING)
                if left <= self._hold_s:
                    return Decision(Move.HOLD, SessionStatus.RUNNING, self.session.reason)
            case WaitForInput() | WaitForApproval():
                pass
            case _:
                assert_never(wait)
        return Decision(Move.REST, SessionStatus.WAITING, why_waiting(wait))

    def _limit_reached(self) -> str | None:
        spec = self.session.spec
        if spec.max_steps is not None and self.session.steps >= spec.max_steps:
            return f"max_steps {spec.max_steps} reached"
        if spec.max_runtime_s is not None and (self._out_of_time or self._runtime_s() >= spec.max_runtime_s):
            return _runtime_limit(spec.max_runtime_s)
        return None

    def _takes_inputs(self) -> bool:
        if self._moniker.takes_input == "any_step" or isinstance(self.session.wait, WaitForInput):
            return True
        # A wait for a moment ends early, but not within a turn: that one ends first.
        return isinstance(self.session.wait, WaitUntil) and self.session.turn is None

    def _enter(self, decision: Decision) -> None:
        session = self.session
        if (session.status, session.reason) != (decision.status, decision.reason):
            session.enter(decision.status, decision.reason, self._services.clock.now())
            self._projector.touch(session)
        self._look_at_watchers()

    async def _hold(self) -> None:
        wait = self.session.wait
        left = self._seconds_until(wait) if isinstance(wait, WaitUntil) else 0.0
        await first_of(self._services.clock.sleep(max(0.0, left)), self._news.wait())
        self._news.clear()

    def _seconds_until(self, wait: WaitUntil) -> float:
        return (wait.time - self._services.clock.now()).total_seconds()

    # One step.

    async def _step(self) -> None:
        reading = await self._read()
        context = StepContext(self._services, self.session, self._config, look_for_records=self._may_have_records)
        began = self._services.clock.monotonic()
        frame = self.session.frame(None if reading.guidance is None else reading.guidance.value, reading.inputs)
        try:
            out = _checked(await self._call(context, frame))
            step = self._step_of(out, frame, reading, context.usage, began)
        except _StepCutError:
            return
        except Exception as error:  # whatever a moniker raises or answers is the session's error, never the worker's
            step = self._failed_step(frame, error, reading, context.usage, began)
        await self._commit(step)

    async def _read(self) -> Reading:
        """Take what the step reads: one interrupt, or one input, and what a pulling session has missed."""
        interrupt = self.next_interrupt()
        if interrupt is not None:
            return Reading(guidance=interrupt)
        if self._turns and self._takes_inputs():
            self._turn = self._turns.popleft()
            return Reading(turn=self._turn, inputs=(_input_of(self._turn.action),))
        if self.session.spec.delivery is Delivery.PULL:
            return await self._pull()
        return Reading()

    async def _pull(self) -> Reading:
        conversation_id = self.session.identity.conversation_id
        if conversation_id is None:
            return Reading()
        posts, reached = await posts_after(self._services.db, conversation_id, self.session.pulled_to)
        inputs = [
            StepInput(text=post.text or "", data=_object(post.data), sender=post.user_id, message_id=post.message_id)
            for post in posts
        ]
        return Reading(inputs=tuple(inputs), pulled_to=reached)

    async def _call(self, context: StepContext, frame: StepFrame) -> StepOut:
        """Run the moniker within what is left of `max_runtime_s`; raises `_StepCutError` when it is cut short."""
        limit = self.session.spec.max_runtime_s
        self._calling = True
        try:
            if limit is None:
                return await self._moniker.step(context, frame)
            return await self._call_within(max(0.0, limit - self._runtime_s()), context, frame)
        except asyncio.CancelledError as error:
            if not _is_being_cancelled():
                raise MonikerError("the step was cancelled by something that it awaited") from error
            if not self.stop_requested:
                raise
            _uncancel()
            raise _StepCutError from None
        finally:
            self._calling = False

    async def _call_within(self, seconds: float, context: StepContext, frame: StepFrame) -> StepOut:
        cut = asyncio.timeout(seconds)
        try:
            async with cut:
                return await self._moniker.step(context, frame)
        except TimeoutError:
            if not cut.expired():  # the moniker's own time-out is its error, not the limit
                raise
            self._out_of_time = True
            raise _StepCutError from None

    async def _commit(self, step: AgentStep) -> None:
        await self._projector.commit(self.session, step)
        self._may_have_records = False
        self._active_since = self._services.clock.monotonic()
        self._end_turn(step)
        self._look_at_watchers()

    def _end_turn(self, step: AgentStep) -> None:
        if self._turn is None or self.session.turn is not None:
            return
        turn, self._turn = self._turn, None
        if turn.ended.done():
            return
        if step.status is StepStatus.ERROR:
            turn.ended.set_exception(RefusedError(f"the turn failed: {step.error}"))
        else:
            turn.ended.set_result(None)

    # The rows.

    def _step_of(self, out: StepOut, frame: StepFrame, reading: Reading, used: Usage, began: float) -> AgentStep:
        status = self._status_after(out)
        turn = self._turn_after(reading, status)
        return self._row(
            frame,
            reading,
            status=status,
            turn=turn,
            usage=self._usage(used),
            latency_ms=self._ms_since(began),
            next_step_token=out.next_step,
            text=out.text,
            data=out.data,
            state=out.state,
            notes=out.notes,
            wait=None if out.wait is None else out.wait.model_dump(mode="json"),
        )

    def _failed_step(
        self, frame: StepFrame, error: Exception, reading: Reading, used: Usage, began: float
    ) -> AgentStep:
        message = str(error) if isinstance(error, MonikerError | LlmError) else f"{type(error).__name__}: {error}"
        self._services.log.warning(
            "a step failed; the session rests until it is resumed",
            session_id=self.session.session_id,
            iteration=self.session.steps,
            error=message,
            exc_info=None if isinstance(error, MonikerError | LlmError) else error,
        )
        return self._row(
            frame,
            reading,
            status=StepStatus.ERROR,
            turn=None,
            usage=self._usage(used),
            latency_ms=self._ms_since(began),
            next_step_token=frame.step,
            state=self.session.context,
            error=message,
        )

    def _row(
        self,
        frame: StepFrame,
        reading: Reading,
        *,
        status: StepStatus,
        turn: ActionId | None,
        usage: Json,
        latency_ms: float,
        next_step_token: str,
        state: Json,
        text: str | None = None,
        data: Json | None = None,
        notes: str | None = None,
        wait: Json | None = None,
        error: str | None = None,
    ) -> AgentStep:
        session = self.session
        return AgentStep(
            id=step_id(session.session_id, session.steps),
            created_at=self._services.clock.now(),
            agent_id=session.identity.agent_id,
            session_id=session.session_id,
            action_id=self._action_of(reading),
            iteration=session.steps,
            step_token=frame.step,
            next_step_token=next_step_token,
            status=status,
            text=text,
            data=data,
            state=state,
            guidance=_what_was_read(reading, turn),
            notes=notes,
            wait=wait,
            latency_ms=latency_ms,
            error=error,
            usage=usage,
            epoch=session.epoch,
        )

    def _action_of(self, reading: Reading) -> ActionId | None:
        """The action that a step answers: what it read, else the turn it belongs to, else the create."""
        if reading.guidance is not None:
            return reading.guidance.action_id
        if reading.turn is not None:
            return reading.turn.action.id
        create = self.session.spec.action_id
        return self.session.turn or (None if create is None else ActionId(create))

    def _status_after(self, out: StepOut) -> StepStatus:
        if out.done and self._stops_when_done():
            return StepStatus.DONE
        match out.wait:
            case None:
                return StepStatus.RUNNING
            case WaitUntil():
                return StepStatus.RUNNING if self._seconds_until(out.wait) <= self._hold_s else StepStatus.WAITING
            case WaitForInput() | WaitForApproval():
                return StepStatus.WAITING
            case _:
                assert_never(out.wait)

    def _stops_when_done(self) -> bool:
        chosen = self.session.spec.stop_on_done
        return self._moniker.stop_on_done if chosen is None else chosen

    def _turn_after(self, reading: Reading, status: StepStatus) -> ActionId | None:
        """The turn that goes on after this step, if one does."""
        if status is not StepStatus.RUNNING or self._moniker.takes_input == "any_step":
            return None
        return self.session.turn if reading.turn is None else reading.turn.action.id

    def _usage(self, used: Usage) -> Json:
        before = self.session.usage
        return {
            "steps": self.session.steps + 1,
            "runtime_s": round(self._runtime_s(), 6),
            "calls": before.get("calls", 0) + used.calls,
            "input_tokens": before.get("input_tokens", 0) + used.input_tokens,
            "output_tokens": before.get("output_tokens", 0) + used.output_tokens,
        }

    def _runtime_s(self) -> float:
        """Seconds of work so far: stored ones and those since the last commit or start."""
        return float(self.session.usage.get("runtime_s", 0.0)) + self._services.clock.monotonic() - self._active_since

    def _ms_since(self, began: float) -> float:
        return round((self._services.clock.monotonic() - began) * 1000, 3)

    # Leaving.

    def _leave(self) -> None:
        for turn in [*([self._turn] if self._turn else []), *self._turns]:
            if not turn.ended.done():
                turn.ended.set_exception(self._unread(turn))
        self._turns.clear()
        self._forget(self)
        for _, future in self._watchers:
            if not future.done():
                future.set_result(None)

    def _unread(self, turn: Turn) -> Exception:
        if self.session.ended:
            why = self.session.reason or self.session.status.value
            return RefusedError(f"session {self.session.session_id!r} ended before the turn did ({why})")
        return ParkedError(f"session {self.session.session_id!r} rests; action {turn.action.id} stays open")

    def _left(self) -> bool:
        return self._task is not None and self._task.done()

    def _look_at_watchers(self) -> None:
        if not self._watchers:
            return
        met = [entry for entry in self._watchers if entry[0]()]
        self._watchers = [entry for entry in self._watchers if entry not in met]
        for _, future in met:
            if not future.done():
                future.set_result(None)


class _StepCutError(Exception):
    """The step was cut short by a stop or a limit: it never was."""


def _checked(out: Any) -> StepOut:
    if not isinstance(out, StepOut):
        raise MonikerError(f"the step answered {type(out).__name__}; it must answer a StepOut")
    return out


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _uncancel() -> None:
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()


def _runtime_limit(limit: float) -> str:
    return f"max_runtime_s {limit:g} reached"


def _what_was_read(reading: Reading, turn: ActionId | None) -> Json | None:
    read: Json = {}
    if reading.guidance is not None:
        read["guidance"] = reading.guidance.value
    if reading.inputs:
        read["inputs"] = [item.model_dump(mode="json", exclude_none=True) for item in reading.inputs]
    if turn is not None:
        read["turn"] = turn
    if reading.pulled_to is not None:
        read["pulled_to"] = reading.pulled_to
    return read or None


def _input_of(action: Action) -> StepInput:
    payload = action.payload if isinstance(action.payload, dict) else {}
    about = action.metadata if isinstance(action.metadata, dict) else {}
    return StepInput(
        text=str(payload.get("text") or ""),
        data=_object(payload.get("data")),
        sender=_text(about.get("sender")),
        message_id=_text(about.get("message_id")),
    )


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _object(value: Any) -> Json | None:
    if value is None or isinstance(value, dict):
        return value
    return {"value": value}
