"""What steps and sessions used: exact sums, calls without a price apart, and rows from before costs were counted."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from runtime.llm.money import CallCosts
from runtime.llm.port import Usage
from runtime.usage import Used, totals, used_of_row
from tests.support import examples

COUNTS = st.integers(0, 10**12)
MONEY = st.decimals(0, 10**9, allow_nan=False, allow_infinity=False, places=15)
USED = st.builds(
    Used,
    st.builds(Usage, calls=COUNTS, input_tokens=COUNTS, output_tokens=COUNTS),
    st.builds(CallCosts, MONEY, st.integers(0, 10**6)),
)


@given(st.lists(USED, max_size=8))
@examples(100)
def test_a_sessions_totals_are_the_exact_sum_of_its_steps(steps: list[Used]) -> None:
    row, summed = dict[str, object](), Used()
    for step in steps:
        row, summed = totals(row, step), summed.plus(step)
    assert used_of_row(row) == summed
    assert summed.costs.known == sum((step.costs.known for step in steps), Decimal(0))
    assert "step" not in row or used_of_row(row["step"]) == steps[-1]  # type: ignore[arg-type]


def test_a_row_tells_nothing_of_cost_before_there_were_calls() -> None:
    assert totals({}, Used()) == {"calls": 0, "input_tokens": 0, "output_tokens": 0}


def test_a_cost_is_written_without_an_exponent_and_without_empty_digits() -> None:
    tiny = Used(Usage(calls=1), CallCosts(Decimal("1E-12")))
    assert tiny.row()["cost"] == "0.000000000001"
    assert Used(Usage(calls=1), CallCosts(Decimal("120.500"))).row()["cost"] == "120.5"
    assert Used(Usage(calls=1), CallCosts(Decimal("1E+3"))).row()["cost"] == "1000"


def test_a_row_from_before_costs_were_counted_tells_of_calls_without_a_price() -> None:
    old = {"steps": 4, "calls": 3, "input_tokens": 30, "output_tokens": 9, "step": {"calls": 2}}
    now = totals(old, Used(Usage(calls=1, input_tokens=1), CallCosts(Decimal("0.5"))))
    assert (now["cost"], now["unpriced_calls"], now["calls"], now["input_tokens"]) == ("0.5", 3, 4, 31)
    assert now["step"] == {"calls": 1, "input_tokens": 1, "output_tokens": 0, "cost": "0.5", "unpriced_calls": 0}


def test_what_an_earlier_step_used_alone_is_not_told_of_a_later_one() -> None:
    assert "step" not in totals({"calls": 1, "cost": "0", "step": {"calls": 1}}, Used())
