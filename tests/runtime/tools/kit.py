"""Tools and a scope for the tests of this folder."""

from __future__ import annotations

from typing import Any, Literal

from runtime.testing import FakeClock, FakeLog
from runtime.tools.calling import Backoff
from runtime.tools.scope import AgentType, ToolScope
from runtime.tools.tool import Tool, tool
from store.ids import AgentId, ConversationId, SessionId

WORKER = AgentType("worker")


@tool()
async def file_system(
    action: Literal["read", "write", "list"],
    path: str = ".",
    content: str = "",
    lines: list[int] | None = None,
    recursive: bool = False,
    depth: int = 1,
) -> str:
    """Reads and writes files."""
    return f"{action} {path}"


@tool(read_only=True)
async def clock(zone: str = "UTC") -> str:
    """The time in a zone."""
    return zone


@tool(needs_approval=True)
async def shell(command: str) -> str:
    """Runs a command."""
    return command


@tool(read_only=True)
async def search(query: str, limit: int = 5) -> list[str]:
    """Finds messages."""
    return [query] * limit


TOOLS: tuple[Tool, ...] = (file_system, clock, shell, search)


class Middle:
    """Chance that is never random: the middle of every range."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, float]] = []

    def uniform(self, low: float, high: float) -> float:
        self.asked.append((low, high))
        return (low + high) / 2


def scope(**changes: Any) -> ToolScope:
    """A scope of an agent of type `worker`."""
    fields: dict[str, Any] = {
        "agent_id": AgentId("agent-1"),
        "agent_type": WORKER,
        "session_id": SessionId("session-1"),
        "conversation_id": ConversationId("conversation-1"),
        "call_key": "session-1:3:call-1",
        "clock": FakeClock(),
        "log": FakeLog(),
    }
    return ToolScope(**{**fields, **changes})


def backoff(grace_s: float = 1.0) -> Backoff:
    """Waits that a fake clock leaps over."""
    return Backoff(Middle(), grace_s=grace_s)
