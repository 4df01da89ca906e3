"""Every filter that reaches LanceDB is built here, from `lancedb.expr`, which quotes its literals.

Nothing else in the project may hand a string to `where`, `update` or `delete` (tests/test_layout.py), so a value from
outside can never become part of a query's text.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import reduce
from typing import Any

from lancedb.expr import Expr, col, lit

from store.ids import TenantId
from store.jsontext import clean_text

Value = str | int | float | bool | datetime

CREATED_VERSION = "_row_created_at_version"
UPDATED_VERSION = "_row_last_updated_at_version"
#: a stale owner's change of a row that a later owner has answered for is not taken
NOT_OF_A_LOWER_EPOCH = "target.epoch is null or target.epoch <= source.epoch"
_ADDRESS = "_rowaddr"
_FRAGMENT_SHIFT = 32
ROW_ID = "_rowid"
#: a change that changes nothing: the row is written anew, elsewhere
AS_IT_IS = {"tenant": "tenant"}


def _literal(value: Value) -> Expr:
    # Text is stored clean, so it is looked for clean.
    return lit(clean_text(value) if isinstance(value, str) else value)


def of_tenant(tenant: TenantId) -> Expr:
    """Rows of one tenant; every read begins with it."""
    return col("tenant") == _literal(tenant)


def equals(column: str, value: Value) -> Expr:
    """`column` is `value`."""
    return col(column) == _literal(value)


def differs(column: str, value: Value) -> Expr:
    """`column` is something else than `value`."""
    return col(column) != _literal(value)


def one_of(column: str, values: Iterable[Value]) -> Expr:
    """`column` is one of `values` (at least one is needed)."""
    return col(column).isin([_literal(value) for value in values])


def at_least(column: str, value: Value) -> Expr:
    """`column` >= `value`."""
    return col(column) >= _literal(value)


def at_most(column: str, value: Value) -> Expr:
    """`column` <= `value`."""
    return col(column) <= _literal(value)


def above(column: str, value: Value) -> Expr:
    """`column` > `value`."""
    return col(column) > _literal(value)


def below(column: str, value: Value) -> Expr:
    """`column` < `value`."""
    return col(column) < _literal(value)


def contains(column: str, text: str) -> Expr:
    """`column` has `text` in it."""
    return col(column).contains(_literal(text))


def in_fragment(number: int) -> Expr:
    """Rows that are kept in one fragment, whatever is in them: a row's address begins with its fragment's number."""
    return at_least(_ADDRESS, number << _FRAGMENT_SHIFT) & below(_ADDRESS, (number + 1) << _FRAGMENT_SHIFT)


def in_any_fragment() -> Expr:
    """Every row."""
    return at_least(_ADDRESS, 0)


def outside_fragment(number: int) -> Expr:
    """Rows that are kept in any other fragment."""
    return below(_ADDRESS, number << _FRAGMENT_SHIFT) | at_least(_ADDRESS, (number + 1) << _FRAGMENT_SHIFT)


def beyond(columns: tuple[str, str], values: tuple[Any, Any], *, descending: bool) -> Expr:
    """Rows after `values` in the order of two columns: the condition behind a page's cursor."""
    first, second = columns
    past = below if descending else above
    return past(first, values[0]) | (equals(first, values[0]) & past(second, values[1]))


def each(first: Expr, *others: Expr) -> Expr:
    """All of some conditions, of which there is at least one."""
    return reduce(lambda left, right: left & right, others, first)


def either(*conditions: Expr) -> Expr:
    """At least one of the given conditions (there must be one)."""
    return reduce(lambda left, right: left | right, conditions)


def every(*conditions: Expr | None) -> Expr | None:
    """All of the given conditions; None stands for no condition."""
    given = [condition for condition in conditions if condition is not None]
    return reduce(lambda left, right: left & right, given) if given else None
