"""What sessions have spent: tokens, money, calls, steps and seconds of work, read from their stored usage.

Invariant: **no figure of a session ever goes down.** So of two readings of one session the larger figures are right,
in whatever order they come: a projection that is late, a step that is not stored yet, a worker that was replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, assert_never

from store.money import EXACT, added, money_of, money_text

#: where a session's usage holds what its step in the making has used
OPEN_STEP = "open"

Amount = int | float | Decimal


class Limit(StrEnum):
    """What can be limited. In money the currency is that of models.toml."""

    TOKENS = "tokens"  # input and output together
    MONEY = "money"  # the sum of the calls whose price is known
    CALLS = "calls"  # model calls
    STEPS = "steps"  # stored steps
    TIME_S = "time_s"  # seconds of work; waits and pauses are none
    UNPRICED_CALLS = "unpriced_calls"  # calls that nobody knows the price of; none where money is limited


@dataclass(frozen=True, slots=True)
class Spent:
    """What was spent. `money` leaves out the `unpriced_calls`, whose price nobody knows."""

    input_tokens: int = 0
    output_tokens: int = 0
    money: Decimal = Decimal(0)
    calls: int = 0
    unpriced_calls: int = 0
    steps: int = 0
    time_s: float = 0.0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def of(self, limit: Limit) -> Amount:
        """The figure that a limit is about."""
        match limit:
            case Limit.TOKENS:
                return self.tokens
            case Limit.MONEY:
                return self.money
            case Limit.CALLS:
                return self.calls
            case Limit.STEPS:
                return self.steps
            case Limit.TIME_S:
                return round(self.time_s, 6)
            case Limit.UNPRICED_CALLS:
                return self.unpriced_calls
            case _:
                assert_never(limit)

    def plus(self, other: Spent, times: int = 1) -> Spent:
        """The sum of this and `times` the other."""
        return Spent(
            self.input_tokens + other.input_tokens * times,
            self.output_tokens + other.output_tokens * times,
            added(self.money, EXACT.multiply(other.money, Decimal(times))),
            self.calls + other.calls * times,
            self.unpriced_calls + other.unpriced_calls * times,
            self.steps + other.steps * times,
            self.time_s + other.time_s * times,
        )

    def joined(self, other: Spent) -> Spent:
        """The larger of each figure: what is known of one session from two readings."""
        if self == other:
            return self
        return Spent(
            max(self.input_tokens, other.input_tokens),
            max(self.output_tokens, other.output_tokens),
            max(self.money, other.money),
            max(self.calls, other.calls),
            max(self.unpriced_calls, other.unpriced_calls),
            max(self.steps, other.steps),
            max(self.time_s, other.time_s),
        )

    def row(self) -> dict[str, Any]:
        """As a session's usage tells it; figures of 0 are left out."""
        told = {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost": money_text(self.money) if self.money else None,
            "calls": self.calls,
            "unpriced_calls": self.unpriced_calls,
        }
        return {name: value for name, value in told.items() if value}


NOTHING_SPENT = Spent()


def spent_of(usage: Any) -> Spent:
    """What a session's stored usage says that it has spent, its step in the making included."""
    if not isinstance(usage, Mapping):
        return NOTHING_SPENT
    stored = _figures(usage, steps=_number(usage.get("steps")), time_s=_seconds(usage.get("runtime_s")))
    return stored.plus(_figures(usage[OPEN_STEP])) if isinstance(usage.get(OPEN_STEP), Mapping) else stored


def spent_by_call(told: Any) -> Spent:
    """What a call's record says that its model calls have used: `{"usage": {...}, "cost"?}`; nothing without that."""
    if not isinstance(told, Mapping) or not isinstance(told.get("usage"), Mapping):
        return NOTHING_SPENT
    found = _figures(told["usage"], calls=1)
    money = _money(told.get("cost"))
    if money is None:
        return found.plus(Spent(unpriced_calls=found.calls))
    return found.plus(Spent(money=money))


def _figures(usage: Mapping[str, Any], *, calls: int = 0, steps: int = 0, time_s: float = 0.0) -> Spent:
    money = _money(usage.get("cost", 0))
    return Spent(
        _number(usage.get("input_tokens")),
        _number(usage.get("output_tokens")),
        money or Decimal(0),
        max(calls, _number(usage.get("calls"))),
        # A cost that cannot be read is a cost that nobody knows.
        _number(usage.get("unpriced_calls")) + (money is None and usage.get("cost") is not None),
        steps,
        time_s,
    )


def _number(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _seconds(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and 0 < value < float("inf") else 0.0


def _money(value: Any) -> Decimal | None:
    try:
        money = money_of(str(value))
    except ValueError:
        return None
    return money if money >= 0 else None
