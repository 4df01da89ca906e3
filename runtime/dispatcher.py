"""The dispatcher: a task an action, each action once at a time, every end stored.

IN_FLIGHT holds the actions that are being handled. Whatever a handler raises ends on the action's row: a refusal as
`failed`, anything unforeseen as `dead`. Only a parked action stays open, for whoever lets its session go on.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any

from runtime.errors import ParkedError, RefusedError
from runtime.handlers import Handlers
from store.actions import (
    CONTROL_KINDS,
    Action,
    ActionKind,
    ActionStatus,
    mark_action_claimed,
    mark_action_processed_async,
)
from store.clock import Clock
from store.database import TenantStore
from store.errors import StoreError
from store.ids import ActionId

_MAX_REMEMBERED = 20_000
_MAX_BUSY = 500

DispatchOrder = tuple[int, int, datetime, str]


@dataclass(slots=True)
class Flight:
    """An action that was taken up."""

    action: Action
    since: float
    #: None while it waits for capacity
    task: asyncio.Task[None] | None = None
    claimed: bool = False
    #: its end is being stored: a claim must not be written after it
    ending: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an action ended."""

    status: ActionStatus
    error: str | None = None


@dataclass(slots=True)
class _Tickets:
    """Tells a fresh read from a stale one: an action that ended after a read began may look open in that read."""

    numbers: Iterator[int] = field(default_factory=count)
    ended: OrderedDict[ActionId, int] = field(default_factory=OrderedDict)

    def take(self) -> int:
        return next(self.numbers)

    def end(self, action_id: ActionId) -> None:
        self.ended[action_id] = self.take()
        self.ended.move_to_end(action_id)
        if len(self.ended) > _MAX_REMEMBERED:
            self.ended.popitem(last=False)

    def stale(self, action_id: ActionId, ticket: int) -> bool:
        return self.ended.get(action_id, -1) > ticket


class Dispatcher:
    """Hands actions to their handlers."""

    def __init__(self, db: TenantStore, handlers: Handlers, *, owner: str, claim_after_s: float, log: Any) -> None:
        self.IN_FLIGHT: dict[ActionId, Flight] = {}
        self._db = db
        self._clock: Clock = db.clock
        self._handlers = handlers
        self._table = handlers.table()
        self._owner = owner
        self._claim_after_s = claim_after_s
        self._log = log
        self._tickets = _Tickets()
        self._backlog: list[tuple[DispatchOrder, Action]] = []
        self._busy = 0
        self._closed = False

    def ticket(self) -> int:
        """Take one before reading open actions; `dispatch` needs it."""
        return self._tickets.take()

    def dispatch(self, actions: Iterable[Action], ticket: int) -> int:
        """Take up those actions that are not in flight; returns how many.

        At most `_MAX_BUSY` creates are handled at a time, so that ten thousand of them do not cost ten thousand tasks.
        """
        taken = 0
        for action in sorted(actions, key=dispatch_order):
            if self._closed or action.id in self.IN_FLIGHT or self._tickets.stale(action.id, ticket):
                continue
            self._handlers.announce(action)
            self.IN_FLIGHT[action.id] = Flight(action, self._clock.monotonic())
            heapq.heappush(self._backlog, (dispatch_order(action), action))
            taken += 1
        self._start_handlers()
        return taken

    def _start_handlers(self) -> None:
        while self._backlog and self._busy < _MAX_BUSY and not self._closed:
            _, action = heapq.heappop(self._backlog)
            self._busy += _weight(action)
            self.IN_FLIGHT[action.id].task = asyncio.create_task(self._run_one(action))

    def close(self) -> None:
        """Start no more handlers. What still waits for capacity stays open in the queue."""
        self._closed = True
        for _, action in self._backlog:
            self.IN_FLIGHT.pop(action.id, None)
        self._backlog.clear()

    async def settled(self) -> None:
        """Return when every handler that was started has ended."""
        while self.IN_FLIGHT:
            await asyncio.wait([flight.task for flight in self.IN_FLIGHT.values() if flight.task is not None])

    async def claim_slow(self) -> None:
        """Say in the queue which actions have been in hand for a while, so that people see them as claimed."""
        now = self._clock.monotonic()
        slow = [
            flight
            for flight in self.IN_FLIGHT.values()
            if flight.task is not None
            and not (flight.claimed or flight.ending)
            and now - flight.since >= self._claim_after_s
        ]
        for flight in slow:
            flight.claimed = True
        marks = [
            mark_action_claimed(self._db, flight.action.id, attempts=flight.action.attempts + 1, owner=self._owner)
            for flight in slow
        ]
        await asyncio.gather(*marks)

    async def _run_one(self, action: Action) -> None:
        """Handle one action to its end. The row is marked in `finally`: no way out leaves it stuck."""
        outcome: Outcome | None = Outcome(ActionStatus.DEAD, "the handler was cancelled")
        try:
            outcome = await self._outcome(action)
        except asyncio.CancelledError:
            outcome = None
            raise
        finally:
            await self._finish(action, outcome)

    async def _outcome(self, action: Action) -> Outcome | None:
        try:
            await self._handler_of(action)(action)
        except ParkedError as parked:
            self._log.debug("action parked; it stays open", reason=str(parked), **action.log_context())
            return None
        except RefusedError as refused:
            self._log.info("action refused; its error is stored", error=str(refused), **action.log_context())
            return Outcome(ActionStatus.FAILED, str(refused))
        except Exception as error:  # a handler's own mistake: keep the action for a person, keep the worker alive
            self._log.error("handler broke; the action is dead until requeued", exc_info=error, **action.log_context())
            return Outcome(ActionStatus.DEAD, f"{type(error).__name__}: {error}")
        return Outcome(ActionStatus.DONE)

    def _handler_of(self, action: Action) -> Any:
        handler = self._table.get(action.kind)
        if action.kind is ActionKind.UNKNOWN:
            raise ParkedError("the action is of a kind that this version does not know; a newer worker will take it")
        if handler is None:
            raise RefusedError(f"this worker has no handler for {action.kind.value!r} actions")
        return handler

    async def _finish(self, action: Action, outcome: Outcome | None) -> None:
        self.IN_FLIGHT[action.id].ending = True
        try:
            if outcome is not None:
                await mark_action_processed_async(
                    self._db,
                    action.id,
                    status=outcome.status,
                    error=outcome.error,
                    attempts=action.attempts + 1,
                    owner=self._owner,
                )
        except StoreError as error:
            self._log.error(
                "an action's end was not stored; it is handled again", error=str(error), **action.log_context()
            )
        finally:
            self._tickets.end(action.id)
            self.IN_FLIGHT.pop(action.id, None)
            self._busy -= _weight(action)
            self._start_handlers()


def _weight(action: Action) -> int:
    # Only creates come by the thousand; inputs, pauses and destroys last as long as a session's steps.
    return 1 if action.kind is ActionKind.CREATE else 0


def dispatch_order(action: Action) -> DispatchOrder:
    """Creates, then control, then turns; urgent first, then by age."""
    if action.kind is ActionKind.CREATE:
        rank = 0
    elif action.kind in CONTROL_KINDS or action.kind is ActionKind.INTERRUPT:
        rank = 1
    else:
        rank = 2
    return rank, -action.urgency, action.created_at, action.id
