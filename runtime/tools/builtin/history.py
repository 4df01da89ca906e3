"""The tool `search_history`: what was said before, in the session's own steps and in its conversation.

It looks through the newest rows and no further; the search over everything is `GET /api/search`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from runtime.guard.taint import CLEAN, Labelled, Taint
from runtime.tools.scope import ToolScope
from runtime.tools.tool import Tool, tool
from store.agent_steps import StepFilter, list_agent_steps
from store.database import TenantStore
from store.messages import SenderType, list_messages

#: newest rows that are looked through, of each sort
MOST_ROWS = 500
_PAGE = 100
_EXCERPT = 400
_WORDS = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class _Said:
    """Something that was said, and by whom."""

    where: str
    at: datetime
    text: str
    #: another session said it, of which nobody here knows what it had read
    by_other: bool = False


def search_history_tool(db: TenantStore) -> Tool:
    """The tool over one tenant's store."""

    @tool(name="search_history", read_only=True, time_out_s=20)
    async def search_history(
        scope: ToolScope,
        query: Annotated[str, Field(min_length=1, max_length=500, description="words to look for")],
        limit: Annotated[int, Field(ge=1, le=20)] = 5,
    ) -> Any:
        """Find what was said earlier in this session and its conversation: the passages with most of the words."""
        wanted = frozenset(map(str.casefold, _WORDS.findall(query)))
        said = [*await _steps(db, scope), *await _messages(db, scope)]
        scored = [(score, one) for one in said if (score := _score(one.text, wanted)) > 0]
        best = sorted(scored, key=lambda found: (found[0], found[1].at), reverse=True)[:limit]
        taint = Taint.of("conversation") if any(one.by_other for _, one in best) else CLEAN
        return Labelled([_told(one, wanted) for _, one in best], taint)

    return search_history


async def _steps(db: TenantStore, scope: ToolScope) -> list[_Said]:
    found: list[_Said] = []
    cursor: str | None = None
    while len(found) < MOST_ROWS:
        wanted = StepFilter(scope.session_id)
        page = await list_agent_steps(db, wanted, order="desc", limit=_PAGE, cursor=cursor)
        for step in page.items:
            read = step.guidance if isinstance(step.guidance, dict) else {}
            found += (_Said(f"step {step.iteration}", step.created_at, text) for text in _texts(step.text, read))
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


def _texts(text: str | None, read: dict[str, Any]) -> Iterator[str]:
    if text:
        yield text
    if isinstance(read.get("guidance"), str):
        yield read["guidance"]
    for said in read.get("inputs", ()):
        if isinstance(said, dict) and isinstance(said.get("text"), str):
            yield said["text"]


async def _messages(db: TenantStore, scope: ToolScope) -> list[_Said]:
    if scope.conversation_id is None:
        return []
    found: list[_Said] = []
    cursor: str | None = None
    while len(found) < MOST_ROWS:
        page = await list_messages(db, scope.conversation_id, order="desc", limit=_PAGE, cursor=cursor)
        for message in page.items:
            if message.text and message.session_id != scope.session_id:
                by_other = message.sender_type is not SenderType.USER
                who = "a user" if not by_other else f"agent {message.agent_id}"
                found.append(_Said(f"conversation, {who}", message.created_at, message.text, by_other=by_other))
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


def _score(text: str, wanted: frozenset[str]) -> int:
    return len(wanted & frozenset(map(str.casefold, _WORDS.findall(text))))


def _told(said: _Said, wanted: frozenset[str]) -> dict[str, str]:
    places = [found.start() for found in _WORDS.finditer(said.text) if found[0].casefold() in wanted]
    start = max(0, (places[0] if places else 0) - _EXCERPT // 4)
    text = said.text[start : start + _EXCERPT]
    return {"where": said.where, "at": said.at.isoformat(timespec="seconds"), "text": text}
