"""Starting, stopping and starting again."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from pathlib import Path

import pytest
import requests

from store import append_agent_step
from tests.support import eventually
from tests.web.client import LEAVES_CONNECTIONS, Client
from tests.web.kit import CATALOGUE, MODEL, opener, step
from tests.web.served import HOST, Served, start
from web.factory import create_app
from web.ports import NoFreePortError, free_port
from web.server import Stop, serve
from web.settings import AsyncMode, WebSettings

pytestmark = LEAVES_CONNECTIONS


@pytest.mark.process
@pytest.mark.parametrize("mode", ["eventlet", "threading"])
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_cleanly_while_clients_are_connected(tmp_path: Path, mode: str, how: signal.Signals) -> None:
    served = start(tmp_path / "data", mode, tmp_path / "log")

    async def stop_under_load() -> int:
        clients = [await Client(served.url).connect(transport) for transport in ("websocket", "polling")]
        await asyncio.gather(*[client.ask("subscribe", {"topic": "queue"}) for client in clients])
        code = await asyncio.to_thread(served.stop, how)
        await asyncio.gather(*[client.leave() for client in clients])
        return code

    assert asyncio.run(stop_under_load()) == 0
    assert served.log.read_text() == ""


@pytest.mark.process
@pytest.mark.parametrize("mode", ["eventlet", "threading"])
def test_a_client_bridges_a_killed_server(tmp_path: Path, mode: str) -> None:
    async def cursor_before(served: Served) -> tuple[str, str]:
        client = await Client(served.url).connect()
        answer = await client.ask("subscribe", {"session_id": "s1"})
        served.process.kill()
        served.process.wait(90)
        await eventually(lambda: not client.io.connected)
        await client.leave()
        return str(answer["cursor"]), str(client.hello["boot_id"])

    async def store_steps() -> None:
        db = await opener(tmp_path / "data")()
        for n in range(3):
            await append_agent_step(db, step("s1", n))
        await db.store.close()

    async def missed_after(served: Served, cursor: str) -> tuple[list[str], str]:
        client = await Client(served.url).connect()
        answer = await client.ask("subscribe", {"session_id": "s1", "cursor": cursor})
        await client.leave()
        return [one["data"]["id"] for one in answer["missed"]], str(client.hello["boot_id"])

    first = start(tmp_path / "data", mode, tmp_path / "log1")
    cursor, boot = asyncio.run(cursor_before(first))
    asyncio.run(store_steps())
    second = start(tmp_path / "data", mode, tmp_path / "log2")
    ids, next_boot = asyncio.run(missed_after(second, cursor))
    assert ids == ["s1:0", "s1:1", "s1:2"]
    assert next_boot != boot
    assert second.stop() == 0


def test_a_thread_can_serve_and_be_stopped(tmp_path: Path) -> None:
    settings = WebSettings(async_mode=AsyncMode.THREADING, port=free_port(HOST, 0))
    web, stop = create_app(settings, opener(tmp_path / "data"), CATALOGUE, MODEL), Stop()
    thread = threading.Thread(target=serve, args=(web,), kwargs={"stop": stop})
    thread.start()
    asyncio.run(eventually(lambda: _answers(settings.port), 30))
    stop.request()
    stop.request()
    thread.join(30)
    assert not thread.is_alive()
    assert not _answers(settings.port)
    stop.close()


def _answers(port: int) -> bool:
    try:
        return requests.get(f"http://{HOST}:{port}/healthz", timeout=5).ok
    except requests.ConnectionError:
        return False


def test_a_taken_port_is_an_error(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        settings = WebSettings(async_mode=AsyncMode.THREADING, port=taken.getsockname()[1])
        web = create_app(settings, opener(tmp_path / "data"), CATALOGUE, MODEL)
        with pytest.raises(OSError, match="port"):
            serve(web)


def test_the_next_free_port_is_found() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert port < free_port(HOST, port) <= port + 100
    assert free_port(HOST, 0) > 0
    with pytest.raises(NoFreePortError):
        free_port("203.0.113.1", 5055)  # an address that no machine has


def test_a_store_that_cannot_be_opened_leaves_nothing_running(tmp_path: Path) -> None:
    async def broken() -> None:
        raise OSError("no disk")

    before = threading.active_count()
    with pytest.raises(OSError, match="no disk"):
        create_app(WebSettings(async_mode=AsyncMode.THREADING), broken, CATALOGUE, MODEL)  # type: ignore[arg-type]
    assert threading.active_count() == before
