"""A steady load through the doors that users have: sessions that step, REST calls, a socket client."""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import aiohttp
import socketio

from store import filters
from store.agent_requests import agent_create
from store.agent_state import SessionStatus, list_states_in
from store.agent_steps import journal_of
from store.changes import Feed
from store.database import TenantStore
from store.ids import SessionId

_PROBE_EVERY_S = 0.5
_INPUT_EVERY_S = 0.2
_READ_EVERY_S = 0.5
_DEADLINE_S = 30.0


@dataclass(frozen=True, slots=True)
class LoadRules:
    """How much is asked for. With `delay_s` 0 the sessions step as fast as they are let."""

    sessions: int = 300
    delay_s: float = 0.5


@dataclass(slots=True)
class Samples:
    """What was measured since they were last taken, in seconds."""

    first_steps: list[float] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)
    events: list[float] = field(default_factory=list)
    inputs: int = 0


class Load:
    """The load on one web process and its store. `samples` is filled while `run` runs."""

    def __init__(self, db: TenantStore, address: str, rules: LoadRules) -> None:
        self._db = db
        self._address = address
        self._rules = rules
        self._steppers = [SessionId(f"stepper-{number}") for number in range(rules.sessions)]
        self.samples = Samples()

    def take(self) -> Samples:
        """The samples so far; counting begins anew."""
        taken, self.samples = self.samples, Samples()
        return taken

    async def begin(self) -> None:
        """Create the sessions and return when all of them step."""
        spec = {"task": "hello from the well", "config": {"steps": None, "delay_s": self._rules.delay_s}}
        creates = [agent_create(self._db, moniker="echo", session_id=name, spec=spec) for name in self._steppers]
        await asyncio.gather(*creates)
        async with asyncio.timeout(_DEADLINE_S):
            while len(await list_states_in(self._db, [SessionStatus.RUNNING])) < len(self._steppers):
                await asyncio.sleep(0.2)

    async def run(self) -> None:
        """Ask, say, read and listen until cancelled; raises what any of these raises."""
        async with aiohttp.ClientSession(self._address) as client, asyncio.TaskGroup() as group:
            group.create_task(self._probe(client))
            group.create_task(self._say(client))
            group.create_task(self._read(client))
            group.create_task(self._listen(client))

    async def _probe(self, client: aiohttp.ClientSession) -> None:
        """From the POST of a create until its first step's commit is seen by this process."""
        journal = journal_of(self._db)
        async with self._db.store.watch("agent_steps") as watch:
            while True:
                feed = Feed(journal, "created", await journal.version())
                began = time.perf_counter()
                made = await _post(client, "/api/agents", {"moniker": "echo", "task": "hello"})
                mine = filters.equals("session_id", made["session_id"])
                seen = began
                while not await feed.poll(mine, columns=["id", "session_id"]):
                    await asyncio.wait_for(watch.wait(), _DEADLINE_S)
                    seen = time.perf_counter()
                self.samples.first_steps.append(seen - began)
                await asyncio.sleep(_PROBE_EVERY_S)

    async def _say(self, client: aiohttp.ClientSession) -> None:
        for name in itertools.cycle(self._steppers):
            await _post(client, f"/api/sessions/{name}/input", {"text": "hello"})
            self.samples.inputs += 1
            await asyncio.sleep(_INPUT_EVERY_S)

    async def _read(self, client: aiohttp.ClientSession) -> None:
        for name in itertools.cycle(self._steppers):
            began = time.perf_counter()
            async with client.get("/api/agent-steps/latest", params={"session_id": name, "limit": "20"}) as answer:
                await answer.read()
                answer.raise_for_status()
            self.samples.reads.append(time.perf_counter() - began)
            await asyncio.sleep(_READ_EVERY_S)

    async def _listen(self, session: aiohttp.ClientSession) -> None:
        """From a step's own time stamp until its event is here."""
        client = socketio.AsyncClient(http_session=session)

        def heard(step: dict[str, Any]) -> None:
            stamped = datetime.fromisoformat(step["created_at"])
            self.samples.events.append((datetime.now(UTC) - stamped).total_seconds())

        client.on("step", heard)
        await client.connect(self._address, transports=["websocket"])
        try:
            await client.call("subscribe", {"session_id": self._steppers[0]})
            await client.wait()
        finally:
            await client.disconnect()


async def _post(client: aiohttp.ClientSession, path: str, body: dict[str, Any]) -> Any:
    async with client.post(path, json=body) as answer:
        answer.raise_for_status()
        return await answer.json()
