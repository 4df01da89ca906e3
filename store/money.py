"""Amounts of money: exact sums, and the one form that rows, answers and pages have of them."""

from __future__ import annotations

from decimal import Context, Decimal, InvalidOperation

#: exact for any count of tokens that a provider may report and any price of models.toml
EXACT = Context(prec=60)


def added(one: Decimal, other: Decimal) -> Decimal:
    """The exact sum of two amounts."""
    return EXACT.add(one, other)


def money_text(value: Decimal) -> str:
    """An amount as rows hold it: every digit that counts and no others, never with an exponent."""
    return f"{EXACT.normalize(value):f}"


def money_of(text: str) -> Decimal:
    """The amount that a row holds. Raises `ValueError` when it is none."""
    try:
        value = Decimal(text)
    except (InvalidOperation, TypeError) as error:
        raise ValueError(f"{text!r} is no amount of money; write it as digits with a point, like 0.0125") from error
    if not value.is_finite():
        raise ValueError(f"{text!r} is no amount of money; it has to be finite")
    return value
