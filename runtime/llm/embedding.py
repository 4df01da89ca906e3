"""Vectors of texts: sent in batches, and checked before anybody compares them."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal

from runtime.llm.port import EmbeddingReply, LlmError, LlmErrorKind, Usage

#: texts and characters of one request; endpoints take 2048 texts and some 300 000 tokens
MAX_BATCH = 128
MAX_BATCH_CHARS = 200_000


def check_vectors(vectors: Sequence[Sequence[float]], label: str, count: int, dimensions: int | None) -> None:
    """Raise `LlmError` (MALFORMED) unless these are `count` vectors of one length with numbers in them."""
    if len(vectors) != count:
        raise LlmError(LlmErrorKind.MALFORMED, f"{label}: {len(vectors)} vectors for {count} texts")
    wanted = dimensions or (len(vectors[0]) if vectors else 1)
    for place, vector in enumerate(vectors):
        if len(vector) != wanted or not wanted:
            said = (
                f"{label}: vector {place} has {len(vector)} dimensions, not {wanted}; correct models.toml or the model"
            )
            raise LlmError(LlmErrorKind.MALFORMED, said)
        if not all(map(math.isfinite, vector)) or not any(vector):
            raise LlmError(LlmErrorKind.MALFORMED, f"{label}: vector {place} is no direction: all zero, or no number")


def batches(texts: Sequence[str]) -> list[Sequence[str]]:
    """`texts` in their order, cut into requests that endpoints take; a text that is too long goes alone."""
    found: list[Sequence[str]] = []
    start = size = 0
    for place, text in enumerate(texts):
        if place > start and (place - start >= MAX_BATCH or size + len(text) > MAX_BATCH_CHARS):
            found.append(texts[start:place])
            start, size = place, 0
        size += len(text)
    return [*found, texts[start:]] if texts else []


async def in_batches(
    texts: Sequence[str], embed: Callable[[Sequence[str]], Awaitable[EmbeddingReply]], label: str
) -> EmbeddingReply:
    """One reply for all `texts`. Raises `LlmError`: BAD_REQUEST for an empty text, which endpoints refuse."""
    if blank := [place for place, text in enumerate(texts) if not text.strip()]:
        raise LlmError(LlmErrorKind.BAD_REQUEST, f"text {blank[0]} to embed is blank; leave it out")
    replies = [await embed(part) for part in batches(texts)]
    vectors = tuple(vector for reply in replies for vector in reply.vectors)
    check_vectors(vectors, label, len(texts), None)
    costs = [reply.cost for reply in replies]
    usage = Usage()
    for reply in replies:
        usage = usage.plus(reply.usage)
    return EmbeddingReply(
        vectors=vectors,
        model=replies[0].model if replies else label,
        usage=usage,
        cost=None if None in costs or not costs else sum((cost for cost in costs if cost is not None), Decimal(0)),
        attempts=tuple(attempt for reply in replies for attempt in reply.attempts),
    )
