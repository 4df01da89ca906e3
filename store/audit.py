"""Reads a table without trusting it: rows that cannot be understood are named instead of failing the read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson
from lancedb.expr import Expr

from store import filters
from store.codec import RowCodec
from store.database import TenantStore
from store.errors import BadRowError
from store.scope import Versioned

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A row that cannot be understood."""

    table: str
    #: the table's key of the row, as text
    key: str
    session_id: str | None
    problem: str


@dataclass(frozen=True, slots=True)
class Audit(Generic[T]):
    """What was read: the rows with the version that created each, and what could not be read."""

    rows: list[Versioned[T]]
    unreadable: list[Unreadable]


async def audit(
    db: TenantStore, codec: RowCodec[T], *conditions: Expr | None, columns: Sequence[str] | None = None
) -> Audit[T]:
    """The tenant's rows that meet every condition; columns that were not asked for are None and not looked at."""
    names = [*(columns or codec.spec.schema.names), filters.CREATED_VERSION]
    where = filters.every(filters.of_tenant(db.tenant), *conditions)
    found = await db.store.tables[codec.spec.name].read(where, columns=names)
    result: Audit[T] = Audit([], [])
    for row in found.to_pylist():
        try:
            _check(codec, row)
            result.rows.append(Versioned(row[filters.CREATED_VERSION], codec.decode(row)))
        except BadRowError as error:
            key = "/".join(str(row.get(name)) for name in codec.spec.key[1:])
            result.unreadable.append(Unreadable(codec.spec.name, key, row.get("session_id"), str(error)))
    return result


def _check(codec: RowCodec[T], row: dict[str, Any]) -> None:
    for name in codec.spec.key:
        if name in row and row[name] is None:
            raise BadRowError(f"its {name} is missing")
    for name in codec.json & row.keys():
        try:
            orjson.loads("null" if row[name] is None else row[name])
        except orjson.JSONDecodeError as error:
            raise BadRowError(f"its {name} is not JSON ({error})") from None
