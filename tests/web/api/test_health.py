"""Health, and the monikers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from store import Worker
from store.ids import WorkerId
from store.workers import WorkerStatus, save_worker
from tests.web.kit import CATALOGUE, Caller
from web.factory import Web
from web.version import VERSION


def _worker(web: Web, **given: Any) -> Worker:
    now = web.db.clock.now()
    values: dict[str, Any] = {
        "epoch": 1,
        "status": WorkerStatus.RUNNING,
        "model": "gpt-oss",
        "started_at": now,
        "heartbeat_at": now,
        **given,
    }
    return Worker(
        worker_id=WorkerId("w1"), host="h", pid=1, monikers=["echo"], heartbeat_s=60.0, journal_version=1, **values
    )


def test_the_process_is_up(api: Caller) -> None:
    assert api.get("/healthz") == {"status": "ok", "version": VERSION}


def test_ready_tells_whether_a_worker_is_alive(web: Web, api: Caller, run: Callable[[Any], Any]) -> None:
    assert api.get("/readyz")["worker"] == {"alive": False, "count": 0}
    run(save_worker(web.db, _worker(web)))
    assert api.get("/readyz")["worker"] == {"alive": True, "count": 1}
    run(save_worker(web.db, _worker(web, heartbeat_at=web.db.clock.now() - timedelta(hours=1))))
    assert api.get("/readyz")["worker"] == {"alive": False, "count": 0}


def test_the_frame_shows_the_living_workers_model(web: Web, api: Caller, run: Callable[[Any], Any]) -> None:
    assert run(web.door.api.vitals.fresh()).frame() == {
        "model": {"label": "offline", "offline": True},
        "worker": {"alive": False, "count": 0},
        "badges": {"sessions": 0, "approvals": 0, "queue": 0, "tools": 0},
        "version": VERSION,
    }
    run(save_worker(web.db, _worker(web)))
    assert run(web.door.api.vitals.fresh()).frame()["model"] == {"label": "gpt-oss", "offline": False}


def test_without_a_store_it_is_not_ready_but_up(api: Caller, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "data")
    assert api.get("/healthz")["status"] == "ok"
    api.get("/readyz", 503)
    assert api.client.get("/api/queue").headers["Retry-After"]


def test_the_monikers(api: Caller) -> None:
    found = api.get("/api/monikers")
    assert [one["name"] for one in found["items"]] == list(CATALOGUE)
    assert found["items"][0]["config_schema"] == CATALOGUE["echo"].config_schema
    assert found["items"][0]["task_field"] == "text"
