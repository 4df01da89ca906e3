"""What can be asked of agents and their sessions: each function stores one action of its kind.

When one returns, the action will be carried out; what a crash or a race before that leaves behind is told in
store/enqueueing.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypedDict, Unpack

from store.actions import DEFAULT_URGENCY, Action, ActionKind, ApprovalDecision, WhenBusy, find_create
from store.database import TenantStore
from store.enqueueing import NewAction, enqueue, enqueue_together, find_earlier
from store.errors import BadFilterError, ConflictError
from store.ids import AgentId, ConversationId, SessionId


@dataclass(frozen=True, slots=True)
class FirstInput:
    """What is said to a session in the same breath in which it is asked for."""

    text: str
    data: Mapping[str, Any] | None = None


class Target(TypedDict, total=False):
    """Whom a request is about: a session, or an agent, which means its latest session. One of the two is needed."""

    agent_id: AgentId | None
    session_id: SessionId | None
    #: where the caller knows it; else it is looked up
    lane: str


class About(Target, total=False):
    """What every message to a session may carry; what is left out is as in `NewAction`."""

    conversation_id: ConversationId | None
    metadata: Mapping[str, Any] | None
    #: the same key gives the first action back
    idempotency_key: str | None
    urgency: int
    not_before: datetime | None


async def agent_create(
    db: TenantStore,
    *,
    moniker: str,
    agent_id: AgentId | None = None,
    session_id: SessionId | None = None,
    conversation_id: ConversationId | None = None,
    spec: Mapping[str, Any],
    idempotency_key: str | None = None,
    urgency: int = DEFAULT_URGENCY,
    not_before: datetime | None = None,
) -> Action:
    """Ask for a new session of `moniker`. `spec` is what `agent_state.spec` will hold (task, config, limits).

    Raises `ConflictError` when `session_id` is already in use; the same idempotency key gives the first action back.
    """
    return await _begin_session(
        db,
        NewAction(
            kind=ActionKind.CREATE,
            agent_id=agent_id or AgentId(moniker),
            session_id=session_id,
            conversation_id=conversation_id,
            payload={"moniker": moniker, **spec, **({"urgency": urgency} if urgency else {})},
            idempotency_key=idempotency_key,
            urgency=urgency,
            not_before=not_before,
        ),
    )


async def agent_fork(
    db: TenantStore,
    *,
    source_id: SessionId,
    iteration: int,
    agent_id: AgentId,
    session_id: SessionId | None = None,
    conversation_id: ConversationId | None = None,
    spec: Mapping[str, Any],
    first_input: FirstInput | None = None,
    idempotency_key: str | None = None,
) -> Action:
    """Ask for a new session that begins with what session `source_id` had after `iteration`.

    `spec` is what the new session is created with, its moniker included. `first_input` is asked for in the same commit:
    the new session is not there without it. Raises `ConflictError` as `agent_create` does.
    """
    origin = {"session_id": source_id, "iteration": iteration}
    return await _begin_session(
        db,
        NewAction(
            kind=ActionKind.FORK,
            agent_id=agent_id,
            session_id=session_id,
            conversation_id=conversation_id,
            payload={**spec, "forked_from": origin},
            idempotency_key=idempotency_key,
        ),
        first_input,
    )


async def _begin_session(db: TenantStore, new: NewAction, first_input: FirstInput | None = None) -> Action:
    if (earlier := await find_earlier(db, new.idempotency_key, new.kind)) is not None:
        return earlier
    if new.session_id is not None and await find_create(db, new.session_id) is not None:
        raise ConflictError(f"session_id {new.session_id!r} is already in use; leave it out to get a new one")
    create = replace(new, session_id=new.session_id or SessionId(db.ids.new()))
    if first_input is None:
        return await enqueue(db, create)
    said = {"text": first_input.text, "data": first_input.data}
    about: Target = {"agent_id": create.agent_id, "session_id": create.session_id}
    return await enqueue_together(db, create, NewAction(ActionKind.INPUT, payload=said, **about))


async def agent_input(
    db: TenantStore,
    *,
    text: str,
    data: Mapping[str, Any] | None = None,
    when_busy: WhenBusy = WhenBusy.ENQUEUE,
    **about: Unpack[About],
) -> Action:
    """Say something to a session: it begins a turn when the session gets to it.

    `when_busy` is decided by the worker, in the session's order; see docs/when-busy.md. Raises `BadFilterError` when
    neither a session nor an agent is named.
    """
    asked = {} if when_busy is WhenBusy.ENQUEUE else {"when_busy": when_busy}
    return await _ask(db, ActionKind.INPUT, {"text": text, "data": data, **asked}, **about)


async def agent_interrupt(db: TenantStore, *, guidance: Any, **about: Unpack[About]) -> Action:
    """Guide a session: its next step reads `guidance`. Raises as `agent_input` does."""
    return await _ask(db, ActionKind.INTERRUPT, {"guidance": guidance}, **about)


async def agent_pause_action(db: TenantStore, **target: Unpack[Target]) -> Action:
    """Ask a session to stop after its running step. Raises as `agent_input` does."""
    return await _ask(db, ActionKind.PAUSE, {}, **target)


async def agent_resume_action(db: TenantStore, **target: Unpack[Target]) -> Action:
    """Ask a paused session to go on. Raises as `agent_input` does."""
    return await _ask(db, ActionKind.RESUME, {}, **target)


async def agent_destroy_action(db: TenantStore, **target: Unpack[Target]) -> Action:
    """Ask a session to end; a running step has a grace, then it is cancelled. Raises as `agent_input` does."""
    return await _ask(db, ActionKind.DESTROY, {}, **target)


async def approval_action(
    db: TenantStore,
    approval_id: str,
    decision: ApprovalDecision,
    *,
    result: Any = None,
    value: Any = None,
    feedback: str | None = None,
    by: str | None = None,
    digest: str | None = None,
    agent_id: AgentId | None = None,
    session_id: SessionId,
    idempotency_key: str | None = None,
) -> Action:
    """Answer a session's question. The worker refuses an answer that does not fit it, and a second one.

    `digest` is of the question as it was shown: the answer counts for that one and for no other.
    """
    more = {"value": value, "feedback": feedback, "by": by, "digest": digest}
    answer = {"approval_id": approval_id, "decision": decision, "result": result}
    answer |= {name: given for name, given in more.items() if given is not None}
    return await _ask(
        db, ActionKind.APPROVAL, answer, agent_id=agent_id, session_id=session_id, idempotency_key=idempotency_key
    )


async def _ask(db: TenantStore, kind: ActionKind, payload: Mapping[str, Any], **about: Unpack[About]) -> Action:
    if about.get("agent_id") is None and about.get("session_id") is None:
        raise BadFilterError(f"{kind.value} needs a session_id or an agent_id")
    return await enqueue(db, NewAction(kind, payload=payload, **about))
