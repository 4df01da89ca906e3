"""A session in memory: the journal folded into the present.

`apply` is the one way a step changes a session, while it runs and when the journal is read again after a crash, so
both always agree. `snapshot` is the row that `agent_state` holds.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, assert_never

from pydantic import TypeAdapter

from runtime.contract import Answer, Json, StepFrame, Wait, WaitForApproval, WaitForInput, WaitUntil
from runtime.errors import RefusedError
from runtime.guard.taint import CLEAN, Taint
from runtime.spec import SessionSpec
from runtime.statetrail import StateTrail, state_after, trail_of_row
from store.actions import Action, ActionKind, place_of
from store.agent_state import FINAL_STATUSES, AgentState, SessionStatus, refusal
from store.agent_steps import AgentStep, StepStatus, is_rollback
from store.answers import UNSAFE_CALL, expires_at
from store.ids import ActionId, AgentId, ConversationId, SessionId
from store.jsontext import safe_json_loads
from store.lanes import NO_LANE, LaneId
from store.spending import NOTHING_SPENT, OPEN_STEP, Spent, spent_of

_WAIT: TypeAdapter[Wait] = TypeAdapter(Wait)

#: the longest reason that a question gives a waiting session
_REASON_CHARS = 300
#: so many steps after a question its session says that it has asked, so that whoever looks on sees that it was closed;
#: rows are stored many times a second, so one of them is among these
_TOLD_STEPS = 1_000


@dataclass(frozen=True, slots=True)
class Guidance:
    """An accepted interrupt that no step has read yet."""

    action_id: ActionId
    value: Any
    #: how many sessions have passed it on, one asked by another
    hops: int = 0
    #: where text from outside in it came from
    taint: Taint = CLEAN


@dataclass(frozen=True, slots=True)
class Tries:
    """How often a step was tried without an end. `failed_seq` is the number of the last failed try's last event."""

    iteration: int
    count: int
    failed_seq: int = 0
    #: how often the worker was lost while the step ran
    losses: int = 0


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
    #: how `context` is stored from step to step
    trail: StateTrail = field(default_factory=StateTrail)
    guidance: list[Guidance] = field(default_factory=list)
    turn: ActionId | None = None
    wait: Wait | None = None
    last_error: str | None = None
    usage: Json = field(default_factory=dict)
    #: the message-table version up to which a pulling session has read
    pulled_to: int | None = None
    lane: LaneId = field(default=NO_LANE)
    #: the iteration at which the next step was tried first; its records begin there
    tried_from: int = 0
    tries: Tries | None = None
    #: what the last step read and the next one has to read again: it waited for a person, and never was
    again: list[Json] = field(default_factory=list)
    #: the items of the wait that a person, or the time, has answered
    answered: list[str] = field(default_factory=list)
    #: what was answered to the items of a step's own wait, by their keys: the next step reads it
    answers: Json = field(default_factory=dict)
    #: the last iteration that asked a person, for some time
    asked: int | None = None
    #: the input whose rollback is stored and which no step has read yet; it comes before every other
    due: ActionId | None = None
    #: what the step that is not stored yet has used
    open: Spent = NOTHING_SPENT
    #: the spent budget that it is paused for; a person's pause has none
    budget: Json | None = None

    @property
    def session_id(self) -> SessionId:
        return self.identity.session_id

    @property
    def spec(self) -> SessionSpec:
        return self.identity.spec

    @property
    def agent_type(self) -> str:
        """What it may do: the name under which tools are granted to it."""
        return self.spec.agent_type or self.spec.moniker

    @property
    def ended(self) -> bool:
        """Whether it does nothing more by itself."""
        return self.status in FINAL_STATUSES

    @property
    def steps(self) -> int:
        """How many steps are stored."""
        return self.iteration + 1

    @property
    def spent(self) -> Spent:
        """All that it has spent, with what its next step has used already."""
        return spent_of(self.usage).plus(self.open)

    @property
    def was_tried(self) -> bool:
        """Whether the next step was tried before, so that there are calls to read."""
        return self.tried_from < self.steps or self._tries_of_step().count > 0

    @property
    def failed_seq(self) -> int:
        """The next step's calls up to this number belong to tries that failed."""
        return self._tries_of_step().failed_seq

    @property
    def open_items(self) -> list[Json]:
        """What a person has to answer before the session goes on."""
        items = self.wait.items if isinstance(self.wait, WaitForApproval) else ()
        return [item for item in items if item.get("id") not in self.answered]

    @property
    def asks_in_step(self) -> bool:
        """Whether a step waits for a person's word in its middle: until then no step can be taken."""
        return any(item.get("in_step") or item.get("kind") == UNSAFE_CALL for item in self.open_items)

    @property
    def is_answered(self) -> bool:
        """Whether it waited for a person and every item is answered."""
        return isinstance(self.wait, WaitForApproval) and bool(self.answered) and not self.open_items

    def count_try(self, failed_seq: int | None = None) -> int:
        """Count one more try of the next step that came to no end; returns how many there were.

        Call it for a try that failed, or for one that took its worker down. It counts from one again with the step's
        row. The count is part of the session's row: store that before the step is tried again.
        """
        before = self._tries_of_step()
        seq = before.failed_seq if failed_seq is None else failed_seq
        self.tries = Tries(self.steps, before.count + 1, seq, before.losses)
        return self.tries.count

    def count_loss(self) -> int:
        """Count one more worker that was lost while the next step ran; returns how many there were.

        Store the session's row before the step is tried again: a step that ends its worker may do so at once.
        """
        before = self._tries_of_step()
        self.tries = Tries(self.steps, before.count, before.failed_seq, before.losses + 1)
        return self.tries.losses

    def _tries_of_step(self) -> Tries:
        if self.tries is not None and self.tries.iteration == self.steps:
            return self.tries
        return Tries(self.steps, 0)

    @property
    def wake_at(self) -> datetime | None:
        """The moment that ends its wait, if a moment does: its own, or the first one that answers a question."""
        if isinstance(self.wait, WaitUntil):
            return self.wait.time
        return min((ends for item in self.open_items if (ends := expires_at(item)) is not None), default=None)

    def take_answer(self, item_id: str, answer: Json) -> None:
        """Note that an open item is answered; the answer's record is stored. Another item changes nothing."""
        item = next((item for item in self.open_items if item.get("id") == item_id), None)
        if item is None:
            return
        self.answered.append(item_id)
        if not item.get("in_step"):
            self.answers[str(item.get("key"))] = answer

    def frame(self, guidance: Any, inputs: tuple[Any, ...]) -> StepFrame:
        """The frame of the next step. The moniker gets a state of its own, so that a failed step changes nothing.

        It is the state as a restart would read it: what JSON cannot hold is the same before and after a crash.
        """
        state = safe_json_loads(self.trail.text_of(self.context))
        answers = {key: Answer.model_validate(answer) for key, answer in self.answers.items()}
        return StepFrame(step=self.next_step_token, state=state, guidance=guidance, inputs=inputs, answers=answers)

    def refuse(self, kind: ActionKind) -> None:
        """Raise `RefusedError` when an action of this kind cannot be asked of the session now."""
        reason = refusal(self.session_id, self.status, kind)
        if reason is not None:
            raise RefusedError(reason)

    def enter(self, status: SessionStatus, reason: str | None, now: datetime, *, budget: Json | None = None) -> None:
        """Take a status that no step brings: a pause, be it for a spent `budget`, an end by a person or a limit."""
        self.status = status
        self.reason = reason
        self.budget = budget
        if budget is not None:  # it asks for more
            self.asked = max(self.iteration, 0)
        self._stamp(now)

    def _stamp(self, moment: datetime) -> None:
        # Clocks are set and workers differ: who compares two states of a session by this must never see it go back.
        self.updated_at = max(self.updated_at, moment)

    def apply(self, step: AgentStep) -> None:
        """Fold a committed step in. A step that was folded in before changes nothing."""
        if step.iteration <= self.iteration:
            return
        read = step.guidance or {}
        self.iteration = step.iteration
        self.step_token = step.step_token
        self.next_step_token = step.next_step_token
        self.context = state_after(self.context, step)
        self.trail.follow(step)
        self.usage = step.usage
        self.open, self.budget = NOTHING_SPENT, None
        self.last_error = step.error
        self.wait = _WAIT.validate_python(step.wait) if step.wait else None
        self.turn = read.get("turn")
        self._stamp(step.created_at)
        self.tries, self.answered, self.again, self.answers = None, [], [], {}
        self._note_asked()
        if step.text is not None:
            self.result = step.text
        if read.get("again") or step.status is StepStatus.ERROR:  # it is tried again, with the same answers
            self.answers = dict(read.get("answers", {}))
        if read.get("again"):  # it waits for a person: the step never was
            self.again = read.get("inputs", [])
        elif step.status is not StepStatus.ERROR:  # what a failed step read is read again when it is tried again
            self.tried_from = self.steps
            self._forget_what_was_read(step, read)
        if is_rollback(step):
            self.result, self.due = read.get("result"), read.get("by")
        self._take_status(step)

    def _note_asked(self) -> None:
        if isinstance(self.wait, WaitForApproval):
            self.asked = self.iteration
        elif self.asked is not None and self.iteration - self.asked > _TOLD_STEPS:
            self.asked = None

    def _forget_what_was_read(self, step: AgentStep, read: Json) -> None:
        self.pulled_to = read.get("pulled_to", self.pulled_to)
        if step.action_id == self.due:
            self.due = None
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
            inbox=self.inbox(),
            spec=self.identity.spec_row,
            last_error=self.last_error,
            usage=self.usage if self.open == NOTHING_SPENT else {**self.usage, OPEN_STEP: self.open.row()},
            wake_at=self.wake_at,
            owner=self.owner,
            epoch=self.epoch,
            created_at=self.identity.created_at,
            updated_at=self.updated_at,
            lane=self.lane,
        )

    def inbox(self) -> Json | None:
        """What its row keeps of what no step has read, of its wait and of the step in the making."""
        inbox: Json = {}
        if self.guidance or self.turn or self.wait:
            inbox = {
                "guidance": [_stored_guidance(item) for item in self.guidance],
                "turn": self.turn,
                "wait": None if self.wait is None else self.wait.model_dump(mode="json"),
            }
        if trail := self.trail.row():
            inbox["state"] = trail
        if self.tried_from < self.steps:
            inbox["tried_from"] = self.tried_from
        if self.tries is not None:
            inbox["tries"] = asdict(self.tries)
        if self.asked is not None:
            inbox["asked"] = self.asked
        rest = {
            "again": self.again,
            "answered": self.answered,
            "answers": self.answers,
            "due": self.due,
            "budget": self.budget,
        }
        return {**inbox, **{name: value for name, value in rest.items() if value}} or None


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
            questions = [str(item["question"]) for item in wait.items if item.get("question")]
            return _reason(questions[0]) if len(questions) == 1 else f"waiting for {len(wait.items)} approval(s)"
        case _:
            assert_never(wait)


def _reason(question: str) -> str:
    return question if len(question) <= _REASON_CHARS else f"{question[: _REASON_CHARS - 1]}…"


def taint_of(usage: Json) -> Taint:
    """Where the text from outside in a session's context came from, by its totals."""
    return Taint.read(usage["taint"]) if usage and "taint" in usage else CLEAN


def taint_row(taint: Taint) -> Json:
    """The part of a session's totals, of a row or of an action's metadata that `taint_of` reads."""
    return {"taint": taint.bounded()} if taint.tainted else {}


def taint_in(action: Action) -> Taint:
    """Where text from outside in an action came from: what was in the context of the session that asked for it."""
    return taint_of(action.metadata if isinstance(action.metadata, dict) else {})


def hops_of(action: Action) -> int:
    """How many sessions have passed an action on, one asked by another; 0 for what a person or a program asks."""
    about = action.metadata if isinstance(action.metadata, dict) else {}
    hops = about.get("hops", 0)
    return hops if isinstance(hops, int) else 0


def _stored_guidance(item: Guidance) -> Json:
    stored = {"action_id": item.action_id, "guidance": item.value}
    return {**stored, **({"hops": item.hops} if item.hops else {}), **taint_row(item.taint)}


def new_session(action: Action, spec: SessionSpec, first_step: str, *, owner: str, epoch: int) -> LiveSession:
    """The session that a create action asks for, before its first step."""
    if action.session_id is None or action.agent_id is None:
        raise RefusedError("agent_create needs a session_id and an agent_id")
    identity = Identity(action.agent_id, action.session_id, action.conversation_id, spec, action.created_at)
    session = LiveSession(identity, first_step, owner, epoch, action.created_at, lane=place_of(action))
    if hops := hops_of(action):
        session.usage = {"hops": hops, **taint_row(taint_in(action))}
    return session


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
        trail=trail_of_row(inbox.get("state"), row.iteration),
        guidance=[
            Guidance(item["action_id"], item["guidance"], item.get("hops", 0), taint_of(item))
            for item in inbox.get("guidance", [])
        ],
        turn=inbox.get("turn"),
        wait=_WAIT.validate_python(inbox["wait"]) if inbox.get("wait") else None,
        last_error=row.last_error,
        usage={name: value for name, value in (row.usage or {}).items() if name != OPEN_STEP},
        open=spent_of((row.usage or {}).get(OPEN_STEP)),
        budget=inbox.get("budget"),
        lane=row.place,
        tried_from=inbox.get("tried_from", row.iteration + 1),
        tries=Tries(**inbox["tries"]) if inbox.get("tries") else None,
        again=inbox.get("again", []),
        answered=inbox.get("answered", []),
        answers=inbox.get("answers", {}),
        asked=inbox.get("asked"),
        due=inbox.get("due"),
    )
