from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.money import added, money_of, money_text

AMOUNT = st.decimals(0, 10**12, places=12)


@given(AMOUNT, AMOUNT)
def test_a_sum_is_exact(one: Decimal, other: Decimal) -> None:
    assert Fraction(added(one, other)) == Fraction(one) + Fraction(other)


@given(AMOUNT)
def test_an_amount_comes_back_from_its_text(amount: Decimal) -> None:
    assert money_of(money_text(amount)) == amount


@pytest.mark.parametrize(
    ("amount", "text"), [("0.30", "0.3"), ("1E+3", "1000"), ("1E-12", "0.000000000001"), ("0", "0"), ("-0.50", "-0.5")]
)
def test_an_amount_has_one_text(amount: str, text: str) -> None:
    assert money_text(Decimal(amount)) == text


@pytest.mark.parametrize("text", ["", "a", "NaN", "Infinity", "1,5", None])
def test_what_is_no_amount_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="no amount of money"):
        money_of(text)
