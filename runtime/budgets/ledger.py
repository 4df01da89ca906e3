"""The ledger of a worker: which budgets are in force, what was spent of them, and whether a session may go on.

Invariant: **a session takes no step and makes no model call while a budget that applies to it is known to be spent.**
What is known is exact for this worker's own sessions, be a step stored or not, and for the others' as old as their
last projection. A call that has begun is not cut: what is spent over a limit is at most what the calls in flight use.
Near a limit they go one at a time, so that within a worker it is one call; the number of calls is never passed here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator

from runtime.budgets.port import Left, SpentBudget
from runtime.ports import Json
from runtime.session import LiveSession
from store.budgets import Budget, Scope, in_force, scopes_of, session_scope
from store.limits import Limits, is_spent, limits_of, plain_amount
from store.spending import NOTHING_SPENT, Amount, Limit, Spent
from store.spendingsums import SpendingSums

#: what a call in flight may add to
_OF_CALLS = (Limit.TOKENS, Limit.MONEY, Limit.CALLS, Limit.UNPRICED_CALLS)


class Ledger:
    """Budgets and what was spent of them. Nothing in here touches the store."""

    def __init__(self, sums: SpendingSums, *, touch: Callable[[LiveSession], None]) -> None:
        self._sums = sums
        self._touch = touch
        self._limits: dict[Scope, Limits] = {}
        #: model calls in flight here, by scope
        self._flying: Counter[Scope] = Counter()
        #: the largest of each figure that one call has used here
        self._largest = NOTHING_SPENT
        self._landing = asyncio.Event()

    @property
    def is_shared(self) -> bool:
        """Whether any budget is about more than one session."""
        return any(not scope.startswith("session:") for scope in self._limits)

    def take(self, changes: list[Budget]) -> None:
        """Take in changes of budgets, oldest first."""
        for change in changes:
            self._limits.pop(change.scope, None)
        self._limits.update({scope: limits_of(budget.limits) for scope, budget in in_force(changes).items()})

    def know(self, session: LiveSession) -> None:
        """Take in what a session of this worker has spent, while anything is limited."""
        if self._limits:
            identity = session.identity
            self._sums.note(identity.session_id, identity.agent_id, identity.conversation_id, session.spent)

    # Between two steps.

    def hindrance(self, session: LiveSession) -> SpentBudget | None:
        """The budget that keeps a session from its next step. Costs two looks where there are no budgets."""
        if not self._limits and session.spec.budget is None:
            return None
        found = self._first_spent(session)
        return None if found is None else _as_marked(found, session.budget)

    def is_over(self, mark: Json, session_id: str, own: Limits | None, spent: Spent) -> bool:
        """Whether what a session was paused for holds it no more; `own` are the limits it was created with."""
        scope, limit = Scope(mark["scope"]), Limit(mark["limit"])
        is_own = scope == f"session:{session_id}"
        limits = self._limits.get(scope, own if is_own else None)
        allowed = None if limits is None else limits.allows(limit)
        known = spent if is_own else self._sums.of(scope)
        return allowed is None or not is_spent(limit, known.of(limit), allowed)

    # Around a model call.

    async def admit(self, session: LiveSession) -> SpentBudget | None:
        """See `Budgets`. Near a limit it waits for the calls in flight, so as to know what they have used."""
        while True:
            if (found := self._first_spent(session)) is not None:
                return found
            if not self._is_near(session):
                break
            await self._landing.wait()
        self._flying.update(_scopes(session))
        return None

    def landed(self, session: LiveSession, used: Spent) -> None:
        """See `Budgets`."""
        self._flying.subtract(_scopes(session))
        self._flying = +self._flying
        self._largest = self._largest.joined(used)
        self.know(session)
        landing, self._landing = self._landing, asyncio.Event()
        landing.set()
        if self._limits or session.spec.budget is not None:
            self._touch(session)  # so that other workers know of it before the step is stored

    def _is_near(self, session: LiveSession) -> bool:
        """Whether the calls in flight may spend a limit, if each is as large as the largest so far."""
        for scope, limits in self._of(session):
            flying = self._flying[scope]
            if not flying:
                continue
            if self._largest == NOTHING_SPENT:
                return True
            may_be = self._spent(scope, session).plus(self._largest, flying)
            if any(limit in _OF_CALLS and is_spent(limit, may_be.of(limit), most) for limit, most in limits):
                return True
        return False

    # What is left.

    def left(self, session: LiveSession) -> Left | None:
        """See `Budgets`."""
        self.know(session)
        least: dict[Limit, Amount] = {}
        for scope, limits in self._of(session):
            for limit, rest in limits.left(self._spent(scope, session)).items():
                least[limit] = min(rest, least.get(limit, rest))
        return {limit.value: plain_amount(rest) for limit, rest in least.items()} or None

    def _first_spent(self, session: LiveSession) -> SpentBudget | None:
        self.know(session)
        for scope, limits in self._of(session):
            spent = self._spent(scope, session)
            if (limit := limits.first_spent(spent)) is not None:
                allowed = limits.allows(limit)
                return SpentBudget(scope, limit, spent.of(limit), 0 if allowed is None else allowed)
        return None

    def _of(self, session: LiveSession) -> Iterator[tuple[Scope, Limits]]:
        """The budgets that apply to a session, its own first."""
        own, *shared = _scopes(session)
        if (limits := self._limits.get(own, session.spec.budget)) is not None:
            yield own, limits
        for scope in shared if self._limits else ():
            if (limits := self._limits.get(scope)) is not None:
                yield scope, limits

    def _spent(self, scope: Scope, session: LiveSession) -> Spent:
        return session.spent if scope == session_scope(session.session_id) else self._sums.of(scope)


def _scopes(session: LiveSession) -> list[Scope]:
    identity = session.identity
    return scopes_of(identity.session_id, identity.agent_id, identity.conversation_id)


def _as_marked(found: SpentBudget, mark: Json | None) -> SpentBudget:
    """A session that rests for a budget goes on resting for it in the same words, whatever others add meanwhile."""
    now = found.mark()
    if mark is None or any(mark[name] != now[name] for name in ("scope", "limit", "allowed")):
        return found
    return SpentBudget(found.scope, found.limit, mark["spent"], found.allowed)
