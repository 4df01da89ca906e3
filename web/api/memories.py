"""Memories: what agents keep beyond a session, for people to look at and to delete."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from typing_extensions import TypedDict

from store import TenantStore
from store.erasure import ERASED_WITHIN_S
from store.errors import NotFoundError
from store.ids import MemoryId
from store.memories import (
    NEVER,
    Memory,
    MemoryKind,
    Wanted,
    delete_memories,
    find_memories,
    get_memory,
    iteration_of,
    list_memories,
)
from web.problems import refused
from web.queries import ForgetQuery, MemoriesQuery
from web.routes import Answer, Api, Many, One, Operation
from web.shapes import Json, many, time_of

#: what stands in place of a taint that cannot be read: it counts as tainted
UNKNOWN_TAINT: Final = "unknown"
_LATER: Final = (
    f"Nobody finds it any more. With a worker at work its bytes are off the disk within {ERASED_WITHIN_S} s, "
    "later where STEPWELL_KEEP_VERSIONS_S is longer; without one, after `agents.py upkeep --now`. "
    "What sessions did with it stays in their steps and records until retention deletes those."
)
_NOTHING: Final = "There was nothing to delete."


class ShownMemory(TypedDict):
    """A memory. `agent_id`, `user_id` and `conversation_id` say whom it is for; null is for anybody."""

    memory_id: str
    created_at: datetime
    kind: MemoryKind
    subject: str
    text: str
    data: Any
    user_id: str | None
    agent_id: str | None
    conversation_id: str | None
    session_id: str
    iteration: int | None
    author: str
    source: str
    taint: list[str]
    expires_at: datetime | None


class MemoriesDeleted(TypedDict):
    """What was done, and what comes later."""

    deleted: int
    named: dict[str, str]
    off_disk_within_s: int | None
    note: str


async def list_memories_page(api: Api, *, query: MemoriesQuery) -> Answer:
    """Memories that have not expired, newest first; with `q` those that hold some of its words, best first."""
    return Answer(await memories_page(api.db, query))


async def show_memory(api: Api, *, memory_id: str) -> Answer:
    """One memory, with all of its text; also one that has expired and is about to be deleted."""
    return Answer(_shape(await get_memory(api.db, MemoryId(memory_id))))


async def forget_memory(api: Api, *, memory_id: str) -> Answer:
    """Delete one memory. Asked a second time it is not there any more, which is a 404."""
    deleted = await delete_memories(api.db, ids=[memory_id])
    if not deleted:
        raise NotFoundError("memory", memory_id)
    return Answer(_deleted(deleted, {"memory_id": memory_id}))


async def forget_memories(api: Api, *, query: ForgetQuery) -> Answer:
    """Delete every memory that meets all that is named, the expired ones too.

    It deletes what the list shows for the same names. Without a name nothing is deleted and the answer is 400: there
    is no way to delete everything at once. Asked a second time it deletes what came since.
    """
    named = query.model_dump(exclude_none=True)
    if not named:
        fields = ", ".join(ForgetQuery.model_fields)
        raise refused(400, f"nothing was named and nothing deleted; name what to delete by one of {fields}")
    return Answer(_deleted(await delete_memories(api.db, **named), named))


async def memories_page(db: TenantStore, query: MemoriesQuery) -> Json:
    """A page of memories in their wire shape."""
    named = query.model_dump(exclude_none=True, exclude={"q", "kind", "limit", "cursor"})
    wanted = Wanted(None, kinds=() if query.kind is None else (query.kind,), **named)
    if query.q is None:
        page = await list_memories(db, wanted, limit=query.limit, cursor=query.cursor)
    else:
        page = await find_memories(db, query.q, wanted, limit=query.limit, cursor=query.cursor)
    return many(map(_shape, page.items), page.next_cursor)


def _shape(memory: Memory) -> Json:
    return {
        "memory_id": memory.memory_id,
        "created_at": time_of(memory.created_at),
        "kind": memory.kind.value,
        "subject": memory.subject,
        "text": memory.text,
        "data": memory.data,
        "user_id": memory.user_id or None,
        "agent_id": memory.agent_id or None,
        "conversation_id": memory.conversation_id or None,
        "session_id": memory.session_id,
        "iteration": iteration_of(memory),
        "author": memory.author,
        "source": memory.source,
        "taint": _taint(memory.taint),
        "expires_at": None if memory.expires_at >= NEVER else time_of(memory.expires_at),
    }


def _taint(stored: Any) -> list[str]:
    is_taint = isinstance(stored, list) and all(isinstance(source, str) for source in stored)
    return stored if is_taint else [UNKNOWN_TAINT]


def _deleted(count: int, named: Mapping[str, str]) -> Json:
    return {
        "deleted": count,
        "named": dict(named),
        "off_disk_within_s": ERASED_WITHIN_S if count else None,
        "note": _LATER if count else _NOTHING,
    }


OPERATIONS = (
    Operation(
        "GET",
        "/api/memories",
        list_memories_page,
        "memories",
        "List what agents remember",
        Many(ShownMemory),
        query=MemoriesQuery,
    ),
    Operation(
        "DELETE",
        "/api/memories",
        forget_memories,
        "memories",
        "Delete the memories of a user, an agent, a conversation, a session, a subject or a source",
        One(MemoriesDeleted),
        query=ForgetQuery,
    ),
    Operation(
        "GET",
        "/api/memories/{memory_id}",
        show_memory,
        "memories",
        "One memory",
        One(ShownMemory),
        problems=(404,),
    ),
    Operation(
        "DELETE",
        "/api/memories/{memory_id}",
        forget_memory,
        "memories",
        "Delete one memory",
        One(MemoriesDeleted),
        problems=(404,),
    ),
)
