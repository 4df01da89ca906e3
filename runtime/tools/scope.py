"""What a tool may know of the call it serves. It is given by the runtime and is no part of what a model can say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

from runtime.memory.port import Memory
from runtime.ports import Clock, Log
from store.ids import AgentId, ConversationId, SessionId

AgentType = NewType("AgentType", str)
ToolName = NewType("ToolName", str)


@dataclass(frozen=True, slots=True)
class ToolScope:
    """For whom a tool works, and the clock and log it works with."""

    agent_id: AgentId
    agent_type: AgentType
    session_id: SessionId
    conversation_id: ConversationId | None
    #: the same however often the step is tried; hand it to services that know idempotency keys
    call_key: str
    clock: Clock
    log: Log
    #: of the step that the call is made in; None outside of one
    memory: Memory | None = None
