"""A proxy in front of an object store that misbehaves as told: busy, cut, lost answers, silent, gone.

It serves on a thread of its own, so that synchronous tests and child processes can be faulted too. Faults are changed
while it runs; every request is noted with the fault that it met.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web
from yarl import URL

HOST = "127.0.0.1"
#: how long a request may go on after the end; 0 would mean for ever to aiohttp
_SHUTDOWN_S = 0.05
_OF_ONE_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})
_SLOW_DOWN = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your rate.</Message></Error>"


@dataclass
class Faults:
    """What goes wrong from now on; the numbers are shares of the requests, from 0 to 1."""

    #: 503 SlowDown, before anything is done
    slow_down: float = 0.0
    #: the connection is cut before anything is done
    drop: float = 0.0
    #: a PUT below `_versions` is carried out and its answer is cut: a commit whose writer does not know
    ambiguous: float = 0.0
    #: the same, but answered with 500 after it was carried out
    ambiguous_500: float = 0.0
    #: seconds that every request takes longer
    delay_s: float = 0.0
    #: requests are taken and never answered
    silent: bool = False
    #: If-None-Match is not passed on: a server that ignores conditions
    ignore_conditions: bool = False


@dataclass(frozen=True)
class Seen:
    """One request; `fault` is what it met, empty when it was passed on and answered."""

    method: str
    path: str
    at: float
    fault: str


@dataclass
class FaultProxy:
    """The proxy. `start` and `kill` it as often as needed: it keeps its port."""

    target: str
    port: int = 0
    faults: Faults = field(default_factory=Faults)
    seen: list[Seen] = field(default_factory=list)
    chance: random.Random = field(default_factory=lambda: random.Random(7))
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _runner: web.AppRunner | None = None
    _session: aiohttp.ClientSession | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def start(self) -> None:
        """Listen (again)."""
        self._run(self._start())

    def kill(self) -> None:
        """Cut every connection and listen no more."""
        self._run(self._kill())

    def heal(self) -> None:
        """No more faults, and listening."""
        self.faults = Faults()
        if self._runner is None:
            self.start()

    def met(self, fault: str) -> list[Seen]:
        """The requests that met this fault."""
        return [one for one in self.seen if one.fault == fault]

    def _run(self, work: object) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)  # type: ignore[arg-type]

    async def _start(self) -> None:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._session = aiohttp.ClientSession(auto_decompress=False)
        self._runner = web.AppRunner(app, shutdown_timeout=_SHUTDOWN_S, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _kill(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            for connection in list(runner.server.connections if runner.server else ()):
                connection.force_close()
                if connection.transport is not None:
                    connection.transport.abort()
            await runner.cleanup()
        if self._session is not None:
            await self._session.close()
        await self._end_what_is_left()

    async def _end_what_is_left(self) -> None:
        """What still serves a request of a connection that was cut ends now, while there is a loop."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        fault = self._fault_of(request)
        self.seen.append(Seen(request.method, request.raw_path, time.monotonic(), fault))
        if self.faults.delay_s:
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), self.faults.delay_s)
        match fault:
            case "silent":
                await asyncio.Event().wait()
            case "slow_down":
                return web.Response(status=503, body=_SLOW_DOWN, content_type="application/xml")
            case "drop":
                return self._cut(request)
            case _:
                pass
        answer = await self._pass_on(request)
        if fault == "ambiguous":
            return self._cut(request)
        return web.Response(status=500, body=_SLOW_DOWN) if fault == "ambiguous_500" else answer

    def _fault_of(self, request: web.Request) -> str:
        faults = self.faults
        if faults.silent:
            return "silent"
        commit = request.method == "PUT" and "/_versions/" in request.path
        shares = {
            "slow_down": faults.slow_down,
            "drop": faults.drop,
            "ambiguous": faults.ambiguous if commit else 0.0,
            "ambiguous_500": faults.ambiguous_500 if commit else 0.0,
        }
        return next((name for name, share in shares.items() if self.chance.random() < share), "")

    def _cut(self, request: web.Request) -> web.Response:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    async def _pass_on(self, request: web.Request) -> web.Response:
        assert self._session is not None
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _OF_ONE_HOP}
        if self.faults.ignore_conditions:
            headers.pop("If-None-Match", None)
        address = URL(self.target + request.raw_path, encoded=True)
        body = await request.read()
        async with self._session.request(request.method, address, headers=headers, data=body) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _OF_ONE_HOP}
            content = await answer.read()
        if request.method == "HEAD":
            kept["Content-Length"] = answer.headers.get("Content-Length", "0")
        return web.Response(status=answer.status, headers=kept, body=content)


@contextmanager
def fault_proxy(target: str) -> Iterator[FaultProxy]:
    """A running proxy in front of `target`."""
    proxy = FaultProxy(target)
    serving = threading.Thread(target=proxy._loop.run_forever, name="fault proxy", daemon=True)
    serving.start()
    proxy.start()
    try:
        yield proxy
    finally:
        with suppress(TimeoutError):
            proxy.kill()
        proxy._loop.call_soon_threadsafe(proxy._loop.stop)
        serving.join()
        proxy._loop.close()
