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


def beyond(columns: tuple[str, str], values: tuple[Any, Any], *, descending: bool) -> Expr:
    """Rows after `values` in the order of two columns: the condition behind a page's cursor."""
    first, second = columns
    past = below if descending else above
    return past(first, values[0]) | (equals(first, values[0]) & past(second, values[1]))


def every(*conditions: Expr | None) -> Expr | None:
    """All of the given conditions; None stands for no condition."""
    given = [condition for condition in conditions if condition is not None]
    return reduce(lambda left, right: left & right, given) if given else None
