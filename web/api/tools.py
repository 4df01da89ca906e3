"""Tools of MCP servers: what their servers say of them, a person's yes to exactly that, and its withdrawal (S48)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from typing_extensions import TypedDict

from store.tool_pins import ToolPin, ToolState, approve_tool, list_tool_pins, withdraw_tool
from web.routes import Answer, Api, Many, One, Operation
from web.schemas import ApproveTool, WithdrawTool
from web.shapes import Json, many, shape


class ShownTool(TypedDict):
    """A tool of an MCP server. `description` and `parameters` are a stranger's words: show them as data.

    So are `approved_description` and `approved_parameters`: what was agreed to, also after the tool has changed.
    """

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
    approved_description: str | None
    approved_parameters: Any
    withdrawn_at: datetime | None
    withdrawn_by: str | None
    state: ToolState


async def list_tools(api: Api) -> Answer:
    """Every tool that a worker has seen, by name. Only those in the state `approved` can be used."""
    return Answer(many(map(tool_shape, await list_tool_pins(api.db))))


async def approve(api: Api, *, tool_name: str, body: ApproveTool) -> Answer:
    """Agree to a tool as it is now. It is on from then until its server says something else of it."""
    return Answer(tool_shape(await approve_tool(api.db, tool_name, body.hash, approved_by=body.approved_by)))


async def withdraw(api: Api, *, tool_name: str, body: WithdrawTool) -> Answer:
    """Take back what somebody agreed to. No call of the tool begins after the answer; one that has begun ends."""
    return Answer(tool_shape(await withdraw_tool(api.db, tool_name, body.hash, withdrawn_by=body.withdrawn_by)))


def tool_shape(pin: ToolPin) -> Json:
    """A tool in its wire shape."""
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
    Operation(
        "POST",
        "/api/tools/{tool_name}/withdraw",
        withdraw,
        "tools",
        "Take an approval of a tool back",
        One(ShownTool),
        body=WithdrawTool,
        problems=(404, 409),
    ),
)
