"""A real worker and MCP servers: those of the operator's file are started and ended with it, and no others (S47)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from store.agent_requests import agent_create
from store.agent_state import SessionStatus, find_agent_state
from store.database import TenantStore
from store.ids import SessionId
from store.tool_pins import list_tool_pins
from tests.process.kit import worker
from tests.processes import stored
from tests.runtime.tools.mcp.kit import FAKE, lives
from tests.support import eventually

pytestmark = pytest.mark.process


async def _seen(db: TenantStore) -> bool:
    return [pin.tool for pin in await list_tool_pins(db)] == ["fake_echo"]


async def test_a_worker_starts_and_ends_the_servers_of_the_operators_file(tmp_path: Path) -> None:
    child_file, ran = tmp_path / "child", tmp_path / "ran"
    file = tmp_path / "tools.toml"
    file.write_text(
        f'[mcp.fake]\ncommand = "{sys.executable}"\nargs = ["{FAKE}", "children+stays"]\nenv = ["CHILD_FILE"]\n'
        '[mcp.broken]\ncommand = "no-such-program"\n'
    )
    hostile = {"command": "touch", "args": [str(ran)], "mcpServers": {"x": {"command": "touch", "args": [str(ran)]}}}
    async with stored(tmp_path) as db:
        for moniker in ("echo", "prompted"):
            # Put into the queue past the web process, which refuses such a config.
            await agent_create(
                db, moniker=moniker, session_id=SessionId(moniker), spec={"task": "t", "config": hostile}
            )
        env = {"STEPWELL_TOOLS": str(file), "CHILD_FILE": str(child_file)}
        async with worker(tmp_path, env=env) as child:
            await child.ready()
            await eventually(lambda: _seen(db), 60)
            await eventually(child_file.exists)
            assert "no-such-program" in child.said
            for moniker in ("echo", "prompted"):
                await eventually(lambda name=moniker: _refused(db, name), 60)  # type: ignore[misc]
            assert await child.ended() == 0
        assert not lives(int(child_file.read_text()))
        assert not ran.exists()


async def _refused(db: TenantStore, session: str) -> bool:
    """The create of a session was refused, or the session ended in an error: it never ran."""
    row = await find_agent_state(db, session_id=SessionId(session))
    return row is None or row.status is SessionStatus.ERROR
