"""Opens the MCP servers of a worker; without any nothing is loaded, read or started."""

from __future__ import annotations

import logging
import tomllib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.errors import SettingError
from runtime.ports import Log
from runtime.tools.mcp.config import McpServer, read_mcp
from store.clock import SystemChance
from store.database import TenantStore

if TYPE_CHECKING:
    from runtime.tools.mcp.servers import McpServers


def mcp_servers(file: Path | None) -> tuple[McpServer, ...]:
    """The servers that the tables `[mcp.<name>]` of tools.toml name; none without a file.

    Raises `SettingError` for a file that cannot be read and for a table that cannot be meant so.
    """
    if file is None:
        return ()
    try:
        found = tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise SettingError(f"STEPWELL_TOOLS={str(file)!r} cannot be read: {error}") from error
    section = found.get("mcp", {})
    if not isinstance(section, Mapping):
        raise SettingError(f"{file}: mcp = {section!r} is no table; write [mcp.<name>] for each server")
    return read_mcp(section)


def _quiet_the_library() -> None:
    """The library logs what servers send, with their texts; what matters of it is told to calls and to our own log."""
    for name in ("mcp", "client"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


@asynccontextmanager
async def open_mcp(
    servers: Sequence[McpServer], db: TenantStore, *, log: Log, environ: Mapping[str, str]
) -> AsyncIterator[McpServers | None]:
    """The servers, connecting in the background; None when there are none. They are closed when the context ends."""
    if not servers:
        yield None
        return
    # The protocol's library is 235 modules and 25 MB, which a worker without servers does not pay for.
    from runtime.tools.mcp.link import Surroundings
    from runtime.tools.mcp.pins import StorePins
    from runtime.tools.mcp.servers import McpServers

    _quiet_the_library()
    made = McpServers(
        servers, pins=StorePins(db), clock=db.clock, chance=SystemChance(), log=log, around=Surroundings(environ)
    )
    async with made as running:
        yield running
