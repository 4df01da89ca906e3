"""From a POST to the first stored step, across three processes; and from a committed step to a subscribed client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import socketio

from bench.machine import emit, summary_ms
from bench.processes import eventually, folder, opened, process, worker_ready
from store.agent_steps import journal_of
from store.changes import Feed
from store.database import Store
from web.ports import free_port

_PAUSE_S = 0.02


@asynccontextmanager
async def served(path: Path, **settings: str) -> AsyncIterator[str]:
    """The address of a real web process with a real worker on the store in `path`, in this environment."""
    port = free_port("127.0.0.1", 5300)
    address = f"http://127.0.0.1:{port}"
    with process(path, "app.py", "--with-worker", "--port", str(port), **settings):

        async def up() -> bool:
            try:
                async with aiohttp.ClientSession() as client, client.get(f"{address}/healthz") as answer:
                    return answer.status == 200
            except aiohttp.ClientError:
                return False

        await eventually(up, 60.0)
        yield address


async def latency(times: int) -> None:
    """Print the figure: from the POST of a create until its first step's commit is seen by a third process."""
    with folder() as path:
        async with opened(path) as store, served(path) as address:
            await worker_ready(store)
            async with aiohttp.ClientSession() as client:
                await _first_steps(client, address, store, 10)
                taken = await _first_steps(client, address, store, times)
    emit("post_to_first_step_stored", path.parent, **summary_ms(taken))


async def _first_steps(client: aiohttp.ClientSession, address: str, store: Store, times: int) -> list[float]:
    taken = []
    journal = journal_of(store.tenant())
    async with store.watch("agent_steps") as watch:
        for _ in range(times):
            feed = Feed(journal, "created", await journal.version())
            began = time.perf_counter()
            body = {"moniker": "echo", "task": "hello"}
            async with client.post(f"{address}/api/agents", json=body) as answer:
                session_id = (await answer.json())["session_id"]
            seen = began
            while not any(row.item.session_id == session_id for row in await feed.poll()):
                await asyncio.wait_for(watch.wait(), 10)
                seen = time.perf_counter()
            taken.append(seen - began)
            await asyncio.sleep(_PAUSE_S)
    return taken


async def live(times: int) -> None:
    """Print the figure: from a step's commit, as another process sees it, to its event at a subscribed client."""
    with folder() as path:
        async with opened(path) as store, served(path) as address:
            await worker_ready(store)
            taken = await _step_events(address, store, times)
    emit("step_to_event", path.parent, **summary_ms(taken))


async def _step_events(address: str, store: Store, times: int) -> list[float]:
    arrived: dict[int, float] = {}
    stored: dict[int, float] = {}
    client = socketio.AsyncClient()
    client.on("step", lambda step: arrived.setdefault(step["iteration"], time.perf_counter()))
    await client.connect(address, transports=["websocket"])
    async with aiohttp.ClientSession() as http:
        body: dict[str, Any] = {"moniker": "echo", "task": "hello", "config": {"steps": None, "delay_s": 0.05}}
        async with http.post(f"{address}/api/agents", json=body) as answer:
            session_id = (await answer.json())["session_id"]
    await client.call("subscribe", {"session_id": session_id})
    journal = journal_of(store.tenant())
    feed = Feed(journal, "created", await journal.version())
    async with store.watch("agent_steps") as watch:
        while len(stored) < times:
            await asyncio.wait_for(watch.wait(), 10)
            seen = time.perf_counter()
            for row in await feed.poll():
                stored.setdefault(row.item.iteration, seen)
    await asyncio.sleep(0.5)
    await client.disconnect()
    # The first ones may have been stored before the subscription was.
    return [max(0.0, arrived[number] - seen) for number, seen in sorted(stored.items())[5:] if number in arrived]
