"""The dispatcher: a task an action, each action once at a time, every end stored.

IN_FLIGHT holds the actions that are being handled. Whatever a handler raises ends on the action's row: a refusal as
`failed`, anything unforeseen as `dead`. Only a parked action stays open, for whoever lets its session go on.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from runtime.batchread import BatchRead
from runtime.errors import ParkedError, RefusedError
from runtime.handlers import Handlers
from store.actions import (
    CONTROL_KINDS,
    Action,
    ActionKind,
    ActionStatus,
    first_ids_by_key,
    mark_action_claimed,
    mark_action_processed_async,
)
from store.clock import Clock
from store.database import TenantStore
from store.errors import StoreError
from store.ids import ActionId

_MAX_REMEMBERED = 50_000


@dataclass(slots=True)
class Flight:
    """An action in the hands of its handler."""

    action: Action
    task: asyncio.Task[None]
    since: float
    claimed: bool = False


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
        self._first_by_key: BatchRead[str, ActionId] = BatchRead(partial(first_ids_by_key, db))
        self._closed = False

    def ticket(self) -> int:
        """Take one before reading open actions; `dispatch` needs it."""
        return self._tickets.take()

    def dispatch(self, actions: Iterable[Action], ticket: int) -> int:
        """Start the handlers of those actions that are not being handled; returns how many were started."""
        started = 0
        for action in sorted(actions, key=dispatch_order):
            if self._closed or action.id in self.IN_FLIGHT or self._tickets.stale(action.id, ticket):
                continue
            self._handlers.announce(action)
            task = asyncio.create_task(self._run_one(action))
            self.IN_FLIGHT[action.id] = Flight(action, task, self._clock.monotonic())
            started += 1
        return started

    def close(self) -> None:
        """Start no more handlers."""
        self._closed = True

    async def settled(self) -> None:
        """Return when every handler that was started has ended."""
        while self.IN_FLIGHT:
            await asyncio.wait([flight.task for flight in self.IN_FLIGHT.values()])

    async def claim_slow(self) -> None:
        """Say in the queue which actions have been in hand for a while, so that people see them as claimed."""
        now = self._clock.monotonic()
        slow = [
            flight
            for flight in self.IN_FLIGHT.values()
            if not flight.claimed and now - flight.since >= self._claim_after_s
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
            await self._refuse_duplicate(action)
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

    async def _refuse_duplicate(self, action: Action) -> None:
        """Two processes may have stored one idempotency key in the same instant: the older row wins."""
        if action.idempotency_key is None:
            return
        first = await self._first_by_key.get(action.idempotency_key)
        if first is not None and first != action.id:
            raise RefusedError(f"duplicate of action {first}, which has the same idempotency_key")

    def _handler_of(self, action: Action) -> Any:
        handler = self._table.get(action.kind)
        if handler is None:
            raise RefusedError(f"this worker has no handler for {action.kind.value!r} actions")
        return handler

    async def _finish(self, action: Action, outcome: Outcome | None) -> None:
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


def dispatch_order(action: Action) -> tuple[int, int, Any, str]:
    """Creates, then control, then turns; urgent first, then by age."""
    if action.kind is ActionKind.CREATE:
        rank = 0
    elif action.kind in CONTROL_KINDS or action.kind is ActionKind.INTERRUPT:
        rank = 1
    else:
        rank = 2
    return rank, -action.urgency, action.created_at, action.id
