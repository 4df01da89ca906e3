"""With far more clients than file handles the rest is refused, nothing that was accepted is lost, and it recovers."""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path

import aiohttp
import pytest

from store import ActionFilter, list_actions
from tests.processes import HOST, Dashboard, start_dashboard, stored
from tests.remote import Api
from tests.support import eventually

pytestmark = [pytest.mark.slow, pytest.mark.process]

HANDLES = 256
CLIENTS = 1000


async def _post(url: str, number: int) -> str | None:
    """The id of the action when it was accepted; None when the request was refused in any way."""
    body = {"moniker": "echo", "config": {"text": str(number)}}
    try:
        timeout = aiohttp.ClientTimeout(total=10)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(f"{url}/api/agents", json=body) as answer,
        ):
            return str((await answer.json())["action_id"]) if answer.status == 202 else None
    except (aiohttp.ClientError, OSError, TimeoutError):
        return None


async def _connect(port: int) -> asyncio.StreamWriter | None:
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(HOST, port), 30)
    except (OSError, TimeoutError):
        return None
    writer.write(b"GET /healthz HTTP/1.1\r\n")  # and never the rest
    return writer


async def _hold(port: int) -> list[asyncio.StreamWriter]:
    """Connections that were taken, or at least wait to be."""
    found = await asyncio.gather(*[_connect(port) for _ in range(CLIENTS)])
    return [writer for writer in found if writer is not None]


async def _accepted(folder: Path) -> set[str]:
    async with stored(folder) as db:
        found: set[str] = set()
        cursor: str | None = None
        while True:
            page = await list_actions(db, ActionFilter(), limit=200, cursor=cursor)
            found |= {action.id for action in page.items}
            cursor = page.next_cursor
            if cursor is None:
                return found


def _limited(dashboard: Dashboard) -> None:
    resource.prlimit(dashboard.pid, resource.RLIMIT_NOFILE, (HANDLES, HANDLES))


@pytest.mark.parametrize("mode", ["eventlet", "threading"])
async def test_a_thousand_sockets_on_256_handles(tmp_path: Path, mode: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    dashboard = await start_dashboard(tmp_path, {"STEPWELL_ASYNC_MODE": mode})
    try:
        _limited(dashboard)
        url = dashboard.url
        before = [await _post(url, number) for number in range(5)]
        held = await _hold(dashboard.port)
        assert len(held) > HANDLES / 2
        during = await asyncio.gather(*[_post(url, number) for number in range(20)])
        for writer in held:
            writer.close()
        await eventually(lambda: _works(url), 30, 0.2)
        after = [await _post(url, number) for number in range(5)]
        assert None not in before
        assert None not in after
        told = {action_id for action_id in [*before, *during, *after] if action_id is not None}
        assert told <= await _accepted(tmp_path)
        assert dashboard.process.poll() is None
        assert await dashboard.stop() == 0
    finally:
        dashboard.end()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def _works(url: str) -> bool:
    try:
        return bool((await Api(url).get("/readyz"))["status"] == "ready")
    except (aiohttp.ClientError, AssertionError):
        return False
