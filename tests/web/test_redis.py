"""A message queue in Redis is an extra: while it is killed and gone every client is fed from the tables."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from scripts.redis_server import find_redis
from store import append_agent_step
from tests.processes import HOST, Dashboard, start_dashboard, stored
from tests.remote import Api, Follower
from tests.support import eventually
from tests.web.client import LEAVES_CONNECTIONS
from tests.web.kit import step

pytestmark = [pytest.mark.slow, pytest.mark.process, *LEAVES_CONNECTIONS]


@dataclass
class Redis:
    """A real server that can be killed and started again on its port."""

    program: str
    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    def start(self) -> None:
        """Listen again."""
        options = ["--port", str(self.port), "--bind", HOST, "--save", "", "--dir", str(self.folder)]
        with (self.folder / "redis.log").open("ab") as log:
            # Debian's program is a server when it is called as one.
            self.process = subprocess.Popen(
                ["redis-server", *options], executable=self.program, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def kill(self) -> None:
        """`kill -9`."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    async def answers(self) -> None:
        """Return once it takes connections."""
        await eventually(self._listens, 20, 0.05)

    def _listens(self) -> bool:
        try:
            socket.create_connection((HOST, self.port), timeout=1).close()
        except OSError:
            return False
        return True


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    program = find_redis()
    if program is None:
        message = "no Redis to test with; on Debian: apt-get install redis-tools"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    server = Redis(program, tmp_path, port)
    server.start()
    yield server
    server.kill()


@pytest.fixture
async def pair(redis: Redis, tmp_path: Path) -> AsyncIterator[tuple[Dashboard, Dashboard]]:
    """Two web processes on one folder and one message queue."""
    await redis.answers()
    settings = {"STEPWELL_REDIS_URL": redis.url, "STEPWELL_ASYNC_MODE": "threading"}
    first = await start_dashboard(tmp_path, settings)
    try:
        second = await start_dashboard(tmp_path, settings)
        try:
            yield first, second
        finally:
            second.end()
    finally:
        first.end()


async def _write(folder: Path, numbers: range) -> None:
    async with stored(folder) as db:
        for number in numbers:
            await append_agent_step(db, step("s", number))


async def test_every_client_has_every_step_once_whatever_becomes_of_redis(
    redis: Redis, pair: tuple[Dashboard, Dashboard], tmp_path: Path
) -> None:
    room = {"session_id": "s"}
    early = [await Follower(web.url, room).join() for web in pair]
    await _write(tmp_path, range(10))
    await asyncio.gather(*[one.sees(10) for one in early])

    redis.kill()
    await _write(tmp_path, range(10, 30))
    await asyncio.gather(*[one.sees(30) for one in early])
    late = [await Follower(web.url, room).join() for web in pair]  # also those who come while it is away are greeted
    await _write(tmp_path, range(30, 40))
    await asyncio.gather(*[one.sees(40) for one in early], *[one.sees(10) for one in late])
    for web in pair:
        assert (await Api(web.url).get("/readyz"))["status"] == "ready"

    redis.start()
    await redis.answers()
    await _write(tmp_path, range(40, 50))
    await asyncio.gather(*[one.sees(50) for one in early], *[one.sees(20) for one in late])
    assert [one.iterations() for one in early] == [list(range(50))] * 2
    assert [one.iterations() for one in late] == [list(range(30, 50))] * 2
    # Each event came once: the message queue repeats nothing of what the tables tell.
    assert [len(list(one.seen("step"))) for one in early] == [50, 50]
    for one in (*early, *late):
        await one.leave()
