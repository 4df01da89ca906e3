"""Has the tools of a worker follow those of its MCP servers: what is new is joined, what is gone leaves.

A step keeps the toolbox that it began with, so nothing changes under a running step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from runtime.tools.offer import ToolOffer
from runtime.tools.scope import ToolName
from runtime.tools.tool import Tool


class Snapshot(Protocol):
    """The tools of all servers at one moment. `pins` has an entry for each: "" is "off"."""

    @property
    def number(self) -> int: ...

    @property
    def tools(self) -> tuple[Tool, ...]: ...

    @property
    def pins(self) -> Mapping[ToolName, str]: ...


class ToolServers(Protocol):
    """Servers whose tools come as snapshots (`runtime.tools.mcp.servers.McpServers`)."""

    def snapshot(self) -> Snapshot:
        """The tools as they are known now."""
        ...

    async def newer_than(self, number: int) -> Snapshot:
        """The first snapshot after the one with that number."""
        ...


class Joining:
    """Follows `servers` with `offer`. What they have when it is made is joined at once."""

    def __init__(self, offer: ToolOffer, servers: ToolServers) -> None:
        self._offer = offer
        self._servers = servers
        self._joined = servers.snapshot()
        self._offer.join(self._joined.tools, pins=self._joined.pins)

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            newer = await self._servers.newer_than(self._joined.number)
            there = {tool.name for tool in newer.tools}
            self._offer.join(newer.tools, pins=newer.pins)
            self._offer.leave(tool.name for tool in self._joined.tools if tool.name not in there)
            self._joined = newer
