"""What a host, the engine and agents hand to each other (spec 2 §5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from monikers.copilot.board import Board, SharedState
from monikers.copilot.frozen import copied, plain
from monikers.copilot.records import Event, Fact

__all__ = [
    "AgentConfigOverride",
    "AgentContext",
    "AgentInsight",
    "AgentResponse",
    "Event",
    "Fact",
    "InsightType",
    "ShownContext",
    "TranscriptSegment",
    "TriggerType",
    "shared_state_of",
]

MIN_CONTENT_CHARS = 2
DEFAULT_EXPIRY_S = 15


class TriggerType(StrEnum):
    """Why agents are asked (spec 2 §5.6, §7.1)."""

    TURN_BASED = "turn_based"
    KEYWORD = "keyword"
    SILENCE = "silence"
    INTERVAL = "interval"
    EVENT = "event"
    #: past trigger type, cooldown and conditions, never past the allow-list
    FORCE = "force"


class InsightType(StrEnum):
    """What an insight is to the person who reads it (spec 2 §5.5)."""

    SUGGESTION = "suggestion"
    WARNING = "warning"
    OPPORTUNITY = "opportunity"
    FACT = "fact"
    PRAISE = "praise"
    ERROR = "error"


class TranscriptSegment(BaseModel):
    """A single piece of speech; never changes. `timestamp` counts seconds since the session began."""

    model_config = ConfigDict(frozen=True)

    speaker: str
    text: str
    timestamp: float
    is_final: bool = True


class AgentInsight(BaseModel):
    """A piece of advice. `expiry` is how many seconds it is worth showing."""

    agent_id: str
    agent_name: str
    type: InsightType
    content: str = Field(min_length=MIN_CONTENT_CHARS)
    confidence: float = Field(default=1.0, ge=0.0, le=1.0)
    expiry: int = DEFAULT_EXPIRY_S
    action_label: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)


class AgentConfigOverride(BaseModel):
    """How one agent differs in one session: seconds added to its cooldown (fewer never bring it below 5, nor slow down
    an agent that is faster), segments added to those it reads, and instructions added to its prompt."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cooldown_modifier: float | None = None
    context_turns_modifier: int | None = None
    instructions_append: str | None = None


class AgentContext(BaseModel):
    """All that an agent may know in a turn.

    A host fills it; each agent is given one of its own, with a `BlackboardView` in place of the board. There the engine
    sets `trigger_type`, `phase` and, where the host counts no turns, `turn_count`.
    """

    session_id: str
    recent_segments: list[TranscriptSegment] = Field(default_factory=list)
    shared_state: dict[str, Any] = Field(default_factory=dict)
    blackboard: Board | None = None
    trigger_type: TriggerType = TriggerType.TURN_BASED
    trigger_metadata: dict[str, Any] = Field(default_factory=dict)
    rag_docs: list[str] = Field(default_factory=list)
    user_context: str | None = None
    language_directive: str | None = None
    turn_count: int = 0
    phase: int = 1
    agent_config_overrides: dict[str, AgentConfigOverride] = Field(default_factory=dict)


class ShownContext(AgentContext):
    """The context that one agent is given: its own lists and dicts, a view of the board, and `shared_state` as version
    1 had it, made from that view when it is asked for."""

    @classmethod
    def several(cls, context: AgentContext, metadata: dict[str, Any], **changes: Any) -> Iterator[Self]:
        """What `context` says, with `metadata` of the trigger and `changes`, for as many agents as are asked.

        Nothing is validated again and no list is shared.
        """
        said = {**context.__dict__, **changes}
        del said["shared_state"]
        told = context.model_fields_set | changes.keys() | {"trigger_metadata"}
        setter = object.__setattr__
        while True:
            shown = cls.__new__(cls)
            fields = said.copy()
            fields["recent_segments"] = context.recent_segments.copy()
            fields["rag_docs"] = context.rag_docs.copy()
            fields["agent_config_overrides"] = context.agent_config_overrides.copy()
            fields["trigger_metadata"] = copied(metadata) if metadata else {}
            setter(shown, "__dict__", fields)
            setter(shown, "__pydantic_fields_set__", told.copy())
            setter(shown, "__pydantic_extra__", None)
            setter(shown, "__pydantic_private__", None)
            yield shown

    @model_serializer(mode="wrap")
    def _with_shared_state(self, written: SerializerFunctionWrapHandler) -> Any:
        """Written down with what is made when it is asked for."""
        self.shared_state  # noqa: B018 - makes it
        return written(self)

    def __getattr__(self, name: str) -> Any:
        if name != "shared_state":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        state = self.__dict__["shared_state"] = plain(shared_state_of(self))
        return state


def shared_state_of(context: AgentContext) -> Mapping[str, Any]:
    """`context.shared_state` for reading only: in a turn it is read where it stands, where asking for the dict itself
    copies the variables."""
    made = context.__dict__.get("shared_state")
    if made is not None or context.blackboard is None:
        return made or {}
    return SharedState(context.blackboard)


class AgentResponse(BaseModel):
    """What an agent found, and what a turn returns: then everything of all its agents, in the order of the merge."""

    insights: list[AgentInsight] = Field(default_factory=list)
    events: list[Event] = Field(default_factory=list)
    variable_updates: dict[str, Any] = Field(default_factory=dict)
    queue_pushes: dict[str, list[Any]] = Field(default_factory=dict)
    facts: list[Fact] = Field(default_factory=list)
    #: of one agent: its private memory; of a turn: see `memory_updates_by_agent`
    memory_updates: dict[str, Any] = Field(default_factory=dict)
    memory_updates_by_agent: dict[str, dict[str, Any]] = Field(default_factory=dict)
    #: as agents of version 1 write it; taken over as variable updates
    state_updates: dict[str, Any] = Field(default_factory=dict)
    data: dict[str, Any] = Field(default_factory=dict)
    debug_info: dict[str, Any] = Field(default_factory=dict)
    source_agent_id: str | None = None
    #: calls, tokens and cost of the model calls behind it
    usage: dict[str, Any] = Field(default_factory=dict)
