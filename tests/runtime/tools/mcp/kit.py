"""Workers' MCP servers for tests: real child processes and real HTTP on this machine, on a real store."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.testing import FakeLog, LeapClock
from runtime.tools.calling import Backoff, call_tool
from runtime.tools.mcp.config import read_mcp
from runtime.tools.mcp.link import Surroundings
from runtime.tools.mcp.pins import StorePins
from runtime.tools.mcp.servers import McpServers
from runtime.tools.result import Call, ToolResult
from runtime.tools.toolbox import Toolbox
from store.database import TenantStore
from store.tool_pins import approve_tool, get_tool_pin, withdraw_tool
from tests.runtime.tools.kit import WORKER, Middle, scope
from tests.support import eventually

HERE = Path(__file__).parent
FAKE, REAL = HERE / "fake_server.py", HERE / "real_server.py"


def stdio_table(mode: str, **more: Any) -> dict[str, Any]:
    """The table of a fake server that is a child process."""
    return {"command": sys.executable, "args": [str(FAKE), mode], "trust": "on_first_use", **more}


def lives(pid: int) -> bool:
    """Whether a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] != "Z"
    except FileNotFoundError:
        return False


@dataclass
class Running:
    """MCP servers of a worker, and what a test asks of them."""

    mcp: McpServers
    db: TenantStore
    clock: LeapClock
    log: FakeLog

    def toolbox(self) -> Toolbox:
        """All tools of the present snapshot, granted to everybody."""
        now = self.mcp.snapshot()
        return Toolbox(now.tools, {WORKER: [tool.name for tool in now.tools]}, pins=now.pins)

    async def offered(self, *names: str) -> None:
        """Return once exactly these tools may be used."""
        await eventually(lambda: {tool.name for tool in self.toolbox().of(WORKER)} == set(names))

    async def up(self, name: str = "fake") -> None:
        await eventually(lambda: self.mcp.is_up(name))

    async def call(self, name: str = "fake_echo", toolbox: Toolbox | None = None, **arguments: Any) -> ToolResult:
        """Call a tool as a session does."""
        asked = scope(clock=self.clock, log=self.log)
        call = Call(id="1", name=name, arguments=arguments)
        return await call_tool(toolbox or self.toolbox(), call, asked, Backoff(Middle(), base_s=0.01))

    async def approve(self, name: str) -> None:
        """Agree to a tool as it is now."""
        await approve_tool(self.db, name, (await get_tool_pin(self.db, name)).hash, approved_by="me")

    async def withdraw(self, name: str = "fake_echo") -> None:
        """Take back what was agreed to of a tool as it is now."""
        await withdraw_tool(self.db, name, (await get_tool_pin(self.db, name)).hash, withdrawn_by="me")

    def said(self) -> str:
        """Everything that was logged."""
        return repr(self.log.lines)


@asynccontextmanager
async def running(
    db: TenantStore, tables: Mapping[str, Any], environ: Mapping[str, str] | None = None, **around: Any
) -> AsyncIterator[Running]:
    """The servers of these tables, while the context lasts."""
    clock, log = LeapClock(), FakeLog()
    given = {"PATH": os.environ["PATH"], **(environ or {})}
    made = McpServers(
        read_mcp(tables),
        pins=StorePins(db),
        clock=clock,
        chance=Middle(),
        log=log,
        around=Surroundings(given, **around),
    )
    async with made as mcp:
        yield Running(mcp, db, clock, log)


@asynccontextmanager
async def http_server(program: Path, mode: str, folder: Path, **environ: str) -> AsyncIterator[int]:
    """A server over HTTP on this machine; gives its port."""
    port_file = folder / f"port-{mode}"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(program),
        mode,
        str(port_file),
        stdin=asyncio.subprocess.PIPE,
        env={**os.environ, **environ},
    )
    try:
        await eventually(port_file.exists)
        yield int(port_file.read_text())
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        if process.stdin is not None:
            process.stdin.close()
