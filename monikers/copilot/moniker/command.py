"""What an input says to a `copilot` session: a segment, a command, or both (docs/copilot-queue.md)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from monikers.copilot.errors import AgentConfigurationError
from monikers.copilot.models import AgentConfigOverride, TriggerType
from monikers.copilot.moniker.config import MAX_AGENTS, AgentId
from monikers.copilot.moniker.roster import built_agent
from monikers.words import clip, printable
from runtime.contract import Json, StepInput

MAX_SEGMENT_CHARS = 10_000
_MAX_PROBLEM_CHARS = 1_000
_NOBODY = "USER"


class UnusableInputError(ValueError):
    """An input that cannot be taken up; the message names the field and the cure."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SaidBy(_Part):
    """Who said an input's text, and when, in seconds since the conversation began."""

    speaker: Annotated[str, Field(min_length=1, max_length=200)]
    timestamp: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    is_final: bool = True


class HostEvent(_Part):
    """An event of the host's."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    payload: Json = {}


class Decision(_Part):
    """A person's word about an insight that waits for it."""

    insight_id: str
    agreed: bool
    by: Annotated[str, Field(max_length=200)] | None = None


class Command(BaseModel):
    """The `data` of an input. Fields of other programs are left alone."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    segment: SaidBy | None = None
    events: Annotated[tuple[HostEvent, ...], Field(max_length=100)] = ()
    trigger: TriggerType | None = None
    agent_ids: Annotated[tuple[AgentId, ...], Field(max_length=MAX_AGENTS)] | None = None
    variables: Json = {}
    agents: Annotated[list[Json], Field(max_length=MAX_AGENTS)] = []
    remove_agents: Annotated[tuple[AgentId, ...], Field(max_length=MAX_AGENTS)] = ()
    groups: dict[str, bool] = {}
    overrides: dict[str, AgentConfigOverride] = {}
    decide: Decision | None = None

    @field_validator("agents")
    @classmethod
    def _can_be_built(cls, definitions: list[Json]) -> list[Json]:
        for definition in definitions:
            try:
                built_agent(definition)
            except AgentConfigurationError as error:
                raise ValueError(str(error)) from error
        return definitions

    @property
    def says_nothing(self) -> bool:
        """Whether it asks for nothing: then the input's text is what counts."""
        return not self.model_fields_set


class Heard:
    """One input, read: its command, and the words of its segment."""

    def __init__(self, said: StepInput) -> None:
        self.command = _command(said.data)
        self.text = clip(printable(said.text).strip(), MAX_SEGMENT_CHARS)
        self.by = self.command.segment
        if self.by is None and self.command.says_nothing and self.text:
            self.by = SaidBy(speaker=(said.sender or _NOBODY)[:200])

    @property
    def is_segment(self) -> bool:
        """Whether somebody said something."""
        return self.by is not None and bool(self.text)


def _command(data: Any) -> Command:
    """Raises `UnusableInputError` with what is wrong and where."""
    try:
        return Command.model_validate({} if data is None else data)
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        raise UnusableInputError(clip("; ".join(wrong), _MAX_PROBLEM_CHARS)) from error
