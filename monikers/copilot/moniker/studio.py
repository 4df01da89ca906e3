"""What pages ask on which somebody writes agents, for sessions as they are stored; answered rather than raised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from monikers.copilot.agentsets import AgentSet, load_set, set_names
from monikers.copilot.blackboard import Blackboard
from monikers.copilot.errors import AgentConfigurationError, Mistake
from monikers.copilot.models import AgentContext, TriggerType
from monikers.copilot.moniker.config import CopilotConfig
from monikers.copilot.moniker.scene import scene_of
from monikers.copilot.moniker.state import CopilotState
from monikers.copilot.prompts import Messages
from monikers.copilot.sessionjson import take_up
from monikers.copilot.sessions import Moment, Session
from monikers.copilot.studio import doubts, preview, problems
from runtime.contract import MonikerInputError

_MAX_TOLD_CHARS = 500
_FORCED = {"trigger_type": TriggerType.FORCE}


@dataclass(frozen=True, slots=True)
class Draft:
    """A prompt, or the mistakes that there is none for."""

    messages: Messages = field(default_factory=list)
    problems: Sequence[Mistake] = ()


class Studio:
    """The questions, as one object that a web process can be given. It keeps nothing."""

    def sets(self) -> list[AgentSet]:
        """The sets that ship, by name."""
        return [load_set(name) for name in set_names()]

    def problems(self, definition: Any) -> list[Mistake]:
        """See `monikers.copilot.studio.problems`."""
        return problems(definition)

    def doubts(self, definition: Any) -> list[Mistake]:
        """See `monikers.copilot.studio.doubts`."""
        return doubts(definition)

    def preview(
        self, definition: Mapping[str, Any], session_id: str, config: Mapping[str, Any], state: Mapping[str, Any]
    ) -> Draft:
        """The prompt of a turn that somebody forces now, in a session with this config and state; without a config on
        an empty board."""
        try:
            return Draft(preview(definition, *_scene(definition, session_id, config, state)))
        except AgentConfigurationError as error:
            return Draft(problems=error.mistakes)
        except (MonikerInputError, ValueError, TypeError) as error:
            said = f"the state of session {session_id!r} cannot be read, was it written by another version? {error}"
            return Draft(problems=[Mistake("", said[:_MAX_TOLD_CHARS])])


def _scene(
    definition: Mapping[str, Any], session_id: str, config: Mapping[str, Any], state: Mapping[str, Any]
) -> tuple[AgentContext, Mapping[str, Any] | None]:
    """What the agent is shown, and what it keeps for itself."""
    if not config:
        nowhere = AgentContext(session_id=session_id, blackboard=Blackboard().snapshot())
        return nowhere.model_copy(update=_FORCED), None
    created = CopilotConfig.model_validate(config)
    kept = CopilotState.read(dict(state), created)
    board = Blackboard.from_dict(kept.board).snapshot()
    session = Session(session_id, 0.0)
    take_up(session, kept.engine, Moment(0.0, 0.0))
    slot = session.agents.get(str(definition.get("id")))
    scene = scene_of(session_id, created, kept, board)
    return scene.model_copy(update=_FORCED), None if slot is None else slot.private_state
