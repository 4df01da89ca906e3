"""What is left at the end: the rows as people are shown them, and the raw rows underneath, read without the product."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa

from chaos.ledger import Ledger
from store.agent_steps import AgentStep, StepFilter, list_agent_steps
from store.clock import SystemClock, SystemIds
from store.database import TenantStore, open_store
from store.ids import ConversationId, SessionId
from store.messages import list_messages
from store.options import StoreOptions

_AT_ONCE = 8
_PAGE = 1000
_VERSION = "_row_created_at_version"


@dataclass(frozen=True, slots=True)
class StepRow:
    """A raw row of the journal and the table version that it came with."""

    session_id: str
    iteration: int
    epoch: int
    version: int
    lane: str = ""


@dataclass(frozen=True, slots=True)
class RecordRow:
    """A raw record: which call, the number that its stored answer carries, and the version that it came with."""

    session_id: str
    iteration: int
    key: str
    serial: int
    version: int


@dataclass(frozen=True, slots=True)
class ShownStep:
    """A step as it is shown."""

    session_id: str
    iteration: int
    epoch: int
    status: str
    action_id: str | None
    #: the texts of inputs and guidance that it read
    read: tuple[str, ...]
    #: the numbers that its model calls and its tool were answered with
    model: tuple[int, ...]
    tool: int | None


@dataclass(frozen=True, slots=True)
class ActionRow:
    """A raw row of the queue."""

    action_id: str
    kind: str
    session_id: str
    status: str
    error: str | None


@dataclass(frozen=True, slots=True)
class StateRow:
    """A raw row of `agent_state`."""

    session_id: str
    status: str
    iteration: int
    last_error: str | None


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that the checker looks at."""

    ledger: Ledger
    actions: Mapping[str, ActionRow]
    states: tuple[StateRow, ...]
    shown: tuple[ShownStep, ...]
    steps: tuple[StepRow, ...]
    records: tuple[RecordRow, ...]
    #: thread -> the ids of its messages as they are shown, in order
    threads: Mapping[str, tuple[str, ...]]
    #: session -> its thread
    thread_of: Mapping[str, str] = field(default_factory=dict)
    #: the raw rows that say from where on a lane has a new owner
    fences: tuple[StepRow, ...] = ()


async def gather(data: Path, ledger: Ledger) -> Evidence:
    """Read the store in `data`, whose processes have all ended."""
    raw = await lancedb.connect_async(str(data))
    states = await _rows(raw, "agent_state", "session_id", "status", "iteration", "last_error", "conversation_id")
    queue = await _rows(raw, "queue", "id", "kind", "session_id", "status", "error")
    steps = await _rows(raw, "agent_steps", "session_id", "iteration", "epoch", "lane", _VERSION)
    records = await _rows(raw, "records", "session_id", "iteration", "key", "kind", "result", _VERSION)
    thread_of = {row["session_id"]: row["conversation_id"] for row in states if row["conversation_id"]}
    journal = [
        StepRow(*(row[name] for name in ("session_id", "iteration", "epoch", _VERSION, "lane"))) for row in steps
    ]
    taken = tuple(row for row in journal if row.iteration >= 0)
    sessions = sorted({row["session_id"] for row in states} | {row.session_id for row in taken})
    store = await open_store(StoreOptions(str(data)), clock=SystemClock(), ids=SystemIds())
    try:
        shown = await _shown(store.tenant(), sessions)
        threads = await _threads(store.tenant(), sorted(set(thread_of.values())))
    finally:
        await store.close()
    return Evidence(
        ledger=ledger,
        actions={row["id"]: _action(row) for row in queue},
        states=tuple(StateRow(row["session_id"], row["status"], row["iteration"], row["last_error"]) for row in states),
        shown=tuple(map(_shown_step, shown)),
        steps=taken,
        records=tuple(map(_record, records)),
        threads=threads,
        thread_of=thread_of,
        fences=tuple(row for row in journal if row.iteration < 0),
    )


async def _rows(connection: lancedb.AsyncConnection, table: str, *columns: str) -> list[dict[str, Any]]:
    handle = await connection.open_table(table)
    found: pa.Table = await handle.query().select(list(columns)).to_arrow()
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


async def _shown(db: TenantStore, sessions: Iterable[str]) -> list[AgentStep]:
    turn = asyncio.Semaphore(_AT_ONCE)

    async def of(session_id: str) -> list[AgentStep]:
        async with turn:
            found: list[AgentStep] = []
            cursor: str | None = None
            while cursor is not None or not found:
                page = await list_agent_steps(
                    db, StepFilter(session_id=SessionId(session_id)), limit=_PAGE, cursor=cursor
                )
                found += page.items
                cursor = page.next_cursor
                if cursor is None:
                    return found
            return found

    return [step for steps in await asyncio.gather(*map(of, sessions)) for step in steps]


async def _threads(db: TenantStore, threads: Iterable[str]) -> dict[str, tuple[str, ...]]:
    turn = asyncio.Semaphore(_AT_ONCE)

    async def of(thread: str) -> tuple[str, tuple[str, ...]]:
        async with turn:
            page = await list_messages(db, ConversationId(thread), limit=_PAGE)
            return thread, tuple(str(message.message_id) for message in page.items)

    return dict(await asyncio.gather(*map(of, threads)))


def _action(row: dict[str, Any]) -> ActionRow:
    return ActionRow(row["id"], row["kind"], row["session_id"], row["status"], row["error"])


def _record(row: dict[str, Any]) -> RecordRow:
    result = json.loads(row["result"])
    serial = int(result["text"]) if row["kind"] == "model" else int(result)
    return RecordRow(row["session_id"], row["iteration"], row["key"], serial, row[_VERSION])


def _shown_step(step: AgentStep) -> ShownStep:
    read = step.guidance if isinstance(step.guidance, dict) else {}
    said = [str(item["text"]) for item in read.get("inputs", [])]
    guided = [str(read["guidance"])] if read.get("guidance") is not None else []
    data = step.data if isinstance(step.data, dict) else {}
    return ShownStep(
        session_id=step.session_id,
        iteration=step.iteration,
        epoch=step.epoch,
        status=step.status.value,
        action_id=step.action_id,
        read=(*said, *guided),
        model=tuple(data.get("model", ())),
        tool=data.get("tool"),
    )
