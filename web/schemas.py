"""What a request's body may hold. A wrong type, an unknown field or a number out of range is a 422 naming the field."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from store import ApprovalDecision, Delivery, WhenBusy
from store.actions import HIGHEST_URGENCY, LOWEST_URGENCY
from store.limits import MAX_COUNT, MAX_MONEY_DIGITS
from store.timetable import MAX_CRON_CHARS, MAX_EVERY_S
from web.ids import Id, Key
from web.queries import Moment

MAX_TEXT_CHARS: Final = 500_000
MAX_TITLE_CHARS: Final = 500
MAX_FEEDBACK_CHARS: Final = 20_000
MAX_TAGS: Final = 50
MAX_STEPS: Final = 1_000_000_000
MAX_RUNTIME_S: Final = 10 * 365 * 24 * 3600.0

Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT_CHARS)]
LongText = Annotated[str, Field(max_length=MAX_TEXT_CHARS)]
JsonObject = dict[str, Any]
Urgency = Annotated[
    int, Field(ge=LOWEST_URGENCY, le=HIGHEST_URGENCY, description="what is more urgent goes before what is older")
]
NotBefore = Annotated[Moment | None, Field(description="it stays in the queue until this moment")]
HowDelivered = Annotated[Delivery, Field(strict=False)]


class Body(BaseModel):
    """The base of all bodies: frozen, strict, and without fields that nobody knows."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


_Count = Annotated[int | None, Field(ge=0, le=MAX_COUNT)]


class BudgetLimits(Body):
    """What may be spent; what is left out is not limited. At least one is needed."""

    tokens: Annotated[_Count, Field(description="input and output together")] = None
    money: Annotated[
        str | None,
        Field(
            pattern=rf"^[0-9]{{1,{MAX_MONEY_DIGITS[0]}}}(\.[0-9]{{1,{MAX_MONEY_DIGITS[1]}}})?$",
            description="in the currency of models.toml, exact",
        ),
    ] = None
    calls: Annotated[_Count, Field(description="model calls")] = None
    steps: _Count = None
    time_s: Annotated[float | None, Field(ge=0, le=MAX_COUNT, description="seconds of work")] = None
    unpriced_calls: Annotated[
        _Count, Field(description="calls of unknown price; 0 where money is limited and this is left out")
    ] = None

    @model_validator(mode="after")
    def _at_least_one(self) -> Self:
        if not self.model_dump(exclude_none=True):
            raise ValueError("name at least one limit")
        return self


class PutBudget(Body):
    """The limits of a scope, in place of those that it had."""

    limits: BudgetLimits
    updated_by: Annotated[Id | None, Field(description="who changes it, for the history")] = None


class CreateAgent(Body):
    """Start a session of a moniker."""

    moniker: Annotated[str, Field(min_length=1, max_length=200, description="a name of GET /api/monikers")]
    task: LongText | None = None
    config: JsonObject | None = None
    agent_id: Annotated[Id | None, Field(description="the moniker's name when left out")] = None
    agent_type: Annotated[
        Id | None, Field(description="the name under which tools are granted to it; the moniker's when left out")
    ] = None
    session_id: Annotated[Id | None, Field(description="a new id when left out; 409 when it is in use")] = None
    conversation_id: Id | None = None
    stop_on_done: Annotated[bool | None, Field(description="the moniker's own habit when left out")] = None
    max_steps: Annotated[int, Field(ge=1, le=MAX_STEPS)] | None = None
    max_runtime_s: Annotated[float, Field(gt=0, le=MAX_RUNTIME_S, allow_inf_nan=False)] | None = None
    max_concurrent: Annotated[
        int | None, Field(ge=1, le=1_000_000, description="at most so many sessions of the agent take a turn at a time")
    ] = None
    budget: Annotated[
        BudgetLimits | None, Field(description="what the session may spend; spent, it pauses and can be raised")
    ] = None
    delivery: Annotated[HowDelivered, Field(description="how the conversation's posts reach it")] = Delivery.PUSH
    idempotency_key: Annotated[Key | None, Field(description="the same key gives the same answer")] = None
    urgency: Urgency = 0
    not_before: NotBefore = None


class Control(Body):
    """Nothing: the address says it all."""


class Interrupt(Body):
    """Guide a session: its next step reads it."""

    guidance: Text | JsonObject
    idempotency_key: Key | None = None
    urgency: Urgency = 0
    not_before: NotBefore = None


HowBusy = Annotated[WhenBusy, Field(strict=False, description="what to do while a turn runs or inputs wait")]


class Input(Body):
    """Say something to a session: it begins a turn."""

    text: Text
    data: JsonObject | None = None
    when_busy: HowBusy = WhenBusy.ENQUEUE
    idempotency_key: Key | None = None
    urgency: Urgency = 0
    not_before: NotBefore = None


class ScheduledInput(Body):
    """What is said, and to whom: a session, or the latest one of an agent."""

    text: Text
    data: JsonObject | None = None
    agent_id: Id | None = None
    session_id: Id | None = None
    urgency: Urgency = 0

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.agent_id is None) == (self.session_id is None):
            raise ValueError("give either agent_id or session_id")
        return self


class CreateSchedule(Body):
    """Do something again and again: give `cron` or `every_s`, and `agent_create` or `agent_input`."""

    cron: Annotated[
        str | None, Field(min_length=1, max_length=MAX_CRON_CHARS, description="five fields, or six with seconds first")
    ] = None
    every_s: Annotated[int, Field(ge=1, le=MAX_EVERY_S)] | None = None
    timezone: Annotated[str, Field(min_length=1, max_length=100, description="in which `cron` is read")] = "UTC"
    agent_create: Annotated[
        CreateAgent | None,
        Field(description="without session_id, idempotency_key and not_before: each time has its own"),
    ] = None
    agent_input: ScheduledInput | None = None
    schedule_id: Id | None = None
    enabled: bool = True

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        if (self.cron is None) == (self.every_s is None):
            raise ValueError("give either cron or every_s")
        if (self.agent_create is None) == (self.agent_input is None):
            raise ValueError("give either agent_create or agent_input")
        once = self.agent_create
        if once is not None and (once.session_id, once.idempotency_key, once.not_before) != (None, None, None):
            raise ValueError("leave session_id, idempotency_key and not_before out: each time has its own")
        return self


class PatchSchedule(Body):
    """What can be changed of a schedule."""

    enabled: bool


class Fork(Body):
    """Begin a new session with what this one had after one of its steps."""

    iteration: Annotated[int | None, Field(ge=0, le=MAX_STEPS, description="its last step when left out")] = None
    session_id: Annotated[Id | None, Field(description="a new id when left out; 409 when it is in use")] = None
    conversation_id: Annotated[Id | None, Field(description="a thread to speak in; none when left out")] = None
    config: Annotated[JsonObject | None, Field(description="fields in place of those of the old config")] = None
    agent_id: Annotated[Id | None, Field(description="the old session's agent when left out")] = None
    idempotency_key: Annotated[Key | None, Field(description="the same key gives the same answer")] = None


class CreateConversation(Body):
    """Open a thread."""

    title: Annotated[str, Field(max_length=MAX_TITLE_CHARS)] = ""
    tags: Annotated[list[Annotated[str, Field(min_length=1, max_length=100)]], Field(max_length=MAX_TAGS)] = []
    created_by: Annotated[Id | None, Field(description="a user, who also joins the thread")] = None
    conversation_id: Id | None = None


class AddParticipant(Body):
    """Let a user or a session take part."""

    user_id: Id | None = None
    session_id: Id | None = None
    role: Annotated[str, Field(min_length=1, max_length=100)] = "member"
    delivery: HowDelivered = Delivery.PUSH

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.user_id is None) == (self.session_id is None):
            raise ValueError("give either user_id or session_id")
        return self


class PostMode(StrEnum):
    """How a post reaches the sessions of a thread."""

    INPUT = "input"  # a turn
    INTERRUPT = "interrupt"  # guidance for the next step
    AUTO = "auto"  # guidance when every session of the thread is at work, else a turn


Speaker = Annotated[str, Field(min_length=1, max_length=200, description="who said it, of a live transcript")]
SaidAt = Annotated[
    float | None,
    Field(ge=0, le=MAX_RUNTIME_S, allow_inf_nan=False, description="in seconds since the conversation began"),
]
IsFinal = Annotated[bool, Field(description="false: the segment may still change")]


class PostMessage(Body):
    """Write to a thread. With `speaker` it is a segment of a live transcript (docs/copilot-queue.md)."""

    text: Text
    data: JsonObject | None = None
    speaker: Speaker | None = None
    timestamp: SaidAt = None
    is_final: IsFinal | None = None
    user_id: Id | None = None
    mode: Annotated[PostMode, Field(alias="as", strict=False)] = PostMode.INPUT
    when_busy: HowBusy = WhenBusy.ENQUEUE
    idempotency_key: Key | None = None

    @model_validator(mode="after")
    def _segment_has_a_speaker(self) -> Self:
        if self.speaker is None and (self.timestamp is not None or self.is_final is not None):
            raise ValueError("timestamp and is_final belong to a segment: give its speaker")
        if self.speaker is not None and self.data is not None and "segment" in self.data:
            raise ValueError("data.segment is made of speaker, timestamp and is_final: leave it out")
        return self

    def told_data(self) -> JsonObject | None:
        """`data` with the segment in it, if it is one."""
        if self.speaker is None:
            return self.data
        timed = {} if self.timestamp is None else {"timestamp": self.timestamp}
        segment = {"speaker": self.speaker, **timed, "is_final": self.is_final is not False}
        return {**(self.data or {}), "segment": segment}


class Segment(Body):
    """A segment of a live transcript, as the Socket.IO event `segment` brings it."""

    conversation_id: Id
    text: Text
    speaker: Speaker
    timestamp: SaidAt = None
    is_final: IsFinal = True
    user_id: Id | None = None
    idempotency_key: Key | None = None

    def post(self) -> PostMessage:
        """The post that it is."""
        return PostMessage(
            text=self.text,
            speaker=self.speaker,
            timestamp=self.timestamp,
            is_final=self.is_final,
            user_id=self.user_id,
            idempotency_key=self.idempotency_key,
        )


class AnswerApproval(Body):
    """Answer a session's question. repeat, done and fail are for a call that may have been made, the others for all
    other questions; `decisions` of a question says which."""

    decision: Annotated[ApprovalDecision, Field(strict=False)]
    value: Annotated[
        Any, Field(description="with edit: what was changed; for a form: an object with what was filled in")
    ] = None
    feedback: Annotated[str | None, Field(max_length=MAX_FEEDBACK_CHARS, description="why, or what to do better")] = (
        None
    )
    by: Annotated[
        str | None, Field(min_length=1, max_length=200, description="who answers; it is stored as it is told")
    ] = None
    result: Annotated[Any, Field(description="what the call answered; only with done")] = None
    digest: Annotated[
        str | None,
        Field(min_length=1, max_length=64, description="of the question as it was shown: 409 when it is another now"),
    ] = None
    idempotency_key: Key | None = None


ToolHash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="`hash` of the tool that was read")]


class ApproveTool(Body):
    """Agree to a tool of an MCP server as it was read."""

    hash: ToolHash
    approved_by: Id | None = None


class WithdrawTool(Body):
    """Take back that somebody agreed to a tool of an MCP server, as it was read."""

    hash: ToolHash
    withdrawn_by: Id | None = None


Version = Annotated[int, Field(ge=0, le=MAX_STEPS, description="0 is the one that ships")]
Definition = Annotated[JsonObject, Field(description="an agent of the copilot, see docs/copilot-agents.md")]
SetName = Annotated[str, Field(min_length=1, max_length=200, description="a name of GET /api/copilot/sets")]


class SaveCopilotAgent(Body):
    """Save a definition as the next version of an agent."""

    agent_set: SetName
    definition: Definition
    based_on: Annotated[Version, Field(description="the version that was changed: 409 when it is not the newest")]
    note: Annotated[str | None, Field(max_length=MAX_TITLE_CHARS, description="what is different now")] = None
    saved_by: Id | None = None


class CheckDefinition(Body):
    """Ask what is wrong with a definition."""

    definition: Annotated[Any, Field(description="any JSON")]


class PreviewPrompt(Body):
    """Ask for the prompt that an agent would send."""

    definition: Definition
    session_id: Annotated[Id | None, Field(description="on an empty board when left out")] = None


class DryRun(Body):
    """Try a definition on a fork of a session."""

    definition: Definition
    session_id: Id
    idempotency_key: Key | None = None


class StartCopilot(Body):
    """Begin a copilot session with the newest agents of a set."""

    agent_set: SetName
    title: Annotated[
        str,
        Field(max_length=MAX_TITLE_CHARS, description="of the thread that is opened for it; the set's when left out"),
    ] = ""
    conversation_id: Annotated[Id | None, Field(description="a thread that is there; a new one when left out")] = None
    agents: Annotated[
        list[JsonObject], Field(max_length=200, description="definitions; one of a known id replaces it")
    ] = []
    config: Annotated[JsonObject | None, Field(description="of the moniker, but for its agents")] = None
    budget: BudgetLimits | None = None
    idempotency_key: Annotated[Key | None, Field(description="the same key gives the same answer")] = None


class UseCopilotAgent(Body):
    """Have a session use a version of an agent."""

    agent_set: SetName
    agent_id: Id
    version: Version
    idempotency_key: Key | None = None


class DecideInsight(Body):
    """Show or drop an insight that waits for a person."""

    agreed: bool
    by: Id | None = None
    idempotency_key: Key | None = None
