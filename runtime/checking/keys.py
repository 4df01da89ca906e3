"""Rows of all tables: those that cannot be understood, and keys that are there twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from typing import Any

from runtime.checking.finding import Finding, FindingKind, Level
from runtime.checking.image import Image
from store import (
    actions,
    agent_events,
    agent_state,
    agent_steps,
    agents,
    conversations,
    filters,
    messages,
    records,
    session_cursors,
)
from store.audit import Unreadable, audit
from store.codec import RowCodec
from store.database import TenantStore
from store.schema import TableSpec, WriteMode
from store.scope import Versioned

CODECS: tuple[RowCodec[Any], ...] = (
    actions.CODEC,
    agents.CODEC,
    agent_state.CODEC,
    records.CODEC,
    agent_events.CODEC,
    conversations.CODEC,
    conversations.PARTICIPANT_CODEC,
    messages.CODEC,
    session_cursors.CODEC,
)


async def check_rows(db: TenantStore) -> AsyncIterator[Finding]:
    """The faults of every table but the journal, which is read session by session."""
    for codec in CODECS:
        found = await audit(db, codec)
        for bad in found.unreadable:
            yield unreadable(bad)
        if codec is not agents.CODEC:  # two sessions of a new agent that begin at once may both store its first version
            for fault in doubled(db, codec, found.rows):
                yield fault


def check_steps(db: TenantStore, image: Image, steps: Sequence[Versioned[agent_steps.AgentStep]]) -> Iterator[Finding]:
    """Steps that are there twice; a row behind a fence is not shown and is no repeat."""
    shown = [row for row in steps if image.shows(row.item.lane, row.item.epoch, row.version)]
    return doubled(db, agent_steps.CODEC, shown)


def unreadable(bad: Unreadable) -> Finding:
    """The fault of one row."""
    return Finding(
        FindingKind.UNREADABLE,
        Level.LOST,
        bad.table,
        bad.key,
        bad.problem,
        "start the version that wrote it, or restore the row from an export; delete it only if you can do without",
    )


def doubled(db: TenantStore, codec: RowCodec[Any], rows: Sequence[Versioned[Any]]) -> Iterator[Finding]:
    """The keys that are there more than once."""
    by_key: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    for row in rows:
        by_key[tuple(getattr(row.item, name) for name in codec.spec.key[1:])].append(row.version)
    for key, versions in by_key.items():
        if len(versions) > 1:
            yield _doubled(db, codec, key, sorted(versions))


def _doubled(db: TenantStore, codec: RowCodec[Any], key: tuple[Any, ...], versions: list[int]) -> Finding:
    append = codec.spec.mode is WriteMode.APPEND
    kept = versions[0] if append else versions[-1]
    only_one = versions.count(kept) == 1
    return Finding(
        FindingKind.DOUBLED,
        Level.HARMLESS if append else Level.WRONG,
        codec.spec.name,
        "/".join(map(str, key)),
        f"the row is there {len(versions)} times (versions {', '.join(map(str, versions))})",
        f"delete all but the {'first' if append else 'newest'} one"
        if only_one
        else "both came in one commit; compare them in an export and delete the wrong one by hand",
        partial(_delete_others, db, codec, key, kept) if only_one else None,
    )


async def _delete_others(db: TenantStore, codec: RowCodec[Any], key: tuple[Any, ...], kept: int) -> str:
    same = [filters.equals(name, value) for name, value in zip(_names(codec.spec), key, strict=True)]
    deleted = await db.table(codec).delete(*same, filters.differs(filters.CREATED_VERSION, kept))
    return f"deleted {deleted} of them, kept that of version {kept}"


def _names(spec: TableSpec) -> tuple[str, ...]:
    return spec.key[1:]
