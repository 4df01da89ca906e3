"""Limits of a budget: how much of each kind may be spent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from decimal import Decimal, InvalidOperation
from typing import Any

from store.errors import StoreError
from store.spending import Amount, Limit, Spent

MAX_COUNT = 10**15
#: digits before and behind the point of an amount of money
MAX_MONEY_DIGITS = (15, 12)


class BadLimitsError(StoreError, ValueError):
    """Limits from outside cannot be used; `field` is the one to blame."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field


@dataclass(frozen=True, slots=True)
class Limits:
    """What may be spent; None where nothing is limited. 0 allows nothing at all."""

    tokens: int | None = None
    money: Decimal | None = None
    calls: int | None = None
    steps: int | None = None
    time_s: float | None = None
    unpriced_calls: int | None = None

    def __iter__(self) -> Iterator[tuple[Limit, Amount]]:
        """Each limit and what it allows. Where money is limited, calls of unknown price are, too: none, unless said."""
        for limit in Limit:
            if (allowed := getattr(self, limit.value)) is not None:
                yield limit, allowed
            elif limit is Limit.UNPRICED_CALLS and self.money is not None:
                yield limit, 0

    def allows(self, limit: Limit) -> Amount | None:
        """What a limit allows; None when there is no such limit."""
        return dict(self).get(limit)

    def first_spent(self, spent: Spent) -> Limit | None:
        """The first limit that `spent` has reached."""
        return next((limit for limit, allowed in self if is_spent(limit, spent.of(limit), allowed)), None)

    def left(self, spent: Spent) -> dict[Limit, Amount]:
        """How much of each limit is left, at least 0."""
        return {limit: _rest(allowed, spent.of(limit)) for limit, allowed in self}

    def row(self) -> dict[str, Any]:
        """As it is stored and sent: money as text."""
        told = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: plain_amount(value) for name, value in told.items() if value is not None}


def is_spent(limit: Limit, spent: Amount, allowed: Amount) -> bool:
    """Whether nothing more may be spent. A call of unknown price shows only afterwards: so many are let through."""
    return spent > allowed if limit is Limit.UNPRICED_CALLS else spent >= allowed


def plain_amount(amount: Amount) -> int | float | str:
    """An amount as JSON has it; money with the digits that it was given with, so that 2.50 stays 2.50."""
    return format(amount, "f") if isinstance(amount, Decimal) else amount


def _rest(allowed: Amount, spent: Amount) -> Amount:
    if isinstance(allowed, Decimal):
        return max(Decimal(0), allowed - Decimal(spent))
    if isinstance(allowed, float):
        return max(0.0, round(allowed - float(spent), 6))
    return max(0, allowed - int(spent))


def amount_of(limit: Limit, value: Any) -> Amount:
    """An amount from outside; raises `BadLimitsError` that says what is wrong with it."""
    if limit is Limit.MONEY:
        return _money(value)
    if limit is Limit.TIME_S:
        return _seconds(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_COUNT:
        raise BadLimitsError(limit.value, f"is {value!r}; give a whole number from 0 to {MAX_COUNT}")
    return value


def limits_of(value: Any) -> Limits:
    """Limits from JSON: at least one of `tokens, money, calls, steps, time_s, unpriced_calls`.

    Raises `BadLimitsError` that names the field.
    """
    if isinstance(value, Limits):
        return value
    if not isinstance(value, Mapping):
        raise BadLimitsError("", f"limits are {type(value).__name__}; give an object such as {{'tokens': 10000}}")
    known = {limit.value for limit in Limit}
    if unknown := sorted(str(name) for name in value.keys() - known):
        raise BadLimitsError(unknown[0], f"there is no such limit; known are {', '.join(sorted(known))}")
    given = {name: amount_of(Limit(name), one) for name, one in value.items() if one is not None}
    if not given:
        raise BadLimitsError("", f"no limit is given; name at least one of {', '.join(sorted(known))}")
    return Limits(**given)  # type: ignore[arg-type]


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_COUNT:
        raise BadLimitsError(Limit.TIME_S.value, f"is {value!r}; give seconds from 0 to {MAX_COUNT}")
    return float(value)


def _money(value: Any) -> Decimal:
    before, behind = MAX_MONEY_DIGITS
    wrong = BadLimitsError(
        Limit.MONEY.value,
        f"is {value!r}; give text such as '2.50', at most {before} digits and {behind} behind the point",
    )
    # A float is not what a person typed: 0.1 of it is a little more than a tenth.
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise wrong
    try:
        money = Decimal(value)
    except InvalidOperation:
        raise wrong from None
    if not money.is_finite() or money < 0 or money >= 10**before or -int(money.as_tuple().exponent) > behind:
        raise wrong
    return money
