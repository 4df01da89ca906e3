"""The call of a step: the moniker's own code, which may hang, fail, or answer what it must not.

A call that is cut short never was: nothing of its step is stored but the records it made, and the next one reads them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from runtime.context import StepContext
from runtime.contract import Moniker, MonikerError, StepFrame, StepOut
from runtime.gatedstep import gated_step
from runtime.worktime import WorkTime


class StepCutError(Exception):
    """The step was cut short by a stop, a rollback, a limit or a spent budget: it never was."""


class StepCall:
    """Calls one session's moniker, within what is left of `max_runtime_s`."""

    def __init__(self, moniker: Moniker[Any], time: WorkTime) -> None:
        self._moniker = moniker
        self._time = time
        #: whether a call is running
        self.runs = False

    async def answer(self, context: StepContext, frame: StepFrame, may_cut: Callable[[], bool]) -> StepOut:
        """What the moniker answers. `may_cut` is asked on a cancellation: does it mean the step, or the whole runner?

        Raises `StepCutError` when the step is cut short, `MonikerError` when the moniker answers no `StepOut` or is
        cancelled by what it awaits, and whatever else the moniker raises.
        """
        try:
            return await self._answer(context, frame, may_cut)
        finally:
            # Also when the moniker took the missing answer for an error, or went on without it.
            if context.calls.budget_spent is not None and not is_being_cancelled():
                raise StepCutError from None

    async def _answer(self, context: StepContext, frame: StepFrame, may_cut: Callable[[], bool]) -> StepOut:
        left = self._time.left()
        self.runs = True
        try:
            out = await (self._taken(context, frame) if left is None else self._within(left, context, frame))
        except asyncio.CancelledError as error:
            if not is_being_cancelled():
                raise MonikerError("the step was cancelled by something that it awaited") from error
            if not may_cut():
                raise
            uncancel()
            raise StepCutError from None
        finally:
            self.runs = False
        return _checked(out)

    def _taken(self, context: StepContext, frame: StepFrame) -> Coroutine[Any, Any, Any]:
        return gated_step(self._moniker, context, frame)

    async def _within(self, seconds: float, context: StepContext, frame: StepFrame) -> StepOut:
        cut = asyncio.timeout(seconds)
        try:
            async with cut:
                out: StepOut = await self._taken(context, frame)
                return out
        except TimeoutError:
            if not cut.expired():  # the moniker's own time-out is its error, not the limit
                raise
            self._time.ring()
            raise StepCutError from None


def _checked(out: Any) -> StepOut:
    if not isinstance(out, StepOut):
        raise MonikerError(f"the step answered {type(out).__name__}; it must answer a StepOut")
    return out


def is_being_cancelled() -> bool:
    """Whether somebody has cancelled the running task."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def uncancel() -> None:
    """Take a cancellation of the running task as dealt with."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
