"""A client that stops reading is let go at its limit; the others are not hurt, and whoever was cut misses nothing."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import websocket

from store import TenantStore, append_agent_step
from tests.remote import Follower
from tests.support import eventually
from tests.web.client import LEAVES_CONNECTIONS
from tests.web.kit import opener, step
from tests.web.served import HOST, Served, start

pytestmark = [pytest.mark.slow, pytest.mark.process, *LEAVES_CONNECTIONS]

STEPS = 400
LIMIT = 50
BIG = "x" * 50_000


@dataclass(frozen=True)
class Site:
    """A served process and the folder it serves."""

    served: Served
    folder: Path

    def rss_mb(self) -> float:
        """Memory of the process."""
        pages = int(Path(f"/proc/{self.served.process.pid}/statm").read_text().split()[1])
        return pages * 4096 / 1e6


@pytest.fixture(params=["eventlet", "threading"])
def site(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("STEPWELL_CLIENT_BUFFER", str(LIMIT))
    served = start(tmp_path / "data", request.param, tmp_path / "log")
    yield Site(served, tmp_path / "data")
    assert served.stop() == 0
    assert "Traceback" not in served.log.read_text()


@pytest.fixture
async def db(site: Site) -> AsyncIterator[TenantStore]:
    found = await opener(site.folder)()
    yield found
    await found.store.close()


class Sleeper:
    """A client that subscribes and then reads nothing more, as one whose machine fell asleep."""

    def __init__(self, port: int, room: str) -> None:
        self.raw = raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # little is kept for it on the way
        raw.connect((HOST, port))
        address = f"ws://{HOST}:{port}/socket.io/?EIO=4&transport=websocket"
        self.ws = websocket.create_connection(address, socket=raw, timeout=20)
        self._until("0{")
        self.ws.send("40")
        self._until("40{")
        self.ws.send(f'420["subscribe",{{"session_id":"{room}"}}]')
        self._until("430[")

    def _until(self, beginning: str) -> None:
        while not str(self.ws.recv()).startswith(beginning):
            pass

    def cut(self) -> bool:
        """Whether the server has let go: what is still on the way ends."""
        self.raw.settimeout(0.2)
        try:
            while self.raw.recv(1 << 20):
                pass
        except TimeoutError:
            return False
        except OSError:
            return True
        return True


async def test_a_client_that_stops_reading_is_let_go_and_hurts_nobody(site: Site, db: TenantStore) -> None:
    good = await Follower(site.served.url, {"session_id": "busy"}).join()
    sleepers = [await asyncio.to_thread(Sleeper, site.served.port, "busy") for _ in range(3)]
    before, latest = site.rss_mb(), 0.0
    for number in range(STEPS):
        stored = time.monotonic()
        await append_agent_step(db, step("busy", number, text=BIG))
        await good.sees(number + 1)
        latest = max(latest, time.monotonic() - stored)
    assert good.iterations() == list(range(STEPS))
    assert latest < 3.0
    assert site.rss_mb() - before < 250
    await eventually(lambda: site.served.log.read_text().count("does not read what it is sent") == 3, 15, 0.1)
    for sleeper in sleepers:
        await eventually(lambda one=sleeper: asyncio.to_thread(one.cut), 15, 0.1)  # type: ignore[misc]
        sleeper.raw.close()
    await good.leave()


async def test_a_client_that_was_cut_comes_back_and_has_missed_nothing(site: Site, db: TenantStore) -> None:
    follower = await Follower(site.served.url, {"session_id": "s"}).join()
    for number in range(5):
        await append_agent_step(db, step("s", number))
    await follower.sees(5)
    assert follower.client is not None
    await follower.client.io.eio.ws.close()  # without a word of Socket.IO
    await follower.cut()
    for number in range(5, 60):
        await append_agent_step(db, step("s", number))
    began = time.monotonic()
    await follower.join()
    await follower.sees(60)
    assert time.monotonic() - began < 5.0
    assert follower.iterations() == list(range(60))
    await follower.leave()


async def test_a_burst_beyond_the_limit_is_no_reason_to_let_a_reading_client_go(site: Site, db: TenantStore) -> None:
    good = await Follower(site.served.url, {"session_id": "s"}).join()
    await asyncio.gather(*[append_agent_step(db, step("s", number)) for number in range(LIMIT * 6)])
    await good.sees(LIMIT * 6)
    assert "does not read" not in site.served.log.read_text()
    await good.leave()
