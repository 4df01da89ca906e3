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
    #: its rows carry the epoch of their owner, and a change of a lower epoch than the row's is not taken
    guarded: bool = False
    #: the column that a full-text index is kept of
    searched: str | None = None
    #: what is deleted must be gone from the disk, not only from sight (store/erasure.py)
    erases: bool = False


def _table(
    name: str,
    mode: WriteMode,
    key: tuple[str, ...],
    indexed: tuple[str, ...],
    /,
    *,
    guarded: bool = False,
    searched: str | None = None,
    erases: bool = False,
    **columns: pa.DataType,
) -> TableSpec:
    fields = [pa.field("tenant", _STRING), *(pa.field(column, kind) for column, kind in columns.items())]
    return TableSpec(name, pa.schema(fields), mode, ("tenant", *key), indexed, guarded, searched, erases)


QUEUE = _table(
    "queue",
    WriteMode.UPSERT,
    ("id",),
    ("id", "session_id", "idempotency_key"),
    guarded=True,
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
    lane=_STRING,
    epoch=_INT,
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
    guarded=True,
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
    lane=_STRING,
)

AGENT_STEPS = _table(
    "agent_steps",
    WriteMode.APPEND,
    ("id",),
    ("id", "session_id", "agent_id"),
    searched="text",
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
    lane=_STRING,
    changes=_STRING,
    base=_INT,
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
    epoch=_INT,
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
    epoch=_INT,
    lane=_STRING,
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
    searched="text",
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
    WriteMode.UPSERT,
    ("trace_id", "session_id"),
    ("trace_id", "session_id"),
    guarded=True,
    trace_id=_STRING,
    session_id=_STRING,
    conversation_id=_STRING,
    status=_STRING,
    spans=_STRING,
    usage=_STRING,
    started_at=_TIME,
    ended_at=_TIME,
    action_id=_STRING,
    agent_id=_STRING,
    kind=_STRING,
    error=_STRING,
    wait_ms=_FLOAT,
    duration_ms=_FLOAT,
    steps=_INT,
    left_out=_INT,
    calls=_INT,
    input_tokens=_INT,
    output_tokens=_INT,
    cost=_FLOAT,
    epoch=_INT,
)

FOLLOWERS = _table(
    "followers",
    WriteMode.UPSERT,
    ("name",),
    (),
    guarded=True,
    name=_STRING,
    versions=_STRING,
    updated_at=_TIME,
    epoch=_INT,
)

#: LanceDB compares vectors of a fixed length only: one of n numbers is kept in the narrowest of these, filled up with
#: zeros, which changes no angle. Columns that a store does not use hold nulls, which take no room.
VECTOR_WIDTHS = (256, 768, 1536, 3072)

MEMORIES = _table(
    "memories",
    WriteMode.UPSERT,
    ("memory_id",),
    ("memory_id", "session_id", "agent_id", "user_id", "conversation_id"),
    searched="text",
    erases=True,
    memory_id=_STRING,
    created_at=_TIME,
    kind=_STRING,
    subject=_STRING,
    session_id=_STRING,
    agent_id=_STRING,
    user_id=_STRING,
    conversation_id=_STRING,
    text=_STRING,
    source=_STRING,
    data=_STRING,
    author=_STRING,
    taint=_STRING,
    expires_at=_TIME,
    vector_model=_STRING,
    **{f"vector_{width}": pa.list_(pa.float32(), width) for width in VECTOR_WIDTHS},
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
    timezone=_STRING,
    agent_id=_STRING,
    session_id=_STRING,
    last_action_id=_STRING,
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
    beats=_INT,
    lease_s=_FLOAT,
)

BUDGETS = _table(
    "budgets",
    WriteMode.APPEND,
    ("id",),
    ("scope",),
    id=_STRING,
    scope=_STRING,
    limits=_STRING,
    updated_at=_TIME,
    updated_by=_STRING,
)

LEASES = _table(
    "leases",
    WriteMode.UPSERT,
    ("lane",),
    (),
    lane=_STRING,
    owner=_STRING,
    epoch=_INT,
    status=_STRING,
    watermark=_INT,
    updated_at=_TIME,
)

TOOL_PINS = _table(
    "tool_pins",
    WriteMode.UPSERT,
    ("tool",),
    (),
    tool=_STRING,
    server=_STRING,
    remote=_STRING,
    hash=_STRING,
    description=_STRING,
    parameters=_STRING,
    seen_at=_TIME,
    approved_hash=_STRING,
    approved_at=_TIME,
    approved_by=_STRING,
    approved_description=_STRING,
    approved_parameters=_STRING,
    withdrawn_at=_TIME,
    withdrawn_by=_STRING,
)

COPILOT_AGENTS = _table(
    "copilot_agents",
    WriteMode.APPEND,
    ("id",),
    ("agent_set",),
    id=_STRING,
    agent_set=_STRING,
    agent_id=_STRING,
    version=_INT,
    definition=_STRING,
    note=_STRING,
    saved_by=_STRING,
    saved_at=_TIME,
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
    FOLLOWERS,
    MEMORIES,
    TASKS,
    SCHEDULES,
    WORKERS,
    LEASES,
    TOOL_PINS,
    BUDGETS,
    COPILOT_AGENTS,
)
