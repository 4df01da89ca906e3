"""Rows for the tests of the store: whole objects of which a test names only what matters to it."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

from store.actions import Action, ActionKind, ActionStatus
from store.agent_state import AgentState, SessionStatus
from store.agent_steps import AgentStep, StepStatus
from store.ids import ActionId, AgentId, MemoryId, SessionId, WorkerId, step_id
from store.memories import Memory, MemoryKind
from store.messages import Message, messages_of_step
from store.records import Record
from store.testing import START
from store.workers import Worker, WorkerStatus


def a_step(session: str = "s", iteration: int = 0, **other: Any) -> AgentStep:
    """A step of a session; its time follows from its iteration."""
    step = AgentStep(
        id=step_id(SessionId(session), iteration),
        created_at=START + timedelta(seconds=min(iteration, 10**6)),
        agent_id=AgentId("agent"),
        session_id=SessionId(session),
        action_id=None,
        iteration=iteration,
        step_token="work",
        next_step_token="work",
        status=StepStatus.RUNNING,
        text=f"step {iteration}",
        data=None,
        state={"n": iteration},
        guidance=None,
        notes=None,
        wait=None,
        latency_ms=1.5,
        error=None,
        usage=None,
        epoch=1,
    )
    return dataclasses.replace(step, **other)


def a_state(session: str = "s", **other: Any) -> AgentState:
    """A session's row."""
    state = AgentState(
        agent_id=AgentId("agent"),
        session_id=SessionId(session),
        conversation_id=None,
        moniker="echo",
        status=SessionStatus.RUNNING,
        reason=None,
        iteration=-1,
        step_token=None,
        next_step_token="start",
        result=None,
        context={"large": True},
        inbox={"guidance": []},
        spec={"task": "t"},
        last_error=None,
        usage=None,
        wake_at=None,
        owner=None,
        epoch=1,
        created_at=START,
        updated_at=START,
    )
    return dataclasses.replace(state, **other)


def a_message(conversation: Any, step: AgentStep) -> Message:
    """What a step says."""
    return messages_of_step(step, conversation)[0]


def a_record(session: str = "s", seq: int = 0, **other: Any) -> Record:
    """The result of a call."""
    record = Record(
        id=f"{session}-0-{seq}",
        created_at=START,
        session_id=SessionId(session),
        iteration=0,
        event_seq=seq,
        key=f"call-{seq}",
        kind="tool",
        digest="d",
        result={"seq": seq},
        usage=None,
        latency_ms=2.0,
    )
    return dataclasses.replace(record, **other)


def a_worker(name: str = "w", **other: Any) -> Worker:
    """A running worker."""
    worker = Worker(
        worker_id=WorkerId(name),
        host="here",
        pid=1,
        epoch=1,
        status=WorkerStatus.RUNNING,
        model="offline",
        monikers=["echo"],
        started_at=START,
        heartbeat_at=START,
        heartbeat_s=2.0,
        journal_version=1,
    )
    return dataclasses.replace(worker, **other)


def an_action(kind: ActionKind = ActionKind.INPUT, **other: Any) -> Action:
    """An open action."""
    action = Action(
        id=ActionId(f"{kind.value}-action"),
        created_at=START,
        not_before=None,
        kind=kind,
        urgency=0,
        agent_id=AgentId("agent"),
        session_id=SessionId("s"),
        conversation_id=None,
        payload={},
        metadata=None,
        idempotency_key=None,
        status=ActionStatus.PENDING,
        attempts=0,
        processed=False,
        processed_at=None,
        error=None,
        owner=None,
    )
    return dataclasses.replace(action, **other)


def a_memory(name: str = "m", text: str = "The well is deep.", **other: Any) -> Memory:
    """A fact for everybody."""
    memory = Memory(
        memory_id=MemoryId(name),
        created_at=START,
        kind=MemoryKind.FACT,
        subject="",
        session_id=SessionId("s"),
        agent_id="",
        user_id="",
        conversation_id="",
        text=text,
        source="",
        data=None,
        author="test",
        taint=[],
    )
    return dataclasses.replace(memory, **other)
