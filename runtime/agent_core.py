"""What every agent is made of: a base and three mixins, each with one way to be guided from outside (spec 1).

`PauseMixin`, `InterruptMixin` and `StopMixin` hold flags that a control action sets and the runner reads between two
steps. They know nothing of the store.
"""

from __future__ import annotations

import asyncio
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class AgentBase:
    """An agent that runs as one asyncio task and can be nudged when something was asked of it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def nudge(self) -> None:
        """Have the agent look at its flags now instead of at the end of its wait."""
        self._news.set()

    def start(self) -> asyncio.Task[None]:
        """Run `run()` as a task; the caller keeps it and looks at how it ends."""
        self._task = asyncio.create_task(self.run())
        return self._task

    async def run(self) -> None:
        """What the agent does, start to end."""
        raise NotImplementedError

    async def ended(self) -> None:
        """Return when the task has ended, however it ended."""
        if self._task is not None:
            await asyncio.wait([self._task])


class PauseMixin(AgentBase):
    """A flag that holds the agent between two steps."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._may_run = asyncio.Event()
        self._may_run.set()

    @property
    def pause_requested(self) -> bool:
        return not self._may_run.is_set()

    def request_pause(self) -> None:
        """Ask the agent to rest after its running step."""
        self._may_run.clear()
        self.nudge()

    def request_resume(self) -> None:
        """Take a pause back."""
        self._may_run.set()
        self.nudge()


class InterruptMixin(AgentBase, Generic[T]):
    """A list of guidance, read oldest first, one a step.

    The list is the session's own: what a step has read is taken out of it when the step is stored, so guidance that
    a failed commit had read is read again.
    """

    def __init__(self, *args: Any, interrupts: list[T], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._interrupts = interrupts

    def interrupt(self, guidance: T) -> None:
        """Have the next step read `guidance`."""
        self._interrupts.append(guidance)
        self.nudge()

    def next_interrupt(self) -> T | None:
        """The oldest guidance that no stored step has read."""
        return self._interrupts[0] if self._interrupts else None


class StopMixin(AgentBase):
    """A flag that ends the agent between two steps, and a way to end a running one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._stop = asyncio.Event()

    @property
    def stop_requested(self) -> bool:
        return self._stop.is_set()

    def request_stop(self) -> None:
        """Ask the agent to end after its running step."""
        self._stop.set()
        self.nudge()

    async def stop_within(self, grace_s: float) -> None:
        """Ask the agent to end; after `grace_s` seconds its running step is cancelled."""
        self.request_stop()
        if self._task is None:
            return
        done, _ = await asyncio.wait([self._task], timeout=grace_s)
        if not done:
            self.cancel_step()
            await asyncio.wait([self._task])

    def cancel_step(self) -> None:
        """Cancel what the agent awaits now."""
        if self._task is not None:
            self._task.cancel()
