"""A session in memory: the journal folded into the present.

`apply` is the one way a step changes a session, while it runs and when the journal is read again after a crash, so
both always agree. `snapshot` is the row that `agent_state` holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, assert_never

from pydantic import TypeAdapter

from runtime.contract import Json, StepFrame, Wait, WaitForApproval, WaitForInput, WaitUntil
from runtime.errors import RefusedError
from runtime.spec import SessionSpec
from store.actions import Action, ActionKind
from store.agent_state import FINAL_STATUSES, AgentState, SessionStatus, refusal
from store.agent_steps import AgentStep, StepStatus
from store.ids import ActionId, AgentId, ConversationId, SessionId
from store.jsontext import json_dumps, safe_json_loads

_WAIT: TypeAdapter[Wait] = TypeAdapter(Wait)


@dataclass(frozen=True, slots=True)
class Guidance:
    """An accepted interrupt that no step has read yet."""

    action_id: ActionId
    value: Any


@dataclass(frozen=True, slots=True)
class Identity:
    """What never changes about a session."""

    agent_id: AgentId
    session_id: SessionId
    conversation_id: ConversationId | None
    spec: SessionSpec
    created_at: datetime
    #: `spec` as it is stored; made once, the spec never changes
    spec_row: Json = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "spec_row", self.spec.model_dump(mode="json"))


@dataclass(slots=True)
class LiveSession:
    """One session's present. Changed only by its runner, its control actions, and the steps that were committed."""

    identity: Identity
    next_step_token: str
    owner: str
    epoch: int
    updated_at: datetime
    status: SessionStatus = SessionStatus.CREATED
    reason: str | None = None
    iteration: int = -1
    step_token: str | None = None
    result: Any = None
    context: Json = field(default_factory=dict)
    guidance: list[Guidance] = field(default_factory=list)
    turn: ActionId | None = None
    wait: Wait | None = None
    last_error: str | None = None
    usage: Json = field(default_factory=dict)
    #: the message-table version up to which a pulling session has read
    pulled_to: int | None = None

    @property
    def session_id(self) -> SessionId:
        return self.identity.session_id

    @property
    def spec(self) -> SessionSpec:
        return self.identity.spec

    @property
    def ended(self) -> bool:
        """Whether it does nothing more by itself."""
        return self.status in FINAL_STATUSES

    @property
    def steps(self) -> int:
        """How many steps are stored."""
        return self.iteration + 1

    @property
    def wake_at(self) -> datetime | None:
        """The moment that ends its wait, if a moment does."""
        return self.wait.time if isinstance(self.wait, WaitUntil) else None

    def frame(self, guidance: Any, inputs: tuple[Any, ...]) -> StepFrame:
        """The frame of the next step. The moniker gets a state of its own, so that a failed step changes nothing.

        It is the state as a restart would read it: what JSON cannot hold is the same before and after a crash.
        """
        state = safe_json_loads(json_dumps(self.context))
        return StepFrame(step=self.next_step_token, state=state, guidance=guidance, inputs=inputs)

    def refuse(self, kind: ActionKind) -> None:
        """Raise `RefusedError` when an action of this kind cannot be asked of the session now."""
        reason = refusal(self.session_id, self.status, kind)
        if reason is not None:
            raise RefusedError(reason)

    def enter(self, status: SessionStatus, reason: str | None, now: datetime) -> None:
        """Take a status that no step brings: a pause, an end by a person or a limit."""
        self.status = status
        self.reason = reason
        self.updated_at = now

    def apply(self, step: AgentStep) -> None:
        """Fold a committed step in. A step that was folded in before changes nothing."""
        if step.iteration <= self.iteration:
            return
        read = step.guidance or {}
        self.iteration = step.iteration
        self.step_token = step.step_token
        self.next_step_token = step.next_step_token
        self.context = step.state if isinstance(step.state, dict) else {}
        self.usage = step.usage
        self.last_error = step.error
        self.wait = _WAIT.validate_python(step.wait) if step.wait else None
        self.turn = read.get("turn")
        self.updated_at = step.created_at
        if step.text is not None:
            self.result = step.text
        if step.status is not StepStatus.ERROR:  # what a failed step read is read again when it is tried again
            self._forget_what_was_read(step, read)
        self._take_status(step)

    def _forget_what_was_read(self, step: AgentStep, read: Json) -> None:
        self.pulled_to = read.get("pulled_to", self.pulled_to)
        if self.guidance:
            self.guidance[:] = [item for item in self.guidance if item.action_id != step.action_id]

    def _take_status(self, step: AgentStep) -> None:
        match step.status:
            case StepStatus.RUNNING:
                self.status, self.reason = SessionStatus.RUNNING, None
            case StepStatus.WAITING:
                self.status, self.reason = SessionStatus.WAITING, why_waiting(self.wait)
            case StepStatus.DONE:
                self.status, self.reason = SessionStatus.DONE, "the moniker is done"
            case StepStatus.ERROR:
                self.status, self.reason = SessionStatus.ERROR, "a step failed"
            case _:
                assert_never(step.status)

    def snapshot(self) -> AgentState:
        """The session's row as it is now."""
        return AgentState(
            agent_id=self.identity.agent_id,
            session_id=self.identity.session_id,
            conversation_id=self.identity.conversation_id,
            moniker=self.spec.moniker,
            status=self.status,
            reason=self.reason,
            iteration=self.iteration,
            step_token=self.step_token,
            next_step_token=self.next_step_token,
            result=self.result,
            context=self.context,
            inbox=self._inbox(),
            spec=self.identity.spec_row,
            last_error=self.last_error,
            usage=self.usage,
            wake_at=self.wake_at,
            owner=self.owner,
            epoch=self.epoch,
            created_at=self.identity.created_at,
            updated_at=self.updated_at,
        )

    def _inbox(self) -> Json | None:
        if not (self.guidance or self.turn or self.wait):
            return None
        return {
            "guidance": [{"action_id": item.action_id, "guidance": item.value} for item in self.guidance],
            "turn": self.turn,
            "wait": None if self.wait is None else self.wait.model_dump(mode="json"),
        }


def why_waiting(wait: Wait | None) -> str:
    """The reason of a waiting session, in words."""
    match wait:
        case None:
            return "waiting"
        case WaitForInput():
            return f"waiting for input: {wait.prompt}" if wait.prompt else "waiting for input"
        case WaitUntil():
            return f"sleeping until {wait.time.isoformat(timespec='seconds')}"
        case WaitForApproval():
            return f"waiting for {len(wait.items)} approval(s)"
        case _:
            assert_never(wait)


def new_session(action: Action, spec: SessionSpec, first_step: str, *, owner: str, epoch: int) -> LiveSession:
    """The session that a create action asks for, before its first step."""
    if action.session_id is None or action.agent_id is None:
        raise RefusedError("agent_create needs a session_id and an agent_id")
    identity = Identity(action.agent_id, action.session_id, action.conversation_id, spec, action.created_at)
    return LiveSession(identity, first_step, owner, epoch, action.created_at)


def session_of_row(row: AgentState, *, owner: str, epoch: int) -> LiveSession:
    """The session that a stored row stands for, owned by this worker from now on."""
    inbox = row.inbox or {}
    spec = SessionSpec.model_validate({"moniker": row.moniker, **(row.spec or {})})
    return LiveSession(
        identity=Identity(row.agent_id, row.session_id, row.conversation_id, spec, row.created_at),
        next_step_token=row.next_step_token,
        owner=owner,
        epoch=epoch,
        updated_at=row.updated_at,
        status=row.status,
        reason=row.reason,
        iteration=row.iteration,
        step_token=row.step_token,
        result=row.result,
        context=row.context if isinstance(row.context, dict) else {},
        guidance=[Guidance(item["action_id"], item["guidance"]) for item in inbox.get("guidance", [])],
        turn=inbox.get("turn"),
        wait=_WAIT.validate_python(inbox["wait"]) if inbox.get("wait") else None,
        last_error=row.last_error,
        usage=row.usage or {},
    )
