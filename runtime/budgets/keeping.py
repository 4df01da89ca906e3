"""Keeps a worker's ledger up to date, and has sessions go on whose budget was raised.

The table of budgets is followed always, the sessions' rows only while a budget is about more than one of them.
Which sessions are paused for a budget is a fact of their rows, so a raise is not missed: not one that was made while no
worker ran, nor while the session's lane was with another worker. A session that a person paused carries no such mark.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from runtime.budgets.ledger import Ledger
from runtime.calls import PAID_KINDS
from runtime.contract import MonikerInputError
from runtime.errors import ParkedError, RefusedError
from runtime.registry import Registry
from runtime.spec import SessionSpec
from store import filters
from store.agent_state import AgentState, SessionStatus, states_of
from store.budgets import Budget, budgets_of
from store.changes import Feed
from store.database import TenantStore
from store.errors import StoreError
from store.ids import SessionId
from store.limits import BadLimitsError, Limits, limits_of
from store.records import records_of
from store.schema import AGENT_STATE, BUDGETS
from store.spending import NOTHING_SPENT, OPEN_STEP, Spent, spent_by_call, spent_of
from store.spendingsums import FollowedSpending

_AFTER_FAILURE_S = 1.0
_MAX_NAMED = 500
_PAUSED_COLUMNS = ("agent_id", "session_id", "conversation_id", "moniker", "status", "inbox", "spec", "usage", "lane")


class BudgetKeeper:
    """Follows the store for a ledger."""

    def __init__(self, db: TenantStore, ledger: Ledger, spending: FollowedSpending, log: Any) -> None:
        self._db = db
        self._ledger = ledger
        self._spending = spending
        self._log = log
        self._feed: Feed[Budget] = Feed(budgets_of(db), "created", 0)
        self._any_seen = False
        self._may_go_on = asyncio.Event()
        self._registry: Registry | None = None

    def bind(self, registry: Registry) -> None:
        """Tell it where this worker's sessions are."""
        self._registry = registry

    async def refresh(self) -> None:
        """Take in what changed since the last look."""
        changes = [row.item for row in await self._feed.poll()]
        if changes:
            self._any_seen = True
            self._ledger.take([change for change in changes if self._is_readable(change)])
            self._may_go_on.set()
        if self._ledger.is_shared:
            await self._spending.refresh()
        if changes and self._registry is not None:
            # What they used before anything was limited, and is not stored yet, counts from now on.
            for runner in self._registry.SESSIONS.values():
                self._ledger.know(runner.session)

    def _is_readable(self, change: Budget) -> bool:
        try:
            if change.limits is not None:
                limits_of(change.limits)
        except BadLimitsError as error:
            self._log.error("a budget cannot be read; the one before it holds", scope=change.scope, error=str(error))
            return False
        return True

    def lanes_taken(self) -> None:
        """Sessions came to this worker: some may be paused for a budget that was raised meanwhile."""
        if self._any_seen:  # where nobody ever set a budget, none was raised
            self._may_go_on.set()

    async def take_in(self, running: Sequence[AgentState]) -> list[AgentState]:
        """Before sessions of a lost worker go on: know what their unfinished steps have used.

        Their rows may be a projection behind; the records of their calls are not. Returns the rows as they have to be
        from now on, to be stored: a session may be paused before it looks at its records.
        """
        await self.refresh()
        if not self._ledger.is_shared:
            return list(running)
        rows: list[AgentState] = []
        for start in range(0, len(running), _MAX_NAMED):
            rows += await self._with_open_steps(running[start : start + _MAX_NAMED])
        for row in rows:
            self._spending.sums.note(row.session_id, row.agent_id, row.conversation_id, spent_of(row.usage))
        return rows

    async def _with_open_steps(self, rows: Sequence[AgentState]) -> list[AgentState]:
        reached = {row.session_id: row.iteration for row in rows}
        records = await records_of(self._db).find(
            filters.one_of("session_id", reached),
            filters.above("iteration", min(reached.values())),
            filters.one_of("kind", PAID_KINDS),
            columns=("session_id", "iteration", "usage"),
        )
        opened = dict.fromkeys(reached, NOTHING_SPENT)
        for record in records:
            if record.iteration > reached[record.session_id]:
                opened[record.session_id] = opened[record.session_id].plus(spent_by_call(record.usage))
        return [_with_open(row, opened[row.session_id]) for row in rows]

    async def follow(self) -> None:
        """Keep the ledger up to date until cancelled."""
        while True:
            try:
                await self._follow_while(shared=self._ledger.is_shared)
            except StoreError as error:
                self._log.warning("budgets cannot be read; trying again", error=str(error))
                await self._db.clock.sleep(_AFTER_FAILURE_S)

    async def _follow_while(self, *, shared: bool) -> None:
        names = (BUDGETS.name, AGENT_STATE.name) if shared else (BUDGETS.name,)
        async with self._db.store.watch(*names) as watch:
            while True:
                await self.refresh()
                if self._ledger.is_shared is not shared:
                    return
                await watch.wait()

    async def wake(self, read_again: Callable[[SessionId], None]) -> None:
        """Have sessions go on whose budget holds them no more, until cancelled.

        `read_again` has what waits for a session read again. Call `bind` first.
        """
        registry = self._registry
        while registry is not None:
            await self._may_go_on.wait()
            self._may_go_on.clear()
            try:
                for row in await self._paused_for_nothing(registry):
                    await self._go_on(registry, row.session_id)
                    read_again(row.session_id)
            except StoreError as error:
                self._log.warning("sessions of a raised budget wait for the store", error=str(error))
                await self._db.clock.sleep(_AFTER_FAILURE_S)
                self._may_go_on.set()

    async def _paused_for_nothing(self, registry: Registry) -> list[AgentState]:
        paused = filters.equals("status", SessionStatus.PAUSED)
        found = await states_of(self._db).find(paused, columns=_PAUSED_COLUMNS)
        mine = [row for row in found if _mark_of(row) is not None and registry.ownership.holds(row.place)]
        return [
            row
            for row in mine
            if self._ledger.is_over(_mark_of(row), row.session_id, _own_limits(row), spent_of(row.usage))
        ]

    async def _go_on(self, registry: Registry, session_id: SessionId) -> None:
        """Open a session; its runner finds by itself whether it may go on."""
        try:
            async with registry.lane(session_id):
                if (runner := registry.SESSIONS.get(session_id)) is not None:
                    runner.nudge()
                    return
                row = await registry.row(session_id)
                if row is not None and row.status is SessionStatus.PAUSED and _mark_of(row) is not None:
                    await registry.open_row(row)
        except (RefusedError, ParkedError, MonikerInputError) as error:
            self._log.warning("a session of a raised budget was left as it is", session_id=session_id, error=str(error))


def _with_open(row: AgentState, used: Spent) -> AgentState:
    usage = row.usage if isinstance(row.usage, dict) else {}
    open_step = spent_of(usage.get(OPEN_STEP)).joined(used)
    return row if open_step == NOTHING_SPENT else replace(row, usage={**usage, OPEN_STEP: open_step.row()})


def _mark_of(row: AgentState) -> Any:
    return row.inbox.get("budget") if isinstance(row.inbox, dict) else None


def _own_limits(row: AgentState) -> Limits | None:
    try:
        return SessionSpec.model_validate({"moniker": row.moniker, **(row.spec or {})}).budget
    except ValidationError:  # whoever opens it says what is wrong with it
        return None
