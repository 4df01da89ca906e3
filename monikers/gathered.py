"""What a session's config has research look at besides documents: pages of the web, and what agents remembered.

Both are other people's words. Pages come by the tool `fetch`, under the operator's list of hosts and the session's
gates; all of them are asked for at once, so that none of them makes a question of the next. What cannot be had is an
error with a reason, never the end of the research.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from runtime.contract import Ctx, FrozenModel
from runtime.memory.port import MemoryKind
from runtime.tools.port import Call, ToolResult

MAX_SOURCES = 20
FETCH = "fetch"
_MAX_TITLE_CHARS = 300
_ERROR_STATUS = 400


class MemoryScope(FrozenModel):
    """Which memories to look through: those that the session may see, of these kinds and about this subject."""

    kinds: Annotated[tuple[MemoryKind, ...], Field(max_length=3, description="Empty for all kinds")] = ()
    subject: Annotated[str, Field(max_length=200, description="Whom or what they are about; empty for all")] = ""
    limit: Annotated[int, Field(ge=1, le=50, description="Most memories to read")] = 10


class Origin(FrozenModel):
    """Exactly one of a page and a part of the memory."""

    url: Annotated[
        str | None, Field(max_length=4_096, pattern=r"^https?://[^\s/]", description="A page that may be fetched")
    ] = None
    memory: MemoryScope | None = None
    title: Annotated[str | None, Field(min_length=1, max_length=_MAX_TITLE_CHARS)] = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.url is None) == (self.memory is None):
            raise ValueError("give either url or memory, not both and not neither")
        return self

    @property
    def name(self) -> str:
        """How it is called in plans and citations."""
        if self.title is not None:
            return self.title
        if self.memory is None:
            return (self.url or "")[:_MAX_TITLE_CHARS]
        return f"Memory: {self.memory.subject}" if self.memory.subject else "Memory"


@dataclass(frozen=True, slots=True)
class Gathered:
    """The text of an origin, or why there is none. `chars` is how long it is, with what is not shown."""

    origin: Origin
    text: str = ""
    chars: int = 0
    error: str = ""


async def gather(ctx: Ctx[Any], origins: Sequence[Origin], question: str) -> list[Gathered]:
    """What each of `origins` holds, in their order. Crash at any time: what was had is read from the step's records."""
    pages = [
        Call(id=f"source_{number}", name=FETCH, arguments={"url": origin.url})
        for number, origin in enumerate(origins, start=1)
        if origin.url is not None
    ]
    fetched = iter(await ctx.tools.call_all(pages))
    return [
        await _recalled(ctx, origin, origin.memory, question) if origin.memory else _page(origin, next(fetched))
        for origin in origins
    ]


async def _recalled(ctx: Ctx[Any], origin: Origin, scope: MemoryScope, question: str) -> Gathered:
    found = await ctx.memory.recall(question, kinds=scope.kinds, subject=scope.subject, limit=scope.limit)
    text = "\n\n".join(item.text for item in found.items)
    return _with_words(origin, text, len(text), "nothing is remembered that would answer the question")


def _page(origin: Origin, result: ToolResult) -> Gathered:
    if not result.ok:
        return Gathered(origin, error=result.content)
    told = _object_in(result.content) if result.is_json else None
    if told is None:  # a gate cut something out of it
        return _with_words(origin, result.content, len(result.content), "the page has no words")
    status, text = told.get("status"), str(told.get("text") or "")
    if isinstance(status, int) and status >= _ERROR_STATUS:
        return Gathered(origin, error=f"the server answered with status {status}")
    chars = told.get("chars")
    return _with_words(origin, text, chars if isinstance(chars, int) else len(text), "the page has no words")


def _with_words(origin: Origin, text: str, chars: int, otherwise: str) -> Gathered:
    return Gathered(origin, text, chars) if text.strip() else Gathered(origin, error=otherwise)


def _object_in(content: str) -> dict[str, Any] | None:
    try:
        told = json.loads(content)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None
