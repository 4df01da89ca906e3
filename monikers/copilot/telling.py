"""Telling the callbacks of a turn: in order for each handler, never in the way of the turn."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Iterable
from typing import Any

from monikers.copilot.callbacks import AgentCallbackHandler
from monikers.copilot.clock import Clock, MachineClock
from monikers.copilot.settling import Abandoned, settle

#: how long the end of a turn waits for its callbacks, in seconds
CALLBACK_TIMEOUT_S = 2.0
#: and for one that hung before
HUNG_TIMEOUT_S = 0.05

_log = logging.getLogger(__name__)


class _Listener:
    """One handler in one turn, with what it has not been told yet."""

    def __init__(self, handler: Any) -> None:
        self.handler = handler
        self.task: asyncio.Task[None] | None = None
        self._untold: deque[tuple[str, tuple[Any, ...]]] = deque()

    def hears(self, hook: str) -> bool:
        """Whether the handler has written this hook."""
        method = getattr(self.handler, hook, None)
        return callable(method) and getattr(method, "__func__", None) is not getattr(AgentCallbackHandler, hook)

    def tell(self, hook: str, args: tuple[Any, ...]) -> None:
        """Have the handler called when it has heard what came before."""
        self._untold.append((hook, args))
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self._tell_all())

    async def _tell_all(self) -> None:
        while self._untold:
            hook, args = self._untold.popleft()
            try:
                answer = getattr(self.handler, hook)(*args)
                if inspect.isawaitable(answer):
                    await answer
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                _log.warning("%s of %r cancelled itself; the turn goes on", hook, self.handler)
            except Exception:
                _log.warning("%s of %r failed; the turn goes on", hook, self.handler, exc_info=True)


class Teller:
    """Tells handlers what happens in one turn."""

    __slots__ = ("_abandoned", "_clock", "_hung", "_listeners", "_timeout_s")

    def __init__(
        self,
        handlers: Iterable[Any],
        *,
        clock: Clock,
        timeout_s: float = CALLBACK_TIMEOUT_S,
        abandoned: Abandoned,
        hung: dict[int, Any] | None = None,
    ) -> None:
        #: handlers that hung at the end of an earlier turn, by id: they are hardly waited for until they are in time
        self._hung = {} if hung is None else hung
        self._listeners = [_Listener(handler) for handler in handlers]
        self._clock = clock
        self._timeout_s = timeout_s
        self._abandoned = abandoned

    @classmethod
    def of(cls, handlers: Iterable[Any]) -> Teller:
        """One on the machine's clock, for an agent that runs alone."""
        return cls(handlers, clock=MachineClock(), abandoned=Abandoned())

    def hears(self, hook: str) -> bool:
        """Whether any handler has written this hook."""
        return any(listener.hears(hook) for listener in self._listeners)

    def tell(self, hook: str, *args: Any) -> None:
        """Tell all who hear it. Returns at once."""
        for listener in self._listeners:
            if listener.hears(hook):
                listener.tell(hook, args)

    async def finish(self) -> None:
        """Return when everybody has been told everything, or the time-out has passed: who hangs then is left behind,
        and hardly waited for in the turns that come, until it is in time again."""
        if not self._listeners:
            return
        for has_hung, seconds in ((False, self._timeout_s), (True, min(HUNG_TIMEOUT_S, self._timeout_s))):
            chosen = [one for one in self._listeners if (id(one.handler) in self._hung) is has_hung]
            await settle([one.task for one in chosen if one.task is not None], self._clock, seconds)
        for listener in self._listeners:
            if listener.task is None or listener.task.done():
                self._hung.pop(id(listener.handler), None)
            else:
                self._hung[id(listener.handler)] = listener.handler
        self.leave()

    def leave(self) -> None:
        """Cancel whoever has not been told everything."""
        for listener in self._listeners:
            if listener.task is not None and not listener.task.done():
                _log.warning("%r still hangs at the end of the turn and is left behind", listener.handler)
                self._abandoned.add(listener.task)
