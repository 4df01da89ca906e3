"""Arithmetic is exact, and what is too large is refused before it is computed."""

from __future__ import annotations

import contextlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.tools.builtin.calculator import calculate, calculator
from runtime.tools.calling import call_tool
from runtime.tools.errors import ToolFailed
from runtime.tools.fake import FakeToolbox
from runtime.tools.result import Call
from tests.runtime.tools.kit import backoff, scope
from tests.support import examples


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3", "7"),
        ("0.1 + 0.2", "0.3"),
        ("(1.1 + 2.2) * 3", "9.9"),
        ("1.10 - 1", "0.1"),
        ("-2 ** 2", "-4"),
        ("2 ** -2", "0.25"),
        ("(-1) ** 1000001", "-1"),
        ("0 ** 0", "1"),
        ("7 // 2 + 7 % 2", "4"),
        ("-7 // 2", "-4"),
        ("10 / 4", "2.5"),
        ("1 / 3", "0.3333333333333333333333333333 (rounded to 28 digits)"),
        ("1 / 3 * 3", "1"),
        ("2 ** 64", "18446744073709551616"),
        ("1e3 + 0x10 + 1_000", "2016"),
        ("1.5e-3", "0.0015"),
        ("sqrt(16) + sqrt(2.25)", "5.5"),
        ("sqrt(2)", "1.414213562373095048801688724 (rounded to 28 digits)"),
        ("round(10 / 3, 2)", "3.33"),
        ("round(2.5)", "2"),
        ("floor(-1.5) + ceil(1.2)", "0"),
        ("min(3, 1, 2) + max(3, 1, 2)", "4"),
        ("abs(-3.5)", "3.5"),
        ("gcd(12, 18)", "6"),
        ("factorial(20)", "2432902008176640000"),
        (" 1\n", "1"),
        ("-0.05", "-0.05"),
        ("100000000000000000000.1 + 0.2", "100000000000000000000.3"),
    ],
)
def test_a_value(expression: str, value: str) -> None:
    assert calculate(expression) == value


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("9**9**9", "too large"),
        ("10**10**10", "too large"),
        ("2**100000", "too large"),
        ("1.5**99999", "too large"),
        ("(10**1000) * (10**1000)", "too large"),
        ("10**1000 * 10**1000", "too large"),
        ("1e999999999", "too large"),
        ("1e-999999999", "too large"),
        ("factorial(100000)", "0 to 400"),
        ("factorial(-1)", "0 to 400"),
        ("round(1, 10**9)", "whole number of places"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "division by zero"),
        ("0 ** -1", "division by zero"),
        ("2 ** 0.5", "use sqrt"),
        ("sqrt(-1)", "not real"),
        ("2 ^ 3", "write ** for powers"),
        ("1,000 + 1", "write 1000"),
        ("x + 1", "'x' has no value"),
        ("exit(1)", "no function 'exit'"),
        ("sqrt()", "no function 'sqrt' with 0"),
        ("abs(1, 2)", "takes 1 to 1"),
        ("__import__('os')", "no part of arithmetic"),
        ("().__class__", "no part of arithmetic"),
        ("(1).real", "no part of arithmetic"),
        ("abs.__call__(1)", "no part of arithmetic"),
        ("min(*(1, 2))", "no part of arithmetic"),
        ("round(number=1)", "no part of arithmetic"),
        ("True + 1", "no number"),
        ("1j", "no number"),
        ("1 if 1 else 2", "no part of arithmetic"),
        ("lambda x: x", "no part of arithmetic"),
        ("not 1", "no part of arithmetic"),
        ("1 +", "no arithmetic expression"),
        ("1 2", "no arithmetic expression"),
        ("", "1 to 500"),
        ("1" * 501, "1 to 500"),
        ("+".join("1" * 200), "more than 200 parts"),
        ("-" * 60 + "1", "nested"),
        ("(" * 240 + "1" + ")" * 240, "no arithmetic expression"),
        ("1\x00", "no part of arithmetic"),
        ("١ + 1", "no part of arithmetic"),
    ],
)
def test_what_is_refused(expression: str, said: str) -> None:
    with pytest.raises(ToolFailed, match=said.replace("*", r"\*")):
        calculate(expression)


NUMBERS = st.integers(-999, 999).map(str) | st.decimals(-99, 99, places=3).map(lambda number: f"{number:f}")


@examples(200)
@given(st.lists(st.tuples(st.sampled_from("+-*"), NUMBERS), min_size=1, max_size=8))
def test_decimals_are_exact(parts: list[tuple[str, str]]) -> None:
    expected, expression = Fraction(0), "0"
    for sign, number in parts:
        value = Fraction(number)
        expected = expected + value if sign == "+" else expected - value if sign == "-" else expected * value
        expression = f"({expression}) {sign} ({number})"
    assert Fraction(calculate(expression)) == expected


@examples(300)
@given(st.text("0123456789.+-*/%()e,_ absqrtminfcole", max_size=60))
def test_any_text_is_a_value_or_a_refusal(expression: str) -> None:
    with contextlib.suppress(ToolFailed):
        assert len(calculate(expression)) < 3_000


async def test_the_tool_tells_the_model() -> None:
    call = Call(id="1", name="calculator", arguments={"expression": "9**9**9"})
    result = await call_tool(FakeToolbox(calculator), call, scope(), backoff())
    assert not result.ok
    assert result.content.endswith("which is too large.")
