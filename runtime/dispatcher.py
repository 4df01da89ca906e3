"""The dispatcher: a task an action, each action once at a time, every end stored.

IN_FLIGHT holds the actions that are being handled. Whatever a handler raises ends on the action's row: a refusal as
`failed`; anything unforeseen puts it back with a moment for its next try, and when its tries are used up it is `dead`.
A parked action stays open as it is, for whoever lets its session go on.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any

from runtime.errors import OwnershipLostError, ParkedError, RefusedError, SpentError
from runtime.handlers import Handlers
from runtime.ownership import Ownership
from runtime.retries import Retries
from store.actions import CONTROL_KINDS, CREATING_KINDS, Action, ActionKind, ActionStatus, place_of
from store.clock import Clock
from store.database import TenantStore
from store.errors import StoreError
from store.ids import ActionId
from store.lanes import LaneId
from store.marks import mark_action_claimed, mark_action_processed_async

_MAX_REMEMBERED = 20_000
_MAX_BUSY = 500

DispatchOrder = tuple[int, int, str]
LookAgain = Callable[[ActionId, datetime], None]


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
    #: the next try, for one that is put back
    not_before: datetime | None = None


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

    def __init__(
        self,
        db: TenantStore,
        handlers: Handlers,
        ownership: Ownership,
        *,
        claim_after_s: float,
        retries: Retries,
        log: Any,
        redact: Callable[[str], str] = str,
    ) -> None:
        #: takes secrets out of an error before it is stored
        self._redact = redact
        self.IN_FLIGHT: dict[ActionId, Flight] = {}
        self._db = db
        self._clock: Clock = db.clock
        self._handlers = handlers
        self._table = handlers.table()
        self._ownership = ownership
        self._claim_after_s = claim_after_s
        self._retries = retries
        self._look_again: list[LookAgain] = []
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
            if not self._ownership.holds(place_of(action)):
                continue
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

    def on_retry(self, look_again: LookAgain) -> None:
        """Have `look_again(action_id, moment)` called for each action that is to be read again at a moment."""
        self._look_again.append(look_again)

    def put_back(self, action_id: ActionId, moment: datetime | None = None) -> None:
        """Have an action that is open read again, at a moment or now."""
        for look_again in self._look_again:
            look_again(action_id, moment or self._clock.now())

    def withdraw(self, action_id: ActionId) -> bool:
        """See to it that an action is not handled, also where an older read shows it as open; False when it is."""
        flight = self.IN_FLIGHT.get(action_id)
        if flight is not None and flight.task is not None:
            return False
        if flight is not None:
            self._backlog = [entry for entry in self._backlog if entry[1].id != action_id]
            heapq.heapify(self._backlog)
            del self.IN_FLIGHT[action_id]
        self._tickets.end(action_id)
        return True

    def close(self) -> None:
        """Start no more handlers. What still waits for capacity stays open in the queue."""
        self._closed = True
        for _, action in self._backlog:
            self.IN_FLIGHT.pop(action.id, None)
        self._backlog.clear()

    def close_lanes(self, lanes: Collection[LaneId]) -> None:
        """Start no more handlers for `lanes`; what waits for capacity stays open for their next owner."""
        left = [entry for entry in self._backlog if place_of(entry[1]) not in lanes]
        for _, action in self._backlog:
            if place_of(action) in lanes:
                self.IN_FLIGHT.pop(action.id, None)
        heapq.heapify(left)
        self._backlog = left

    def drop(self, lanes: Collection[LaneId]) -> None:
        """Forget every action of `lanes`, also those in hand: another worker has them."""
        self.close_lanes(lanes)
        for flight in self._of(lanes):
            if flight.task is not None:
                flight.task.cancel()

    async def settled_in(self, lanes: Collection[LaneId]) -> None:
        """Return when every handler that was started for `lanes` has ended."""
        while tasks := [flight.task for flight in self._of(lanes) if flight.task is not None]:
            await asyncio.wait(tasks)

    def _of(self, lanes: Collection[LaneId]) -> list[Flight]:
        return [flight for flight in self.IN_FLIGHT.values() if place_of(flight.action) in lanes]

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
        # Handed over before anything awaits: an action that ends meanwhile hands its end over behind its claim.
        marks = [
            mark_action_claimed(
                self._db,
                flight.action.id,
                attempts=flight.action.attempts,
                owner=self._ownership.owner,
                epoch=self._epoch(flight.action),
                error=flight.action.error,
                not_before=flight.action.not_before,
            )
            for flight in slow
        ]
        await asyncio.gather(*marks)

    def _epoch(self, action: Action) -> int:
        # An action that was sent on carries the epoch of the lane that it came from, which may be higher.
        return max(action.epoch or 0, self._ownership.epoch_of(place_of(action)))

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
            return Outcome(ActionStatus.FAILED, str(refused), action.not_before)
        except SpentError as spent:
            self._log.warning("action dead until requeued", error=str(spent), **action.log_context())
            return Outcome(ActionStatus.DEAD, str(spent), action.not_before)
        except Exception as error:  # whatever a handler raises is its action's error, never the worker's
            return self._broken(action, error)
        return Outcome(ActionStatus.DONE, not_before=action.not_before)

    def _broken(self, action: Action, error: Exception) -> Outcome:
        """Another try, or the end of an action whose tries are used up."""
        message = f"{type(error).__name__}: {error}"
        tries = action.attempts + 1
        again_at = self._retries.next_try(tries, self._clock.now())
        if again_at is not None:
            again = again_at.isoformat(timespec="milliseconds")
            self._log.warning(
                "handler broke; trying again", error=message, tries=tries, again_at=again, **action.log_context()
            )
            return Outcome(ActionStatus.PENDING, message, again_at)
        self._log.error(
            "handler broke; the action is dead until requeued", exc_info=error, tries=tries, **action.log_context()
        )
        return Outcome(ActionStatus.DEAD, message, action.not_before)

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
                if not self._ownership.fresh():
                    place = place_of(action)
                    await self._ownership.confirm(place, self._ownership.epoch_of(place))
                await mark_action_processed_async(
                    self._db,
                    action.id,
                    status=outcome.status,
                    error=None if outcome.error is None else self._redact(outcome.error),
                    attempts=action.attempts + 1,
                    owner=self._ownership.owner,
                    epoch=self._epoch(action),
                    not_before=outcome.not_before,
                )
        except OwnershipLostError as error:
            self._log.warning(
                "an action's end was not stored; its new owner handles it", error=str(error), **action.log_context()
            )
        except StoreError as error:
            self._log.error(
                "an action's end was not stored; it is handled again", error=str(error), **action.log_context()
            )
            outcome = Outcome(ActionStatus.PENDING, not_before=self._retries.next_try(1, self._clock.now()))
        finally:
            self._tickets.end(action.id)
            self.IN_FLIGHT.pop(action.id, None)
            self._busy -= _weight(action)
            self._start_handlers()
        self._after(action, outcome)

    def _after(self, action: Action, outcome: Outcome | None) -> None:
        if outcome is not None and outcome.status is ActionStatus.PENDING:
            self.put_back(action.id, outcome.not_before)
        self._handlers.ended(action, stored=outcome is not None and outcome.status is not ActionStatus.PENDING)


def _weight(action: Action) -> int:
    # Only creates come by the thousand; inputs, pauses and destroys last as long as a session's steps.
    return 1 if action.kind in CREATING_KINDS else 0


def dispatch_order(action: Action) -> DispatchOrder:
    """Creates, then control, then turns; urgent first, then by age, which the id tells whatever the clocks did."""
    if action.kind in CREATING_KINDS:
        rank = 0
    elif action.kind in CONTROL_KINDS or action.kind is ActionKind.INTERRUPT:
        rank = 1
    else:
        rank = 2
    return rank, -action.urgency, action.id
