"""The tool `calculator`: exact arithmetic on what a model wrote, with nothing that takes long or runs anything.

The text is parsed, never run: a walker computes the few kinds of nodes it knows with fractions of whole numbers.
Every number is bounded *before* it is computed, so `9**9**9` costs nothing.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Annotated

from pydantic import Field

from runtime.tools.errors import ToolFailed
from runtime.tools.tool import tool

MAX_CHARS = 500
MAX_NODES = 200
MAX_DEPTH = 50
#: bits of a numerator or a denominator: some 1,200 digits
MAX_BITS = 4_000
MAX_FACTORIAL = 400
#: significant digits of what cannot be written out exactly
DIGITS = 28

_LETTERS = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_ \t\r\n.,+-*/%()")
_MAX_POINT = 1_200


@tool(read_only=True, time_out_s=5, output_chars=4_000)
async def calculator(
    expression: Annotated[str, Field(description="such as (1.1 + 2.2) * 3, 2 ** 64, sqrt(2) or round(10 / 3, 2)")],
) -> str:
    """The value of an arithmetic expression, exact wherever it can be written out.

    Knows + - * / // % ** and parentheses, abs, round, floor, ceil, sqrt, min, max, gcd, factorial.
    """
    return calculate(expression)


def calculate(expression: str) -> str:
    """The value as text; a rounded one says so. Raises `ToolFailed` for what is no arithmetic or too large."""
    walker = _Walker()
    value = walker.value(_parsed(expression.strip()), 0)
    return _written(value, rounded=walker.rounded)


def _parsed(text: str) -> ast.expr:
    if not text or len(text) > MAX_CHARS:
        raise ToolFailed(f"an expression has 1 to {MAX_CHARS} characters, this one has {len(text):,}")
    for letter in text:
        if letter not in _LETTERS:
            cure = "; write ** for powers" if letter == "^" else ""
            raise ToolFailed(f"{letter!r} is no part of arithmetic{cure}")
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        where = f" near column {error.offset}" if isinstance(error, SyntaxError) else ""
        raise ToolFailed(f"this is no arithmetic expression{where}: {text!r}") from error
    if sum(1 for _ in ast.walk(tree)) > MAX_NODES:
        raise ToolFailed(f"the expression has more than {MAX_NODES} parts; compute it in several steps")
    _put_text_into(tree, text)
    return tree.body


def _put_text_into(tree: ast.Expression, text: str) -> None:
    """Give each number the text it was written as: a parsed 0.1 is no tenth any more."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            node.kind = ast.get_source_segment(text, node) or ""


@dataclass(slots=True)
class _Walker:
    """Computes nodes. `rounded` tells whether anything on the way was not exact."""

    rounded: bool = False

    def value(self, node: ast.expr, depth: int) -> Fraction:
        """The value of one node."""
        if depth > MAX_DEPTH:
            raise ToolFailed(f"the expression is nested more than {MAX_DEPTH} deep; compute it in several steps")
        return _bounded(self._computed(node, depth + 1))

    def _computed(self, node: ast.expr, depth: int) -> Fraction:
        match node:
            case ast.Constant():
                return _number(node.kind or "")
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.value(operand, depth)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.value(operand, depth)
            case ast.BinOp(left=left, op=op, right=right):
                return _combined(op, self.value(left, depth), self.value(right, depth))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                return self._called(name, [self.value(argument, depth) for argument in args])
            case ast.Tuple():
                raise ToolFailed("found a comma outside of a function; write 1000, not 1,000")
            case ast.Name(id=name):
                raise ToolFailed(f"{name!r} has no value here; write the number")
            case _:
                raise ToolFailed(f"{type(node).__name__} is no part of arithmetic; use + - * / // % ** and {_names()}")

    def _called(self, name: str, values: list[Fraction]) -> Fraction:
        if name == "sqrt" and len(values) == 1:
            return self._root(values[0])
        function, least, most = _FUNCTIONS.get(name, (None, 0, 0))
        if function is None:
            raise ToolFailed(f"there is no function {name!r} with {len(values)} values; there are {_names()}")
        if not least <= len(values) <= most:
            raise ToolFailed(f"{name} takes {least} to {most} values, found {len(values)}")
        return function(values)

    def _root(self, value: Fraction) -> Fraction:
        if value < 0:
            raise ToolFailed("the square root of a negative number is not real")
        over, under = math.isqrt(value.numerator), math.isqrt(value.denominator)
        if over * over == value.numerator and under * under == value.denominator:
            return Fraction(over, under)
        self.rounded = True
        return _rooted(value)


def _number(text: str) -> Fraction:
    plain = text.replace("_", "").lower()
    try:
        if plain.startswith(("0x", "0o", "0b")):
            return Fraction(int(plain, 0))
        power = int(plain.partition("e")[2] or 0)
        if abs(power) > _MAX_POINT:
            raise ToolFailed(f"{text} is too large or too small; a power of ten goes up to {_MAX_POINT}")
        return Fraction(plain)
    except ValueError as error:
        raise ToolFailed(f"{text or 'this'} is no number") from error


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise ToolFailed(f"a number on the way has more than {MAX_BITS * 3 // 10:,} digits, which is too large")
    return value


def _combined(op: ast.operator, left: Fraction, right: Fraction) -> Fraction:
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Pow():
            return _power(left, right)
        case ast.Div() | ast.FloorDiv() | ast.Mod():
            return _divided(op, left, right)
        case _:
            raise ToolFailed(f"{type(op).__name__} is no arithmetic here; use + - * / // % **")


def _divided(op: ast.Div | ast.FloorDiv | ast.Mod, left: Fraction, right: Fraction) -> Fraction:
    if right == 0:
        raise ToolFailed("division by zero")
    if isinstance(op, ast.Div):
        return left / right
    return Fraction(left // right) if isinstance(op, ast.FloorDiv) else left % right


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        raise ToolFailed("a power has to be a whole number; for a square root use sqrt")
    if base == 0 and exponent < 0:
        raise ToolFailed("division by zero")
    # One bit less than the length: so many the result has at least for each time the base is multiplied.
    bits = max(base.numerator.bit_length(), base.denominator.bit_length()) - 1
    if base not in (0, 1, -1) and (abs(exponent) > MAX_BITS or bits * abs(exponent) > MAX_BITS):
        raise ToolFailed(f"the power has more than {MAX_BITS * 3 // 10:,} digits, which is too large")
    if base in (0, 1, -1):
        return base ** (2 - int(exponent) % 2) if exponent else Fraction(1)
    return base ** int(exponent)


def _rooted(value: Fraction) -> Fraction:
    context = Context(prec=DIGITS + 5)
    root = context.sqrt(context.divide(Decimal(value.numerator), Decimal(value.denominator)))
    return Fraction(root)


def _factorial(values: list[Fraction]) -> Fraction:
    if values[0].denominator != 1 or not 0 <= values[0] <= MAX_FACTORIAL:
        raise ToolFailed(f"factorial takes a whole number from 0 to {MAX_FACTORIAL}")
    return Fraction(math.factorial(int(values[0])))


def _round(values: list[Fraction]) -> Fraction:
    places = values[1] if len(values) == 2 else Fraction(0)
    if places.denominator != 1 or abs(places) > _MAX_POINT:
        raise ToolFailed(f"round takes a whole number of places up to {_MAX_POINT}")
    return Fraction(round(values[0], int(places)))


def _gcd(values: list[Fraction]) -> Fraction:
    if any(value.denominator != 1 for value in values):
        raise ToolFailed("gcd takes whole numbers")
    return Fraction(math.gcd(*(int(value) for value in values)))


_Function = Callable[[list[Fraction]], Fraction]
_FUNCTIONS: Mapping[str, tuple[_Function, int, int]] = {
    "abs": (lambda values: abs(values[0]), 1, 1),
    "round": (_round, 1, 2),
    "floor": (lambda values: Fraction(math.floor(values[0])), 1, 1),
    "ceil": (lambda values: Fraction(math.ceil(values[0])), 1, 1),
    "min": (min, 1, 50),
    "max": (max, 1, 50),
    "gcd": (_gcd, 2, 50),
    "factorial": (_factorial, 1, 1),
}


def _names() -> str:
    return ", ".join(sorted([*_FUNCTIONS, "sqrt"]))


def _written(value: Fraction, *, rounded: bool) -> str:
    if not rounded:
        if value.denominator == 1:
            return str(value.numerator)
        if (exact := _decimal(value)) is not None:
            return exact
    context = Context(prec=DIGITS, rounding=ROUND_HALF_EVEN)
    near = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    return f"{near.normalize(context)} (rounded to {DIGITS} digits)"


def _decimal(value: Fraction) -> str | None:
    """The value written out, when it ends after at most 100 places."""
    scaled, places = value, 0
    while scaled.denominator != 1 and places < 100:
        scaled, places = scaled * 10, places + 1
    if scaled.denominator != 1:
        return None
    digits = str(abs(scaled.numerator)).rjust(places + 1, "0")
    return f"{'-' if value < 0 else ''}{digits[:-places]}.{digits[-places:]}"
