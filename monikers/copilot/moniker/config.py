"""What a `copilot` session is created with (docs/copilot-queue.md, "The configuration")."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from monikers.copilot.agentsets import set_names
from monikers.copilot.engine import MOST_PHASES
from monikers.copilot.errors import AgentConfigurationError
from monikers.copilot.models import AgentConfigOverride
from monikers.copilot.moniker.roster import built_agent, definitions_by_id, shipped
from runtime.contract import FrozenModel, Json

MAX_AGENTS = 100
MAX_WORDS_CHARS = 100_000

AgentId = Annotated[str, Field(min_length=1, max_length=200)]
Words = Annotated[str, Field(max_length=MAX_WORDS_CHARS)]


class CopilotConfig(FrozenModel):
    """Which agents listen, what they are told, and when they rest."""

    agent_set: str | None = Field(None, description="A set that ships: sales_call, support, interview, ...")
    agents: list[Json] = Field(
        default_factory=list, max_length=MAX_AGENTS, description="Agents as JSON; one of a known id replaces it"
    )
    allowed_agent_ids: list[AgentId] | None = Field(None, description="Nobody else is asked; all when left out")
    user_context: Words = Field("", description="Who is advised, and what agents should know")
    language_directive: Words = Field("", description="In which language agents answer")
    rag_docs: list[Words] = Field(default_factory=list, max_length=50, description="Documents that agents may use")
    variables: Json = Field(default_factory=dict, description="The board's first variables")
    groups_off: list[str] = Field(default_factory=list, description="Groups of agents that are not asked")
    overrides: dict[str, AgentConfigOverride] = Field(
        default_factory=dict, description="By agent: how it differs in this session"
    )
    max_phases: int = Field(MOST_PHASES, ge=1, le=MOST_PHASES)
    agent_timeout_s: float = Field(
        30, gt=0, le=600, description="Seconds for a model call of an agent without a timeout of its own"
    )
    insight_window_s: float = Field(
        60, ge=0, le=86_400, description="The same words of an agent are shown once in so many seconds"
    )
    quiet_after_s: float = Field(
        300, gt=0, le=86_400, description="No timer fires when nobody has spoken for so many seconds"
    )
    kept_segments: int = Field(200, ge=1, le=2_000, description="How much of the transcript agents can read")
    dry_run: bool = Field(False, description="Take one input, then end; no timer fires")

    @field_validator("agent_set")
    @classmethod
    def _is_known(cls, name: str | None) -> str | None:
        if name is not None and name not in set_names():
            raise ValueError(f"there is no agent set {name[:80]!r}: use one of {', '.join(set_names())}")
        return name

    @field_validator("agents")
    @classmethod
    def _can_be_built(cls, definitions: list[Json]) -> list[Json]:
        problems = [problem for place, one in enumerate(definitions) if (problem := _problem(place, one))]
        if problems:
            raise ValueError("; ".join(problems))
        return definitions

    @model_validator(mode="after")
    def _has_agents(self) -> Self:
        if self.agent_set is None and not self.agents:
            raise ValueError(f"nobody listens: give agent_set (one of {', '.join(set_names())}), agents, or both")
        return self

    def definitions(self) -> dict[str, Json]:
        """All agents by id, in the order in which they are registered."""
        of_set = () if self.agent_set is None else shipped(self.agent_set)
        return definitions_by_id([*of_set, *self.agents])


def _problem(place: int, definition: Any) -> str:
    try:
        built_agent(definition)
    except AgentConfigurationError as error:
        return f"agents[{place}]: {error}"
    return ""
