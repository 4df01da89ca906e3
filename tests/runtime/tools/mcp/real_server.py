"""An MCP server made with the `mcp` package's server side: the newest protocol, changed tools told to listeners.

python real_server.py stdio | python real_server.py http <port file>
"""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from pathlib import Path

import uvicorn
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("real")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
async def grow(context: Context) -> str:
    """Makes a new tool appear."""

    def born() -> str:
        """Was not there before."""
        return "hello"

    server.add_tool(born)
    await context.notify_tools_changed()
    return "grown"


def _serve(port_file: Path) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    app = server.streamable_http_app()
    program = uvicorn.Server(uvicorn.Config(app, log_level="error"))

    def until_stdin_ends() -> None:
        sys.stdin.read()
        program.should_exit = True

    threading.Thread(target=until_stdin_ends, daemon=True).start()
    port_file.with_suffix(".new").write_text(str(listening.getsockname()[1]))
    port_file.with_suffix(".new").rename(port_file)
    asyncio.run(program.serve(sockets=[listening]))


if __name__ == "__main__":
    if sys.argv[1] == "http":
        _serve(Path(sys.argv[2]))
    else:
        server.run("stdio")
