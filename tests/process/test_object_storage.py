"""The real programs on object storage: a whole story, and what they do when it is busy, away for a while, or wrong."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.faultproxy import FaultProxy, Faults, fault_proxy
from tests.objectstore import ObjectStore, aws, object_store
from tests.processes import HOST, TRACEBACK, Dashboard, start, start_dashboard
from tests.remote import Api, Follower
from tests.support import eventually
from tests.web.client import LEAVES_CONNECTIONS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.process,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("object storage"),
    *LEAVES_CONNECTIONS,
]


@dataclass(frozen=True)
class Cloud:
    """The programs on a bucket of their own behind a proxy."""

    dashboard: Dashboard
    proxy: FaultProxy

    @property
    def api(self) -> Api:
        return Api(self.dashboard.url)


@pytest.fixture(scope="module")
def objects() -> Iterator[ObjectStore]:
    with object_store() as found:
        yield found


@asynccontextmanager
async def cloud(objects: ObjectStore, folder: Path, **settings: str) -> AsyncIterator[Cloud]:
    with fault_proxy(objects.url) as proxy:
        where = {"STEPWELL_DATA": objects.bucket(), "STEPWELL_ASK_S": "0.2", **aws(proxy.url), **settings}
        dashboard = await start_dashboard(folder, where, with_worker=True)
        try:
            yield Cloud(dashboard, proxy)
        finally:
            proxy.heal()
            dashboard.end()
        assert TRACEBACK not in dashboard.errors()


async def test_a_session_tells_jokes_and_a_follower_sees_each_of_them_once(
    objects: ObjectStore, tmp_path: Path
) -> None:
    async with cloud(objects, tmp_path) as it:
        session_id = await it.api.start("joke", task="clouds", config={"interval_s": 0.2}, max_steps=5)
        follower = await Follower(it.dashboard.url, {"session_id": session_id}).join()
        told = await it.api.becomes(session_id, "stopped")
        assert told["reason"] == "max_steps 5 reached"
        steps = await it.api.steps(session_id)
        assert [step["iteration"] for step in steps] == list(range(5))
        assert all(step["text"] for step in steps)
        await eventually(lambda: follower.iterations()[-1:] == [4], 30)
        await follower.leave()
        assert await it.dashboard.stop() == 0
        assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(("share", "turns"), [(0.1, 4), (0.5, 2)])
async def test_no_turn_fails_while_the_store_is_busy(
    objects: ObjectStore, tmp_path: Path, share: float, turns: int
) -> None:
    async with cloud(objects, tmp_path, STEPWELL_REQUEST_S="60") as it:
        it.proxy.faults = Faults(slow_down=share)
        asked = [it.api.start("echo", config={"text": "busy", "steps": 3}) for _ in range(turns)]
        sessions = await asyncio.gather(*asked)
        await eventually(lambda: _all_done(it.api, sessions), 200, 0.5)
        it.proxy.heal()
        for session_id in sessions:
            assert [step["iteration"] for step in await it.api.steps(session_id)] == [0, 1, 2]
            assert {one["status"] for one in await it.api.actions(session_id)} == {"done"}
        assert len(it.proxy.met("slow_down")) > 20


async def _all_done(api: Api, sessions: list[str]) -> bool:
    return all(await asyncio.gather(*[_is(api, session_id, "done") for session_id in sessions]))


async def _is(api: Api, session_id: str, status: str) -> bool:
    """Whether a session has a status; a store that is too busy to say so is no answer."""
    try:
        return bool((await api.session(session_id))["status"] == status)
    except (AssertionError, aiohttp.ClientError):
        return False


async def _asked(url: str, path: str, body: Any = None) -> tuple[int, str, str | None, float]:
    """Status, content type, Retry-After and seconds of a request."""
    began = time.monotonic()
    async with aiohttp.ClientSession() as session:
        method = "GET" if body is None else "POST"
        async with session.request(method, url + path, json=body) as answer:
            await answer.read()
            took = time.monotonic() - began
            return answer.status, answer.content_type, answer.headers.get("Retry-After"), took


async def test_away_for_a_moment_nobody_notices(objects: ObjectStore, tmp_path: Path) -> None:
    async with cloud(objects, tmp_path, STEPWELL_REQUEST_S="60") as it:
        session_id = await it.api.start("echo", config={"text": "on and on", "steps": 12, "delay_s": 0.2})
        await it.api.has_steps(session_id, 3)
        it.proxy.kill()
        asked = asyncio.create_task(it.api.start("echo", config={"text": "asked meanwhile"}))
        await asyncio.wait([asked], timeout=4.0)
        assert not asked.done()
        it.proxy.heal()
        await it.api.becomes(await asked, "done")
        await it.api.becomes(session_id, "done")
        assert [step["iteration"] for step in await it.api.steps(session_id)] == list(range(12))
        assert "lost its store" not in it.dashboard.errors()


@pytest.mark.parametrize("how", ["gone", "silent"])
async def test_away_for_long_requests_are_refused_and_sessions_go_on_by_themselves(
    objects: ObjectStore, tmp_path: Path, how: str
) -> None:
    async with cloud(objects, tmp_path, STEPWELL_PATIENCE_S="1", STEPWELL_REQUEST_S="3") as it:
        api, url = it.api, it.dashboard.url
        session_id = await api.start("echo", config={"text": "on and on", "steps": 14, "delay_s": 0.3})
        await api.has_steps(session_id, 3)
        if how == "gone":
            it.proxy.kill()
        else:
            it.proxy.faults.silent = True
        posts = [_asked(url, "/api/agents", {"moniker": "echo", "config": {"text": str(n)}}) for n in range(25)]
        answers = await asyncio.gather(*posts, _asked(url, "/readyz"), _asked(url, "/healthz"))
        for status, kind, after, took in answers[:-1]:
            assert (status, kind) == (503, "application/problem+json")
            assert int(after or 0) >= 1
            assert took < 3.0 + 3.0
        assert answers[-1][0] == 200
        if how == "gone":
            await it.dashboard.says("a session lost its store")
        it.proxy.heal()
        await eventually(lambda: _is_ready(url), 60, 0.2)
        await eventually(lambda: _is(api, session_id, "done"), 120, 0.5)
        assert [step["iteration"] for step in await api.steps(session_id)] == list(range(14))
        again = await api.start("echo", config={"text": "after it"})
        await eventually(lambda: _is(api, again, "done"), 60, 0.2)
        counts = (await api.get("/api/queue?limit=1"))["counts"]
        assert (counts["dead"], counts["failed"]) == (0, 0)


async def _is_ready(url: str) -> bool:
    return (await _asked(url, "/readyz"))[0] == 200


async def test_programs_refuse_a_store_that_would_lose_rows(objects: ObjectStore, tmp_path: Path) -> None:
    with fault_proxy(objects.url) as proxy:
        proxy.faults.ignore_conditions = True
        where = {"STEPWELL_DATA": objects.bucket(), **aws(proxy.url)}
        programs = [start(tmp_path / "a", "agents.py", **where)]
        programs.append(start(tmp_path / "b", "app.py", "--host", HOST, "--port", "0", **where))
        try:
            assert await asyncio.gather(*[program.ended() for program in programs]) == [2, 2]
            for program in programs:
                assert "ignores conditions on PUT" in program.errors()
                assert TRACEBACK not in program.errors()
        finally:
            for program in programs:
                program.end()
