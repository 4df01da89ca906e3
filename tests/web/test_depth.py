"""The bound of the queue's depth."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from store import ActionStatus, StoreUnavailableError, mark_action_processed_async
from store.clock import SystemIds
from store.database import open_store
from store.ids import ActionId
from store.options import StoreOptions
from store.testing import FrozenClock
from tests.support import eventually
from tests.web.kit import CATALOGUE, MODEL, Caller, opener
from web import depth as module
from web.depth import QueueDepth
from web.factory import Web, create_app
from web.problems import RefusedError
from web.settings import AsyncMode, WebSettings


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Web]:
    """A web process whose queue takes three actions."""
    settings = WebSettings(async_mode=AsyncMode.THREADING, max_queue=3)
    made = create_app(settings, opener(tmp_path / "data"), CATALOGUE, MODEL)
    yield made
    made.close()


def test_a_full_queue_takes_no_more_work_but_control_passes(small: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FRESH_S", 0.0)
    api = Caller(small.app.test_client())
    made = [api.post("/api/agents", {"moniker": "echo", "session_id": f"s{number}"}) for number in range(3)]
    api.post("/api/conversations", {"conversation_id": "c"}, 201)
    refused = small.app.test_client().post("/api/agents", json={"moniker": "echo"})
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "5")
    assert "3 is its limit" in refused.get_json()["detail"]
    for path, body in [
        ("/api/agents", {"moniker": "echo"}),
        ("/api/sessions/s0/input", {"text": "x"}),
        ("/api/sessions/s0/interrupt", {"guidance": "x"}),
        ("/api/sessions/s0/fork", {}),
        ("/api/agents/echo/input", {"text": "x"}),
        ("/api/conversations/c/messages", {"text": "x"}),
        (f"/api/queue/{made[0]['action_id']}/requeue", {}),
    ]:
        api.post(path, body, 429)
    for word in ("pause", "resume", "destroy"):
        api.post(f"/api/sessions/s0/{word}")
    api.post(f"/api/queue/{made[2]['action_id']}/cancel")
    api.get("/api/queue")
    ended = [ActionId(row["id"]) for row in api.get("/api/queue")["items"]]
    small.bridge.run(_end_all(small, ended))

    async def room() -> bool:
        return small.app.test_client().post("/api/agents", json={"moniker": "echo"}).status_code == 202

    asyncio.run(eventually(room))


async def enter(depth: QueueDepth) -> None:
    """Put one action in, or be refused."""
    async with depth.room():
        pass


async def _end_all(web: Web, action_ids: list[ActionId]) -> None:
    marks = [mark_action_processed_async(web.db, one, status=ActionStatus.DONE) for one in action_ids]
    await asyncio.gather(*marks)


async def test_a_request_reads_nothing_while_the_count_is_fresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, answers = [0], [5]

    async def count(_: Any) -> int:
        reads[0] += 1
        return answers[0]

    monkeypatch.setattr(module, "count_open_actions", count)
    clock = FrozenClock()
    store = await open_store(StoreOptions(str(tmp_path)), clock=clock, ids=SystemIds())
    depth = QueueDepth(store.tenant(), 10)
    for _ in range(5):
        await enter(depth)
    assert reads == [1]
    with pytest.raises(RefusedError):
        await enter(depth)
    answers[0] = 0
    clock.advance(2)
    with pytest.raises(RefusedError):
        await enter(depth)  # it counts in the background
    await eventually(lambda: reads == [2])
    for _ in range(10):
        await enter(depth)
    with pytest.raises(RefusedError):
        await enter(depth)
    await store.close()


async def test_requests_that_are_at_it_count(tmp_path: Path) -> None:
    store = await open_store(StoreOptions(str(tmp_path)), clock=FrozenClock(), ids=SystemIds())
    depth = QueueDepth(store.tenant(), 2)
    async with depth.room(), depth.room():
        with pytest.raises(RefusedError):
            await enter(depth)
    await store.close()


async def test_a_queue_that_cannot_be_counted_keeps_its_last_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(_: Any) -> int:
        raise StoreUnavailableError("gone")

    store = await open_store(StoreOptions(str(tmp_path)), clock=FrozenClock(), ids=SystemIds())
    depth = QueueDepth(store.tenant(), 2)
    await enter(depth)
    monkeypatch.setattr(module, "count_open_actions", fails)
    monkeypatch.setattr(module, "FRESH_S", 0.0)
    await enter(depth)
    with pytest.raises(RefusedError):
        await enter(depth)
    for _ in range(100):
        await enter(QueueDepth(store.tenant(), 0))
    await store.close()
