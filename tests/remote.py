"""What a program elsewhere would use to work with a running dashboard: its HTTP API, and a room followed by cursor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.support import eventually
from tests.web.client import Client

PATIENCE_S = 60.0


@dataclass(frozen=True)
class Api:
    """The HTTP API of a dashboard."""

    url: str

    async def get(self, path: str, expect: int = 200) -> Any:
        """GET; the answer's JSON."""
        async with aiohttp.ClientSession() as session, session.get(self.url + path) as answer:
            assert answer.status == expect, await answer.text()
            return await answer.json()

    async def post(self, path: str, body: Any = None, expect: int = 202) -> Any:
        """POST; the answer's JSON."""
        async with aiohttp.ClientSession() as session, session.post(self.url + path, json=body or {}) as answer:
            assert answer.status == expect, await answer.text()
            return await answer.json()

    async def start(self, moniker: str, **request: Any) -> str:
        """Start an agent; the id of its session."""
        return str((await self.post("/api/agents", {"moniker": moniker, **request}))["session_id"])

    async def session(self, session_id: str) -> Any:
        """A session's state."""
        return await self.get(f"/api/sessions/{session_id}")

    async def control(self, session_id: str, word: str, **body: Any) -> str:
        """Pause, resume, interrupt ... a session; the id of the action."""
        return str((await self.post(f"/api/sessions/{session_id}/{word}", body))["action_id"])

    async def becomes(self, session_id: str, status: str) -> Any:
        """The session's state, once it has this status."""
        await eventually(lambda: self._is(f"/api/sessions/{session_id}", status), PATIENCE_S, 0.05)
        return await self.session(session_id)

    async def done(self, action_id: str) -> None:
        """Return once an action is done."""
        await eventually(lambda: self._is(f"/api/queue/{action_id}", "done"), PATIENCE_S, 0.05)

    async def steps(self, session_id: str) -> list[Any]:
        """All steps of a session, in order."""
        found: list[Any] = []
        more = f"/api/agent-steps?session_id={session_id}&order=asc&limit=100"
        path: str | None = more
        while path:
            page = await self.get(path)
            found += page["items"]
            path = f"{more}&cursor={page['next_cursor']}" if page["next_cursor"] else None
        return found

    async def has_steps(self, session_id: str, count: int) -> None:
        """Return once a session has so many steps."""

        async def enough() -> bool:
            latest = await self.get(f"/api/agent-steps?session_id={session_id}&order=desc&limit=1")
            return bool(latest["items"]) and latest["items"][0]["iteration"] + 1 >= count

        await eventually(enough, PATIENCE_S, 0.05)

    async def actions(self, session_id: str) -> list[Any]:
        """All actions for a session, newest first."""
        return list((await self.get(f"/api/queue?session_id={session_id}"))["items"])

    async def _is(self, path: str, status: str) -> bool:
        async with aiohttp.ClientSession() as session, session.get(self.url + path) as answer:
            found = await answer.json()
            return answer.status == 200 and found["status"] == status


@dataclass
class Follower:
    """Follows one room through any number of connections; keeps all it is sent, and the cursor to go on from."""

    url: str
    room: dict[str, str]
    events: list[tuple[str, Any]] = field(default_factory=list)
    cursor: str | None = None
    client: Client | None = None
    caught_up: int = 0

    async def join(self) -> Follower:
        """Connect and subscribe, from the cursor on when there is one."""
        self.cursor = self._newest()
        self.client = Client(self.url, events=self.events)
        await self.client.connect()
        more = True
        while more:
            here = len(self.events)
            spec = self.room | ({"cursor": self.cursor} if self.cursor else {})
            answer = await self.client.ask("subscribe", spec)
            assert answer["ok"], answer
            missed = [(event["event"], event["data"]) for event in answer["missed"]]
            self.events[here:here] = missed  # what came in between came after
            self.caught_up = here + len(missed)
            self.cursor, more = answer["cursor"], answer["more"]
        return self

    async def leave(self) -> None:
        """Disconnect."""
        if self.client is not None:
            await self.client.leave()

    async def cut(self) -> None:
        """Return once the other side is gone, then clean up here."""
        client = self.client
        assert client is not None
        await eventually(lambda: not client.io.connected, PATIENCE_S)
        await self.leave()

    def seen(self, kind: str) -> Iterator[Any]:
        """The events of one kind, in the order in which they came."""
        return (data for event, data in self.events if event == kind)

    def steps(self) -> list[Any]:
        """The steps in the order in which they came, each once, as a page shows them."""
        return list({step["id"]: step for step in self.seen("step")}.values())

    def iterations(self) -> list[int]:
        """The numbers of `steps`."""
        return [step["iteration"] for step in self.steps()]

    async def sees(self, count: int) -> None:
        """Return once so many steps came."""
        await eventually(lambda: len(self.steps()) >= count, PATIENCE_S)

    def _newest(self) -> str | None:
        live = self.events[self.caught_up :]
        cursors = [data["cursor"] for _, data in live if isinstance(data, dict) and data.get("cursor")]
        return cursors[-1] if cursors else self.cursor
