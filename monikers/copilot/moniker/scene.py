"""What the agents of a session are shown, from its config and its state: in its turns, and to who looks before one."""

from __future__ import annotations

from monikers.copilot.board import Board
from monikers.copilot.models import AgentContext
from monikers.copilot.moniker.config import CopilotConfig
from monikers.copilot.moniker.state import CopilotState

#: whoever may write to the thread can send one: it is data in the prompt, as what the others say is
_WISH = "A wish of the person you work for: {}"


def scene_of(session_id: str, config: CopilotConfig, state: CopilotState, board: Board) -> AgentContext:
    """The context of a turn."""
    wishes = [_WISH.format(words) for words in state.guidance]
    return AgentContext(
        session_id=session_id,
        recent_segments=state.segments,
        blackboard=board,
        rag_docs=[*config.rag_docs, *wishes],
        user_context=config.user_context or None,
        language_directive=config.language_directive or None,
        turn_count=state.turn,
        agent_config_overrides={**config.overrides, **state.overrides},
    )
