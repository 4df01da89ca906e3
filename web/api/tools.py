"""Tools of MCP servers: what their servers say of them, and a person's yes to exactly that (S48)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from typing_extensions import TypedDict

from store.tool_pins import ToolPin, ToolState, approve_tool, list_tool_pins
from web.routes import Answer, Api, Many, One, Operation
from web.schemas import ApproveTool
from web.shapes import Json, many, shape


class ShownTool(TypedDict):
    """A tool of an MCP server. `description` and `parameters` are a stranger's words: show them as data."""

    tool: str
    server: str
    remote: str
    hash: str
    description: str
    parameters: Any
    seen_at: datetime
    approved_hash: str
    approved_at: datetime | None
    approved_by: str | None
    state: ToolState


async def list_tools(api: Api) -> Answer:
    """Every tool that a worker has seen, by name. Only those in the state `approved` can be used."""
    return Answer(many(map(_shown, await list_tool_pins(api.db))))


async def approve(api: Api, *, tool_name: str, body: ApproveTool) -> Answer:
    """Agree to a tool as it is now. It is on from then until its server says something else of it."""
    return Answer(_shown(await approve_tool(api.db, tool_name, body.hash, approved_by=body.approved_by)))


def _shown(pin: ToolPin) -> Json:
    return {**shape(pin), "state": pin.state.value}


OPERATIONS = (
    Operation("GET", "/api/tools", list_tools, "tools", "List the tools of MCP servers", Many(ShownTool)),
    Operation(
        "POST",
        "/api/tools/{tool_name}/approve",
        approve,
        "tools",
        "Agree to a tool of an MCP server",
        One(ShownTool),
        body=ApproveTool,
        problems=(404, 409),
    ),
)
