"""The id types. An id of one kind cannot be passed where another is expected."""

from __future__ import annotations

from typing import NewType

TenantId = NewType("TenantId", str)
AgentId = NewType("AgentId", str)
SessionId = NewType("SessionId", str)
ActionId = NewType("ActionId", str)
ConversationId = NewType("ConversationId", str)
ParticipantId = NewType("ParticipantId", str)
MessageId = NewType("MessageId", str)
UserId = NewType("UserId", str)
WorkerId = NewType("WorkerId", str)
ScheduleId = NewType("ScheduleId", str)
MemoryId = NewType("MemoryId", str)
StepId = NewType("StepId", str)

MAIN_TENANT = TenantId("main")


def step_id(session_id: SessionId, iteration: int) -> StepId:
    """The id of a session's step: the same step has the same id however often it is written."""
    return StepId(f"{session_id}:{iteration}")
