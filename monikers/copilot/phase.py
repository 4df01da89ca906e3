"""Running the agents of a phase side by side, each with its own deadline (spec 2 §8.1, §8.5).

**Invariant: an agent costs nobody but itself.** Whether it raises, raises `CancelledError`, hangs past its deadline or
swallows its cancellation: it ends as a failed run, and the phase goes on. Who is abandoned may run on, but nothing that
it does then is heard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from monikers.copilot.clock import Clock
from monikers.copilot.models import AgentContext, AgentResponse
from monikers.copilot.routing import Due
from monikers.copilot.running import begin_evaluating
from monikers.copilot.settling import Abandoned, settle


class AgentTimeoutError(TimeoutError):
    """An agent did not answer within its deadline."""


class AgentStoppedError(RuntimeError):
    """An agent's evaluation was cancelled, and not by the engine, or it raised what is no `Exception`."""


class AgentRun:
    """One evaluation of one agent: its task, and what came of it."""

    def __init__(self, due: Due, context: AgentContext, limit_s: float | None, clock: Clock) -> None:
        self.due = due
        self.context = context
        self.limit_s = limit_s
        self.response: AgentResponse | None = None
        self.error: Exception | None = None
        self.duration_s = 0.0
        self.is_over = False
        self._is_let_go = False
        self._clock = clock
        self._began = clock.monotonic()
        self.task: asyncio.Task[None] | None = None

    async def evaluate(self, over: Callable[[AgentRun], None]) -> None:
        """Ask the agent; tell `over` when it has answered or failed, unless it was let go before."""
        try:
            begin_evaluating(self.due.evaluation)
            response = await self.due.agent.process(self.context)
        except asyncio.CancelledError:
            if self._is_let_go:
                raise
            self.stopped(over)
        except Exception as error:
            self._ends(over, error=error)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            self._ends(over, error=AgentStoppedError(f"the evaluation raised {error!r}"))
        else:
            self._ends(over, response=response)

    def expire(self, over: Callable[[AgentRun], None]) -> None:
        """End the run as one that took too long."""
        self._ends(over, error=AgentTimeoutError(f"no answer within {self.limit_s} s"))
        self._is_let_go = True

    def stopped(self, over: Callable[[AgentRun], None]) -> None:
        """End the run as one that was cancelled by somebody else."""
        self._ends(over, error=AgentStoppedError("the evaluation was cancelled"))

    def let_go(self) -> None:
        """Hear nothing more of the run."""
        self._is_let_go = True

    def _ends(
        self,
        over: Callable[[AgentRun], None],
        *,
        response: AgentResponse | None = None,
        error: Exception | None = None,
    ) -> None:
        if self._is_let_go:
            return
        self.response, self.error = response, error
        self.duration_s = self._clock.monotonic() - self._began
        over(self)
        self.is_over = True  # not before: what `over` raises is raised by the phase


async def run_all(
    runs: Sequence[AgentRun], over: Callable[[AgentRun], None], *, clock: Clock, abandoned: Abandoned
) -> None:
    """Evaluate all and return when each is over. `over` is called for each at the moment at which it ends.

    Cancelled from outside, all that still run are cancelled and let go. What `over` raises is raised here.
    """
    began = clock.monotonic()
    try:
        for run in runs:
            run.task = asyncio.create_task(run.evaluate(over))
        await asyncio.sleep(0)  # who need not wait for anything has answered after this
        while pending := [run for run in runs if not run.is_over]:
            limits = [run.limit_s for run in pending if run.limit_s is not None]
            left = min(limits) - (clock.monotonic() - began) if limits else None
            if left is None or left > 0:
                await settle([run.task for run in pending if run.task is not None], clock, left)
            passed = clock.monotonic() - began
            for run in pending:
                _look_after(run, passed, over, abandoned)
    finally:
        for run in runs:
            if run.task is not None and not run.task.done():
                run.let_go()
                abandoned.add(run.task)


def _look_after(run: AgentRun, passed: float, over: Callable[[AgentRun], None], abandoned: Abandoned) -> None:
    """End a run that will not end by itself: its time is over, or its task was cancelled before it began."""
    if run.task is None or run.is_over:
        return
    if run.task.done():
        if not run.task.cancelled() and (error := run.task.exception()) is not None:
            raise error  # from the engine's own code: no agent can cause that
        run.stopped(over)
    elif run.limit_s is not None and passed >= run.limit_s:
        run.expire(over)
        abandoned.add(run.task)
