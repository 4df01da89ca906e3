"""What a step's calls need to know of budgets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from runtime.ports import Json
from runtime.session import LiveSession
from store.budgets import Scope, spent_words
from store.limits import plain_amount
from store.spending import NOTHING_SPENT, Amount, Limit, Spent

#: how much of each limit is left, for a moniker: the least of all budgets that apply
Left = Mapping[str, int | float | str]


class BudgetSpentError(Exception):
    """A model call was not made because a budget is spent: the step is cut short and never was."""


@dataclass(frozen=True, slots=True)
class SpentBudget:
    """A budget that is spent: which, what it allows, and how much it was when that was seen."""

    scope: Scope
    limit: Limit
    spent: Amount
    allowed: Amount

    def mark(self) -> Json:
        """As the row of a session that is paused for it says."""
        return {
            "scope": self.scope,
            "limit": self.limit.value,
            "spent": plain_amount(self.spent),
            "allowed": plain_amount(self.allowed),
        }

    @property
    def words(self) -> str:
        """Why the session is paused."""
        return spent_words(self.mark())


class Budgets(Protocol):
    """Asked before each step and each model call, and told of each call."""

    def hindrance(self, session: LiveSession) -> SpentBudget | None:
        """The spent budget that keeps a session from its next step."""
        ...

    async def admit(self, session: LiveSession) -> SpentBudget | None:
        """None when a model call may be made, which is then reserved until it has `landed`; else what is spent."""
        ...

    def landed(self, session: LiveSession, used: Spent) -> None:
        """A call that was admitted has ended and has used this; the session's own figures hold it already."""
        ...

    def left(self, session: LiveSession) -> Left | None:
        """How much is left of each limit; None when no budget applies."""
        ...


class NoBudgets:
    """Nothing is limited."""

    def hindrance(self, session: LiveSession) -> SpentBudget | None:
        return None

    async def admit(self, session: LiveSession) -> SpentBudget | None:
        return None

    def landed(self, session: LiveSession, used: Spent = NOTHING_SPENT) -> None:
        pass

    def left(self, session: LiveSession) -> Left | None:
        return None


NO_BUDGETS = NoBudgets()
