"""Memories: what agents keep beyond a session. Episodes, facts and terms, each bound to whom it is for.

A memory is bound in up to three directions: to a user, an agent, a conversation. Invariant: **whoever is in a place
sees what is bound to that place or to less, and nothing else**; the condition stands in front of every search, so rows
of others take no part in it. `""` binds to nobody in particular.

Crash before a write: nothing. After: the row is there, once, for it is stored by its id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from lancedb.expr import Expr

from store import filters, paging
from store.codec import RowCodec
from store.database import TenantStore
from store.errors import BadRowError, NotFoundError
from store.fulltext import words_of
from store.ids import MemoryId, SessionId, step_id
from store.jsontext import json_dumps
from store.paging import Page
from store.schema import MEMORIES, VECTOR_WIDTHS
from store.scope import ScopedTable
from store.tablesearch import Near, Scored

MAX_TEXT_CHARS = 100_000
#: so far down the list that answers a question one can page
DEPTH = 500
_MAX_NAMED = 500
_DIGEST_CHARS = 24
#: the end of what does not expire; a condition over it needs no word for null
NEVER = datetime(9999, 1, 1, tzinfo=UTC)


class MemoryKind(StrEnum):
    """What is remembered."""

    EPISODE = "episode"  # something that happened
    FACT = "fact"  # something that holds
    TERM = "term"  # what a word means here


@dataclass(frozen=True, slots=True)
class MemoryVector:
    """Where a text lies among texts, by one model. Vectors of different models are never compared."""

    model: str
    numbers: tuple[float, ...]

    @property
    def width(self) -> int | None:
        """The width of the column that holds it; None for more numbers than any column takes."""
        return next((width for width in VECTOR_WIDTHS if len(self.numbers) <= width), None)

    @property
    def name(self) -> str:
        """What rows are compared by: vectors of one model but of another length are of another kind."""
        return f"{self.model}/{len(self.numbers)}"

    def padded(self, width: int) -> list[float]:
        """The numbers, filled up with zeros."""
        return [*self.numbers, *([0.0] * (width - len(self.numbers)))]


@dataclass(frozen=True, slots=True)
class Memory:
    """A row of the memory."""

    memory_id: MemoryId
    created_at: datetime
    kind: MemoryKind
    #: what or whom it is about; of a term: the term
    subject: str
    #: the session that wrote it
    session_id: SessionId
    #: whom it is for; "" for anybody
    agent_id: str
    user_id: str
    conversation_id: str
    text: str
    #: where it was learnt: a document, an address, a tool
    source: str
    data: Any
    #: who wrote it: a moniker's name, a user
    author: str
    #: where the untrusted parts of it came from, a list of sources; [] is clean (SECURITY S40)
    taint: Any
    #: it is not found any more from then on
    expires_at: datetime = NEVER
    vector_model: str = ""
    vector_256: Any = None
    vector_768: Any = None
    vector_1536: Any = None
    vector_3072: Any = None


@dataclass(frozen=True, slots=True)
class Allowed:
    """Whose memories may be seen: those bound to nobody else, in each of three directions. `""` is nobody."""

    agent_id: str = ""
    user_id: str = ""
    conversation_id: str = ""

    def sees(self, memory: Memory) -> bool:
        """The law in plain words; `condition` says the same to the database."""
        return all(getattr(memory, name) in ("", getattr(self, name)) for name in _BINDINGS)

    def condition(self) -> Expr:
        """Rows that may be seen."""
        return filters.each(*(filters.one_of(name, sorted({"", getattr(self, name)})) for name in _BINDINGS))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to look for, among what is allowed. Empty means any; `allowed` None is the operator's: the whole tenant."""

    allowed: Allowed | None
    kinds: tuple[MemoryKind, ...] = ()
    subject: str = ""
    agent_id: str = ""
    user_id: str = ""
    session_id: str = ""
    conversation_id: str = ""
    #: where it was learnt; also those that were made from it
    source: str = ""


CODEC: RowCodec[Memory] = RowCodec(Memory, MEMORIES, json=frozenset({"data", "taint"}), enums={"kind": MemoryKind})
_BINDINGS = ("agent_id", "user_id", "conversation_id")
_NAMED = ("subject", "source", "session_id", *_BINDINGS)
_VECTORS = tuple(f"vector_{width}" for width in VECTOR_WIDTHS)
#: every column but the vectors, which nobody reads
_COLUMNS = tuple(field.name for field in fields(Memory) if field.name not in _VECTORS)


def memory_id_of(session_id: SessionId, iteration: int, said: str) -> MemoryId:
    """The id of what a step keeps: the same for the same words, so that a step which is run again keeps it once.

    `said` is the call and all that it was given; it may be of any length and hold any sign.
    """
    digest = hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return MemoryId(f"{step_id(session_id, iteration)}:{digest}")


def iteration_of(memory: Memory) -> int | None:
    """The step that a memory was kept in, as its id says; None for an id that was made elsewhere."""
    if not memory.memory_id.startswith(f"{memory.session_id}:"):
        return None
    number = memory.memory_id.removeprefix(f"{memory.session_id}:").partition(":")[0]
    return int(number) if number.isascii() and number.isdecimal() else None


def memories_of(db: TenantStore) -> ScopedTable[Memory]:
    """This tenant's memories."""
    return db.table(CODEC)


async def write_memory(db: TenantStore, memory: Memory, vector: MemoryVector | None = None) -> None:
    """Store a memory, unless one with its id is there: a memory never changes.

    A vector with more numbers than any column takes is left out: the memory is found by its words. Raises
    `BadRowError` for a memory without text or with too much.
    """
    if not memory.text.strip() or len(memory.text) > MAX_TEXT_CHARS:
        raise BadRowError(f"a memory has 1 to {MAX_TEXT_CHARS:,} characters of text, this one has {len(memory.text):,}")
    width = None if vector is None else vector.width
    if vector is not None and width is not None:
        placed: dict[str, Any] = {"vector_model": vector.name, f"vector_{width}": vector.padded(width)}
        memory = replace(memory, **placed)
    await memories_of(db).insert_missing([memory])


async def get_memory(db: TenantStore, memory_id: MemoryId) -> Memory:
    """One memory, expired or not. Raises `NotFoundError`."""
    found = await memories_of(db).find(filters.equals("memory_id", memory_id), columns=_COLUMNS, limit=1)
    if not found:
        raise NotFoundError("memory", memory_id)
    return found[0]


async def list_memories(
    db: TenantStore, wanted: Wanted, *, limit: int = 100, cursor: str | None = None
) -> Page[Memory]:
    """Memories that have not expired, newest first."""
    size = paging.checked_limit(limit)
    after = None
    if cursor is not None:
        values = paging.decode_cursor(cursor, (datetime, str))
        after = filters.beyond(("created_at", "memory_id"), (values[0], values[1]), descending=True)
    order = [("created_at", True), ("memory_id", True)]
    found = await memories_of(db).find(_where(db, wanted), after, order=order, limit=size + 1, columns=_COLUMNS)
    last = found[size - 1] if len(found) > size else None
    following = None if last is None else paging.encode_cursor((last.created_at, last.memory_id))
    return Page(tuple(found[:size]), following)


async def find_memories(
    db: TenantStore, question: str, wanted: Wanted, *, limit: int = 100, cursor: str | None = None
) -> Page[Memory]:
    """Memories that hold words of a question, best first and then the newest, down to the first `DEPTH`.

    The list is made anew for each page: what is kept or deleted meanwhile may shift it.
    """
    size, words, start = paging.checked_limit(limit), words_of(question), paging.offset_of(cursor)
    columns = ["memory_id", "created_at"]
    hits = await memories_of(db).matching(words, _where(db, wanted), columns=columns, limit=DEPTH)
    hits.sort(key=lambda hit: (hit.score, hit.item.created_at, hit.item.memory_id), reverse=True)
    ids, end = [hit.item.memory_id for hit in hits[start : start + size]], start + size
    rows = await memories_of(db).find(filters.one_of("memory_id", ids), columns=_COLUMNS) if ids else []
    by_id = {row.memory_id: row for row in rows}
    following = paging.encode_cursor((end,)) if len(hits) > end else None
    return Page(tuple(by_id[one] for one in ids if one in by_id), following)


async def recall_memories(
    db: TenantStore, question: str, wanted: Wanted, *, vector: MemoryVector | None = None, limit: int = 10
) -> list[Scored[Memory]]:
    """The memories that answer a question best, best first: by their words, or by words and vector together.

    With a vector the nearest are found also when they share no word with the question, so something is always found.
    `question` is a person's or a model's text; whatever it holds, it is no query language.
    """
    size, words, where = paging.checked_limit(limit), words_of(question), _where(db, wanted)
    table, width = memories_of(db), None if vector is None else vector.width
    if vector is None or width is None:
        return await table.matching(words, where, columns=_COLUMNS, limit=size)
    near = Near(f"vector_{width}", vector.padded(width), filters.equals("vector_model", vector.name))
    return await table.alike(words, near, where, columns=_COLUMNS, limit=size)


async def delete_memories(
    db: TenantStore,
    *,
    ids: Collection[str] = (),
    source: str = "",
    subject: str = "",
    user_id: str = "",
    session_id: str = "",
    agent_id: str = "",
    conversation_id: str = "",
    allowed: Allowed | None = None,
) -> int:
    """Delete the memories that meet every condition given (one at least); returns how many.

    `source` also takes those that were made from it: its name stands in their taint. They are out of sight at once,
    and off the disk after upkeep's next turns (docs/memory.md says when).
    """
    named = {"subject": subject, "source": source, "user_id": user_id, "session_id": session_id}
    conditions = _naming({**named, "agent_id": agent_id, "conversation_id": conversation_id})
    if not ids and not conditions:
        raise ValueError("a deletion without a condition would forget everything; say what to forget")
    conditions += [] if allowed is None else [allowed.condition()]
    if not ids:
        return await memories_of(db).delete(*conditions)
    listed, deleted = sorted(set(ids)), 0
    for start in range(0, len(listed), _MAX_NAMED):
        some = filters.one_of("memory_id", listed[start : start + _MAX_NAMED])
        deleted += await memories_of(db).delete(some, *conditions)
    return deleted


def _naming(named: Mapping[str, str]) -> list[Expr]:
    """What lists and deletions have in common, so that who deletes by a name deletes what the list shows for it."""
    given = {name: value for name, value in named.items() if value}
    return [_from_source(value) if name == "source" else filters.equals(name, value) for name, value in given.items()]


def _from_source(source: str) -> Expr:
    return filters.equals("source", source) | filters.contains("taint", json_dumps(source))


def _where(db: TenantStore, wanted: Wanted) -> Expr:
    conditions = _naming({name: getattr(wanted, name) for name in _NAMED})
    conditions += [filters.one_of("kind", [kind.value for kind in wanted.kinds])] if wanted.kinds else []
    conditions += [] if wanted.allowed is None else [wanted.allowed.condition()]
    return filters.each(filters.above("expires_at", db.clock.now()), *conditions)
