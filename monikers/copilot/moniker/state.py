"""What a `copilot` session keeps from step to step, as the journal has it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from monikers.copilot.errors import AgentConfigurationError
from monikers.copilot.models import AgentConfigOverride, InsightType, TranscriptSegment
from monikers.copilot.moniker.config import CopilotConfig
from monikers.copilot.moniker.roster import definitions_by_id
from monikers.words import KEPT_GUIDANCE
from runtime.contract import Json, MonikerInputError

MAX_HELD = 100
#: of the transcript that is kept; every step stores it
MAX_TRANSCRIPT_CHARS = 200_000


class Complaint(BaseModel):
    """What an agent said last when it failed, and when it was shown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    said: str
    at: AwareDatetime


class CopilotState(BaseModel):
    """One conversation: who said what, the board, and what the engine has to know of what was before."""

    model_config = ConfigDict(extra="forbid")

    turn: int = 0
    #: when the first segment came, and the last one, by the runtime's clock
    began_at: AwareDatetime | None = None
    spoke_at: AwareDatetime | None = None
    segments: list[TranscriptSegment] = []
    #: who was asked in the silence that lasts
    heard: list[str] = []
    #: when agents had their last interval turn
    intervals: dict[str, AwareDatetime] = {}
    board: Json = {}
    #: cooldowns, counters and private memories, see `AgentEngine.export_session`
    engine: Json = {}
    #: definitions that came after the session was created; None is one that was taken away
    agents: dict[str, Json | None] = {}
    groups: dict[str, bool] = {}
    overrides: dict[str, AgentConfigOverride] = {}
    guidance: Annotated[list[str], Field(max_length=KEPT_GUIDANCE)] = []
    #: by agent
    complaints: dict[str, Complaint] = {}
    #: insights that wait for a person, oldest first
    held: list[Json] = []

    @classmethod
    def read(cls, state: Json, config: CopilotConfig) -> Self:
        """The state of a step's frame; a session's first step has none.

        Raises `MonikerInputError` for one that another moniker wrote.
        """
        if not state:
            return cls(board={"variables": dict(config.variables)} if config.variables else {})
        try:
            return cls.model_validate(state)
        except ValidationError as error:
            where = ".".join(map(str, error.errors()[0]["loc"]))
            raise MonikerInputError(
                f"the session's state cannot be read at {where!r}: it was not written by the moniker copilot"
            ) from error

    def row(self) -> Json:
        """The state as JSON, without what says nothing."""
        found: dict[str, Any] = self.model_dump(mode="json", exclude_defaults=True)
        return found

    def definitions(self, config: CopilotConfig) -> dict[str, Json]:
        """The agents that listen now, by id, in the order of their registration."""
        found = config.definitions()
        for agent_id, definition in self.agents.items():
            if definition is None:
                found.pop(agent_id, None)
            else:
                found[agent_id] = definition
        return found

    def take_agents(self, definitions: list[Json], removed: tuple[str, ...]) -> None:
        """Have these agents too, or in place of those of their ids, and these not."""
        try:
            named = definitions_by_id(definitions)
        except AgentConfigurationError as error:  # checked when the command was read
            raise MonikerInputError(str(error)) from error
        self.agents.update(named)
        self.agents.update(dict.fromkeys(removed))

    def say(self, segment: TranscriptSegment, moment: datetime, kept: int) -> None:
        """Put a segment at the end; an unfinished one of the same speaker makes room for it."""
        before = [one for one in self.segments if one.is_final or one.speaker != segment.speaker]
        self.segments = _newest([*before, segment][-kept:])
        self.began_at = self.began_at or moment
        self.spoke_at = moment
        self.heard = []

    def is_said_again(self, row: Json, moment: datetime, window_s: float) -> bool:
        """Whether an agent fails as it did: a model that is away for an hour is news once, not with every segment."""
        before = self.complaints.get(row["agent_id"])
        if before is None or row["type"] != InsightType.ERROR.value or before.said != row["content"]:
            return False
        return (moment - before.at).total_seconds() < window_s

    def complain(self, rows: list[Json], moment: datetime) -> None:
        """Keep what was shown of failures."""
        for row in rows:
            if row["type"] == InsightType.ERROR.value:
                self.complaints = {**self.complaints, row["agent_id"]: Complaint(said=row["content"], at=moment)}

    def hold(self, insights: list[Json]) -> None:
        """Keep insights until a person has decided; the oldest are dropped beyond a hundred."""
        self.held = [*self.held, *insights][-MAX_HELD:]

    def decided(self, insight_id: str) -> Json | None:
        """Take a held insight out; None when it does not wait."""
        found = next((one for one in self.held if one["insight_id"] == insight_id), None)
        self.held = [one for one in self.held if one is not found]
        return found


def _newest(segments: list[TranscriptSegment]) -> list[TranscriptSegment]:
    """As many from the end as may be kept, and always the last."""
    left, found = MAX_TRANSCRIPT_CHARS, 0
    for segment in reversed(segments):
        left -= len(segment.text)
        if left < 0 and found:
            break
        found += 1
    return segments[-found:]
