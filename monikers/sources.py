"""Texts that a config names, given in place or as a file, and whether a file is still what it was."""

from __future__ import annotations

import hashlib
from typing import Annotated, Self

from pydantic import Field, model_validator

from runtime.contract import MAX_TEXT_CHARS, Files, FrozenModel, MonikerInputError

SourceText = Annotated[str, Field(max_length=MAX_TEXT_CHARS, description="The text itself")]
SourcePath = Annotated[str, Field(min_length=1, max_length=4_096, description="A file in the allowed folders")]


class Source(FrozenModel):
    """Exactly one of a text and a path."""

    text: SourceText | None = None
    path: SourcePath | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.text is None) == (self.path is None):
            raise ValueError("give either text or path, not both and not neither")
        if self.text is not None and not self.text.strip():
            raise ValueError("text is empty; give a text with words in it")
        return self


async def read_source(source: Source, files: Files) -> str:
    """The text; raises `MonikerInputError` when a file cannot be read or has no words."""
    if source.text is not None:
        return source.text
    path = source.path or ""
    text = await files.read_text(path)
    if not text.strip():
        raise MonikerInputError(f"{path}: the file is empty; there is nothing to work on")
    return text


def digest(text: str) -> str:
    """A short fingerprint by which a changed text is noticed."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def check_unchanged(text: str, before: str, source: Source) -> None:
    """Raise `MonikerInputError` when `text` is not the one whose digest is `before`."""
    if digest(text) != before:
        name = source.path or "the text"
        raise MonikerInputError(f"{name} changed while it was being read; create a new session to start over")
