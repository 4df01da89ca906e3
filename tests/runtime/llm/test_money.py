from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.llm.money import CallCosts, Prices, cost_of
from runtime.llm.port import ChatReply, Usage

TOKENS = st.integers(0, 10**9)
PRICE = st.decimals(0, 10_000, places=6)


def test_an_answer_costs_what_its_tokens_cost() -> None:
    usage = Usage(input_tokens=1_000, cached_tokens=400, output_tokens=50, calls=1)
    prices = Prices(input=Decimal("0.40"), output=Decimal("1.60"), cached=Decimal("0.10"))
    assert cost_of(usage, prices) == Decimal("0.000360")
    assert cost_of(usage, Prices(input=Decimal("0.40"), output=Decimal("1.60"))) == Decimal("0.00048")


@pytest.mark.parametrize(
    ("prices", "usage", "cost"),
    [
        (Prices(), Usage(calls=1), None),
        (Prices(), Usage(input_tokens=1), None),
        (Prices(input=Decimal(1)), Usage(output_tokens=1), None),
        (Prices(output=Decimal(1)), Usage(input_tokens=1), None),
        (Prices(input=Decimal(1)), Usage(input_tokens=1_000_000), Decimal(1)),
        (Prices(Decimal(0), Decimal(0)), Usage(input_tokens=5, output_tokens=5), Decimal(0)),
    ],
)
def test_an_unknown_price_is_not_a_price_of_nothing(prices: Prices, usage: Usage, cost: Decimal | None) -> None:
    assert cost_of(usage, prices) == cost


@given(TOKENS, TOKENS, TOKENS, PRICE, PRICE, PRICE)
def test_the_arithmetic_is_exact(
    tokens: int, cached: int, output: int, price: Decimal, cached_price: Decimal, output_price: Decimal
) -> None:
    cached = min(cached, tokens)
    usage = Usage(input_tokens=tokens, cached_tokens=cached, output_tokens=output)
    exact = Fraction(price) * (tokens - cached) + Fraction(cached_price) * cached + Fraction(output_price) * output
    found = cost_of(usage, Prices(price, output_price, cached_price))
    assert found is not None
    assert Fraction(found) == exact / 1_000_000


@given(st.lists(st.none() | PRICE, max_size=8))
def test_a_sum_says_how_many_calls_it_leaves_out(costs: list[Decimal | None]) -> None:
    summed = CallCosts()
    for cost in costs:
        summed = summed.plus(cost)
    assert summed == CallCosts(sum((cost for cost in costs if cost is not None), Decimal(0)), costs.count(None))


def test_a_cost_survives_json() -> None:
    reply = ChatReply(text="x", model="m", cost=Decimal("0.0000004"), usage=Usage(input_tokens=3, cached_tokens=2))
    assert ChatReply.model_validate_json(reply.model_dump_json()) == reply
    assert ChatReply.model_validate(reply.model_dump(mode="json")) == reply
    assert ChatReply(text="x", model="m", cost=Decimal(0)).model_dump(mode="json")["cost"] == "0"


def test_an_answer_without_the_later_fields_is_stored_as_before() -> None:
    assert ChatReply(text="x", model="m").model_dump(mode="json") == {
        "text": "x",
        "model": "m",
        "usage": {"input_tokens": 0, "output_tokens": 0, "calls": 0},
        "finish_reason": "stop",
    }
