"""Searching a table: by its words, by nearness of vectors, and by both at once.

Every search takes a condition, and rows that do not meet it are left out *before* the best ones are picked: another
tenant's row neither shows nor takes a place (S29, S41). Rows that no index covers yet are searched one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import pyarrow as pa
from lancedb.expr import Expr
from lancedb.query import FullTextQuery, MatchQuery
from lancedb.rerankers import RRFReranker
from lancedb.table import AsyncTable

from store.table import Table

T = TypeVar("T")

#: the column that a search adds; higher is better, and scores of different searches cannot be compared
SCORE = "_score"
_DISTANCE, _RELEVANCE, _ROW_ID = "_distance", "_relevance_score", "_rowid"


@dataclass(frozen=True, slots=True)
class Scored(Generic[T]):
    """Something that was found, and how well it fits."""

    item: T
    score: float


@dataclass(frozen=True, slots=True)
class Near:
    """Rows whose vector in `column` points where `vector` does, among those that are `comparable` with it."""

    column: str
    vector: Sequence[float]
    comparable: Expr


async def matching(table: Table, words: Sequence[str], where: Expr, *, columns: Sequence[str], limit: int) -> pa.Table:
    """The rows in which most and the rarest of `words` stand, best first, with `SCORE` (BM25)."""
    column = table.spec.searched or ""
    # Its defaults are invisible to the type checker: any of the words will do, each exactly as it is.
    query: FullTextQuery = MatchQuery(" ".join(words), column)  # type: ignore[call-arg]

    async def question(handle: AsyncTable) -> pa.Table:
        found = handle.query().nearest_to_text(query).where(where).select([*columns, SCORE])
        return await found.limit(limit).with_row_id().to_arrow()

    return await table.ask(question)


async def nearest(table: Table, near: Near, where: Expr, *, columns: Sequence[str], limit: int) -> pa.Table:
    """The rows with the nearest vectors by cosine, nearest first."""

    async def question(handle: AsyncTable) -> pa.Table:
        found = handle.query().nearest_to(list(near.vector)).column(near.column).distance_type("cosine")
        found = found.where(where & near.comparable).select([*columns, _DISTANCE])
        return await found.limit(limit).with_row_id().to_arrow()

    return await table.ask(question)


async def alike(
    table: Table, words: Sequence[str], near: Near, where: Expr, *, columns: Sequence[str], limit: int
) -> pa.Table:
    """Both searches, their ranks joined by LanceDB's reciprocal rank fusion; `SCORE` is that of the fusion.

    LanceDB's own hybrid query has one condition for both halves; here the words are looked for in all rows, also in
    those whose vectors cannot be compared.
    """
    by_words, by_vector = await asyncio.gather(
        matching(table, words, where, columns=columns, limit=limit),
        nearest(table, near, where, columns=columns, limit=limit),
    )
    kept = [*columns, _ROW_ID]
    found = RRFReranker().rerank_hybrid("", by_vector.select(kept), by_words.select(kept))
    return found.slice(0, limit).rename_columns({_RELEVANCE: SCORE})
