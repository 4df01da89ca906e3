"""The scheduler: a helper of the worker that enqueues what schedules ask for when their moments have come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from runtime.firstof import first_of
from store.clock import Clock
from store.database import TenantStore
from store.errors import StoreError
from store.schedules import Schedule, fire, list_enabled
from store.schema import SCHEDULES
from store.timetable import BadRuleError

_AFTER_FAILURE_S = 1.0
_NOT_MINE_S = 1.0
#: the wall clock may be set meanwhile
_LONGEST_WAIT_S = 30.0


class Scheduler:
    """Fires due schedules. Several at once are harmless: a moment has one idempotency key."""

    def __init__(self, db: TenantStore, log: Any, may_run: Callable[[], bool] = lambda: True) -> None:
        self._db = db
        self._clock: Clock = db.clock
        self._log = log
        self._may_run = may_run
        self._told: set[str] = set()

    async def run(self) -> None:
        """Fire until cancelled."""
        async with self._db.store.watch(SCHEDULES.name) as watch:
            while True:
                wait_s = await self._look()
                await first_of(watch.wait(), self._clock.sleep(wait_s))

    async def fire_due(self) -> Sequence[Schedule]:
        """Fire what is due now, each once; returns the schedules that are enabled, as they were read."""
        enabled = await list_enabled(self._db)
        now = self._clock.now()
        for schedule in enabled:
            if schedule.next_at is not None and schedule.next_at <= now:
                await self._fire(schedule)
        return enabled

    async def _look(self) -> float:
        """Fire what is due; returns for how many seconds nothing will be."""
        if not self._may_run():
            return _NOT_MINE_S
        try:
            await self.fire_due()
            left = [one.next_at for one in await list_enabled(self._db) if one.schedule_id not in self._told]
        except StoreError as error:
            self._log.warning("schedules cannot be read or fired; trying again", error=str(error))
            return _AFTER_FAILURE_S
        return self._seconds_to(min((moment for moment in left if moment is not None), default=None))

    async def _fire(self, schedule: Schedule) -> None:
        try:
            action = await fire(self._db, schedule)
        except BadRuleError as error:  # one that this worker cannot read holds no other one up
            if schedule.schedule_id not in self._told:
                self._told.add(schedule.schedule_id)
                self._log.error("a schedule cannot be fired", schedule_id=schedule.schedule_id, error=str(error))
            return
        if action is not None:
            self._log.info("schedule fired", schedule_id=schedule.schedule_id, **action.log_context())

    def _seconds_to(self, moment: datetime | None) -> float:
        if moment is None:
            return _LONGEST_WAIT_S
        return min(max(0.0, (moment - self._clock.now()).total_seconds()), _LONGEST_WAIT_S)
