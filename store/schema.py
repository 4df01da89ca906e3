"""Every table: its columns, how it is written, and what it is looked up by.

`APPEND` tables only ever grow; `UPSERT` tables have rows that change and are written in batches by key.
Every table has `tenant` first. JSON columns are strings. Times are UTC microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

_STRING = pa.string()
_INT = pa.int64()
_TIME = pa.timestamp("us", tz="UTC")
_BOOL = pa.bool_()
_FLOAT = pa.float64()


class WriteMode(StrEnum):
    """How rows reach a table."""

    APPEND = "append"  # rows are never changed: upkeep needs no lock
    UPSERT = "upsert"  # rows change by key: upkeep takes turns with writers


@dataclass(frozen=True, slots=True)
class TableSpec:
    """One table's shape."""

    name: str
    schema: pa.Schema
    mode: WriteMode
    key: tuple[str, ...]
    indexed: tuple[str, ...] = ()


def _table(
    name: str, mode: WriteMode, key: tuple[str, ...], indexed: tuple[str, ...], /, **columns: pa.DataType
) -> TableSpec:
    fields = [pa.field("tenant", _STRING), *(pa.field(column, kind) for column, kind in columns.items())]
    return TableSpec(name, pa.schema(fields), mode, ("tenant", *key), indexed)


QUEUE = _table(
    "queue",
    WriteMode.UPSERT,
    ("id",),
    ("id", "session_id", "idempotency_key"),
    id=_STRING,
    created_at=_TIME,
    not_before=_TIME,
    kind=_STRING,
    urgency=_INT,
    agent_id=_STRING,
    session_id=_STRING,
    conversation_id=_STRING,
    payload=_STRING,
    metadata=_STRING,
    idempotency_key=_STRING,
    status=_STRING,
    attempts=_INT,
    processed=_BOOL,
    processed_at=_TIME,
    error=_STRING,
    owner=_STRING,
)

AGENTS = _table(
    "agents",
    WriteMode.APPEND,
    ("agent_id", "version"),
    ("agent_id",),
    agent_id=_STRING,
    moniker=_STRING,
    config=_STRING,
    version=_INT,
    created_at=_TIME,
)

AGENT_STATE = _table(
    "agent_state",
    WriteMode.UPSERT,
    ("session_id",),
    ("session_id", "agent_id", "conversation_id"),
    agent_id=_STRING,
    session_id=_STRING,
    conversation_id=_STRING,
    moniker=_STRING,
    status=_STRING,
    reason=_STRING,
    iteration=_INT,
    step_token=_STRING,
    next_step_token=_STRING,
    result=_STRING,
    context=_STRING,
    inbox=_STRING,
    spec=_STRING,
    last_error=_STRING,
    usage=_STRING,
    wake_at=_TIME,
    owner=_STRING,
    epoch=_INT,
    created_at=_TIME,
    updated_at=_TIME,
)

AGENT_STEPS = _table(
    "agent_steps",
    WriteMode.APPEND,
    ("id",),
    ("id", "session_id", "agent_id"),
    id=_STRING,
    created_at=_TIME,
    agent_id=_STRING,
    session_id=_STRING,
    action_id=_STRING,
    iteration=_INT,
    step_token=_STRING,
    next_step_token=_STRING,
    status=_STRING,
    text=_STRING,
    data=_STRING,
    state=_STRING,
    guidance=_STRING,
    notes=_STRING,
    wait=_STRING,
    latency_ms=_FLOAT,
    error=_STRING,
    usage=_STRING,
    epoch=_INT,
)

RECORDS = _table(
    "records",
    WriteMode.APPEND,
    ("id",),
    ("session_id",),
    id=_STRING,
    created_at=_TIME,
    session_id=_STRING,
    iteration=_INT,
    event_seq=_INT,
    key=_STRING,
    kind=_STRING,
    digest=_STRING,
    result=_STRING,
    usage=_STRING,
    latency_ms=_FLOAT,
)

AGENT_EVENTS = _table(
    "agent_events",
    WriteMode.APPEND,
    ("id",),
    ("session_id",),
    id=_STRING,
    created_at=_TIME,
    session_id=_STRING,
    iteration=_INT,
    event_seq=_INT,
    kind=_STRING,
    data=_STRING,
)

CONVERSATIONS = _table(
    "conversations",
    WriteMode.UPSERT,
    ("conversation_id",),
    ("conversation_id",),
    conversation_id=_STRING,
    title=_STRING,
    created_by=_STRING,
    status=_STRING,
    tags=_STRING,
    created_at=_TIME,
)

PARTICIPANTS = _table(
    "conversation_participants",
    WriteMode.UPSERT,
    ("participant_id",),
    ("conversation_id", "session_id"),
    participant_id=_STRING,
    conversation_id=_STRING,
    user_id=_STRING,
    agent_id=_STRING,
    session_id=_STRING,
    role=_STRING,
    delivery=_STRING,
    joined_at=_TIME,
    left_at=_TIME,
)

MESSAGES = _table(
    "conversation_messages",
    WriteMode.APPEND,
    ("message_id",),
    ("message_id", "conversation_id", "session_id"),
    message_id=_STRING,
    conversation_id=_STRING,
    created_at=_TIME,
    sender_type=_STRING,
    user_id=_STRING,
    agent_id=_STRING,
    session_id=_STRING,
    text=_STRING,
    data=_STRING,
    status=_STRING,
    event_type=_STRING,
    iteration=_INT,
    step_token=_STRING,
    next_step_token=_STRING,
    notes=_STRING,
)

SESSION_CURSORS = _table(
    "session_cursors",
    WriteMode.UPSERT,
    ("session_id", "conversation_id"),
    ("session_id",),
    session_id=_STRING,
    conversation_id=_STRING,
    message_cursor=_STRING,
    updated_at=_TIME,
)

TRACES = _table(
    "traces",
    WriteMode.APPEND,
    ("trace_id",),
    ("trace_id", "session_id"),
    trace_id=_STRING,
    session_id=_STRING,
    conversation_id=_STRING,
    status=_STRING,
    spans=_STRING,
    usage=_STRING,
    started_at=_TIME,
    ended_at=_TIME,
)

MEMORIES = _table(
    "memories",
    WriteMode.UPSERT,
    ("memory_id",),
    ("memory_id", "session_id"),
    memory_id=_STRING,
    created_at=_TIME,
    kind=_STRING,
    subject=_STRING,
    session_id=_STRING,
    agent_id=_STRING,
    user_id=_STRING,
    conversation_id=_STRING,
    text=_STRING,
    vector=pa.list_(pa.float32()),
    source=_STRING,
    data=_STRING,
)

TASKS = _table(
    "tasks",
    WriteMode.UPSERT,
    ("task_id",),
    ("task_id",),
    task_id=_STRING,
    project_id=_STRING,
    title=_STRING,
    description=_STRING,
    status=_STRING,
    assignee=_STRING,
    depends_on=_STRING,
    result=_STRING,
    created_at=_TIME,
    updated_at=_TIME,
)

SCHEDULES = _table(
    "schedules",
    WriteMode.UPSERT,
    ("schedule_id",),
    ("schedule_id",),
    schedule_id=_STRING,
    rule=_STRING,
    kind=_STRING,
    payload=_STRING,
    enabled=_BOOL,
    next_at=_TIME,
    last_at=_TIME,
    created_at=_TIME,
)

WORKERS = _table(
    "workers",
    WriteMode.UPSERT,
    ("worker_id",),
    (),
    worker_id=_STRING,
    host=_STRING,
    pid=_INT,
    epoch=_INT,
    status=_STRING,
    model=_STRING,
    monikers=_STRING,
    started_at=_TIME,
    heartbeat_at=_TIME,
    heartbeat_s=_FLOAT,
    journal_version=_INT,
)

MIGRATIONS = _table(
    "migrations",
    WriteMode.APPEND,
    ("number",),
    (),
    number=_INT,
    name=_STRING,
    applied_at=_TIME,
)

ALL_TABLES: tuple[TableSpec, ...] = (
    QUEUE,
    AGENTS,
    AGENT_STATE,
    AGENT_STEPS,
    RECORDS,
    AGENT_EVENTS,
    CONVERSATIONS,
    PARTICIPANTS,
    MESSAGES,
    SESSION_CURSORS,
    TRACES,
    MEMORIES,
    TASKS,
    SCHEDULES,
    WORKERS,
)
