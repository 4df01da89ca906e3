"""One search over what was said, done and remembered: messages, steps and memories.

Each table is asked for its best rows, by ids and scores alone; texts are read for the page that is shown. So a page
costs what it shows, however long the texts are. A table that does not answer in time is left out and named.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any, assert_never

from lancedb.expr import Expr

from store import filters, paging
from store.agent_state import states_of
from store.agent_steps import journal_of, steps_by_id
from store.database import TenantStore
from store.fulltext import snippet_of, words_of
from store.memories import memories_of
from store.messages import messages_of
from store.tablesearch import Scored

#: so far down the list one can page
DEPTH = 500
#: a table that took longer is left out: it is being indexed, or the disk is busy
TABLE_S = 2.0
#: hits that turn out not to be shown (rows that came too late, a step that is there as a message) are made up for
_SPARE = 20
_MAX_SESSIONS = 500


class SearchKind(StrEnum):
    """What is searched."""

    MESSAGES = "messages"
    STEPS = "steps"
    MEMORIES = "memories"


@dataclass(frozen=True, slots=True)
class Sought:
    """What to look for, and where; None means anywhere."""

    question: str
    kinds: tuple[SearchKind, ...] = tuple(SearchKind)
    conversation_id: str | None = None
    session_id: str | None = None
    agent_id: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """One result. `matches` are the places of words in `snippet`, as [start, end) in characters; both are plain."""

    kind: SearchKind
    id: str
    session_id: str | None
    conversation_id: str | None
    agent_id: str | None
    iteration: int | None
    created_at: datetime
    #: better is higher; scores of different searches, and of different tables, can be compared only roughly
    score: float
    snippet: str
    matches: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Some results, and the kinds that did not answer in time."""

    items: tuple[Found, ...] = ()
    next_cursor: str | None = None
    incomplete: tuple[SearchKind, ...] = ()


@dataclass(frozen=True, slots=True)
class _Hit:
    kind: SearchKind
    id: str
    created_at: datetime
    score: float


async def search(db: TenantStore, sought: Sought, *, limit: int = 20, cursor: str | None = None) -> SearchPage:
    """The rows that hold words of a question, by score and then the newest first.

    A step that was said in a conversation is there once, as the message. The list is made anew for each page: what is
    stored meanwhile may shift it. Raises `BadFilterError` for a limit or cursor that cannot be used.
    """
    size, words, start = paging.checked_limit(limit), words_of(sought.question), paging.offset_of(cursor)
    if not words or start >= DEPTH:
        return SearchPage()
    most = min(start + size, DEPTH) + _SPARE
    kinds = list(dict.fromkeys(sought.kinds))
    answers = await asyncio.gather(*(_in_time(db, kind, sought, words, most) for kind in kinds))
    missing = [kind for kind, hits in zip(kinds, answers, strict=True) if hits is None]
    ranked = _ranked([hit for hits in answers if hits is not None for hit in hits])
    end = min(start + size, DEPTH)
    shown = await _shown(db, ranked[start:end], words)
    following = paging.encode_cursor((end,)) if len(ranked) > end and end < DEPTH else None
    return SearchPage(tuple(shown), following, tuple(missing))


async def _in_time(
    db: TenantStore, kind: SearchKind, sought: Sought, words: Sequence[str], most: int
) -> list[_Hit] | None:
    """The best rows of one kind; None when they did not come in time."""
    try:
        async with asyncio.timeout(TABLE_S):
            return await _hits(db, kind, sought, words, most)
    except TimeoutError:
        return None


async def _hits(db: TenantStore, kind: SearchKind, sought: Sought, words: Sequence[str], most: int) -> list[_Hit]:
    named = [
        filters.equals(name, value)
        for name, value in (("session_id", sought.session_id), ("agent_id", sought.agent_id))
        if value is not None
    ]
    table: Callable[..., Awaitable[Sequence[Scored[Any]]]]
    match kind:
        case SearchKind.MESSAGES:
            key, table, more = "message_id", partial(messages_of(db).matching, words), _in_thread(sought)
        case SearchKind.STEPS:
            of_thread = await _sessions_in_thread(db, sought)
            if of_thread is not None and not of_thread:
                return []
            more = [] if of_thread is None else [filters.one_of("session_id", of_thread)]
            key, table = "id", partial(journal_of(db).matching, words)
        case SearchKind.MEMORIES:
            more = [*_in_thread(sought), filters.above("expires_at", db.clock.now())]
            key, table = "memory_id", partial(memories_of(db).matching, words)
        case _:
            assert_never(kind)
    rows = await table(*named, *more, columns=[key, "created_at"], limit=most)
    return [_Hit(kind, getattr(row.item, key), row.item.created_at, row.score) for row in rows]


def _in_thread(sought: Sought) -> list[Expr]:
    thread = sought.conversation_id
    return [] if thread is None else [filters.equals("conversation_id", thread)]


async def _sessions_in_thread(db: TenantStore, sought: Sought) -> list[str] | None:
    """The sessions of the conversation that is asked for; steps do not name theirs."""
    if sought.conversation_id is None:
        return None
    found: list[str] = (await states_of(db).values("session_id", *_in_thread(sought))).to_pylist()
    return found[:_MAX_SESSIONS]


def _ranked(hits: Sequence[_Hit]) -> list[_Hit]:
    """Each row once, best first; of a step and its message the message."""
    said = {hit.id for hit in hits if hit.kind is SearchKind.MESSAGES}
    kept = [hit for hit in hits if hit.kind is not SearchKind.STEPS or hit.id not in said]
    kept.sort(key=lambda hit: (hit.score, hit.created_at, hit.id), reverse=True)
    return list({(hit.kind, hit.id): hit for hit in reversed(kept)}.values())[::-1]


async def _shown(db: TenantStore, hits: Sequence[_Hit], words: Sequence[str]) -> list[Found]:
    """The hits with their texts. One whose text is not shown, or is another one's with its id, is left out."""
    kinds = list(dict.fromkeys(hit.kind for hit in hits))
    read = await asyncio.gather(*(_rows(db, kind, [hit.id for hit in hits if hit.kind is kind]) for kind in kinds))
    by_kind = dict(zip(kinds, read, strict=True))
    found = [_found(hit, by_kind[hit.kind].get(hit.id), words) for hit in hits]
    return [one for one in found if one is not None]


async def _rows(db: TenantStore, kind: SearchKind, ids: list[str]) -> dict[str, Any]:
    columns = ["created_at", "session_id", "agent_id", "text"]
    match kind:
        case SearchKind.MESSAGES:
            columns += ["message_id", "conversation_id", "iteration"]
            messages = await messages_of(db).find(filters.one_of("message_id", ids), columns=columns)
            return {message.message_id: message for message in messages}
        case SearchKind.STEPS:
            return {step.id: step for step in await steps_by_id(db, ids, columns=columns)}
        case SearchKind.MEMORIES:
            columns += ["memory_id", "conversation_id"]
            memories = await memories_of(db).find(filters.one_of("memory_id", ids), columns=columns)
            return {memory.memory_id: memory for memory in memories}
        case _:
            assert_never(kind)


def _found(hit: _Hit, row: Any, words: Sequence[str]) -> Found | None:
    if row is None or not row.text:
        return None
    snippet = snippet_of(row.text, words)
    if not snippet.matches:
        return None
    return Found(
        kind=hit.kind,
        id=hit.id,
        session_id=row.session_id or None,
        conversation_id=getattr(row, "conversation_id", None) or None,
        agent_id=row.agent_id or None,
        iteration=getattr(row, "iteration", None),
        created_at=row.created_at,
        score=hit.score,
        snippet=snippet.text,
        matches=snippet.matches,
    )
