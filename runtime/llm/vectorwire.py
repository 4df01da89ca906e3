"""The answer of an endpoint that embeds, read: as many vectors as there were texts, in their order."""

from __future__ import annotations

from pydantic import BaseModel, ValidationError

from runtime.llm.embedding import check_vectors
from runtime.llm.port import EmbeddingReply, LlmError, LlmErrorKind
from runtime.llm.wire import WireUsage, error_in, first_problem


class _Vector(BaseModel):
    embedding: list[float]
    index: int | None = None


class _Vectors(BaseModel):
    data: list[_Vector]
    model: str | None = None
    usage: WireUsage | None = None


def read_vectors(body: bytes, label: str, count: int, dimensions: int | None) -> EmbeddingReply:
    """The `count` vectors in the body of a 200, in the order of the texts.

    Raises `LlmError` (MALFORMED) when there are more or fewer, one is of another length than the others or than
    `dimensions`, or holds what is no number.
    """
    try:
        found = _Vectors.model_validate_json(body)
    except ValidationError as error:
        if (said := error_in(body)) is not None:
            raise said.raised(label) from error
        raise LlmError(LlmErrorKind.MALFORMED, f"{label}: no vectors: {first_problem(error)}") from error
    rows = found.data
    if all(row.index is not None for row in rows):
        rows = sorted(rows, key=lambda row: row.index or 0)
        if [row.index for row in rows] != list(range(len(rows))):
            raise LlmError(LlmErrorKind.MALFORMED, f"{label}: the vectors are not numbered 0 to {count - 1}")
    vectors = tuple(tuple(row.embedding) for row in rows)
    check_vectors(vectors, label, count, dimensions)
    return EmbeddingReply(vectors=vectors, model=found.model or label, usage=(found.usage or WireUsage()).usage())
