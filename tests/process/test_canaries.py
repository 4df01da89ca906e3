"""Canary secrets in every setting, errors of all sorts, and then a look at everything that stays or is shown (S42)."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import click
import lancedb
import pytest
from click.testing import CliRunner

import agents
import app
from runtime.sandbox.child import child
from tests.llmserver import Answer, Asked, llm_server, refused, said
from tests.processes import Dashboard, start_dashboard
from tests.remote import Api

pytestmark = [pytest.mark.process, pytest.mark.slow]

CANARIES = {
    "OPENAI_API_KEY": "velvet-otter-9917-harbour",
    "AWS_SECRET_ACCESS_KEY": "marble-heron-2214-orchard",
    "AWS_SESSION_TOKEN": "copper-finch-7305-lantern",
    "MCP_SEARCH_TOKEN": "silver-badger-4410-meadow",
    "DATABASE_PASSWORD": "amber-walrus-8862-canyon",
}
IN_FILE = "quartz-magpie-3178-thicket"
IN_ADDRESS = "indigo-ferret-5591-gravel"
ALL = [*CANARIES.values(), IN_FILE, IN_ADDRESS]


def answer(asked: Asked) -> Answer:
    """A provider that repeats the key, and whatever else it saw, in every way that it can."""
    prompt, echo = json.dumps(asked.body), " ".join(ALL)
    if "mode-auth" in prompt:
        return refused(401, f"Incorrect API key provided: {asked.key}; {echo}")
    if "mode-server" in prompt:
        return refused(500, f"failed for {asked.key}; {echo}")
    if "mode-request" in prompt:
        return refused(400, f"bad request of {asked.key}; {echo}")
    return said(f"I was called with {asked.key}; {echo}")


async def test_no_secret_is_stored_logged_or_shown(tmp_path: Path) -> None:
    (tmp_path / "guard.key").write_text(IN_FILE)
    (tmp_path / "guard.key").chmod(0o600)
    (tmp_path / "notes.md").write_text("# Notes\n\nThe keys are " + " and ".join(ALL) + ".\n")
    async with llm_server() as endpoint:
        endpoint.otherwise = answer
        settings = {
            **CANARIES,
            "STEPWELL_GUARD_KEY": str(tmp_path / "guard.key"),
            "CACHE_URL": f"redis://:{IN_ADDRESS}@127.0.0.1:1/0",
            "OPENAI_BASE_URL": endpoint.url,
            "STEPWELL_MAX_ATTEMPTS": "2",
            "STEPWELL_RETRY_CAP_S": "0.1",
            "STEPWELL_LOG_LEVEL": "debug",
        }
        dashboard = await start_dashboard(tmp_path, settings, with_worker=True)
        try:
            sessions = await provoke(Api(dashboard.url))
            answers = "\n".join([text async for text in everything_answered(dashboard, sessions)])
        finally:
            dashboard.end()
        assert len(endpoint.asked) >= 6, "the endpoint was really asked"
        assert all(asked.key == CANARIES["OPENAI_API_KEY"] for asked in endpoint.asked)
    assert "redacted OPENAI_API_KEY" in answers, "the errors and texts did reach the pages"
    assert found_in(answers) == []
    assert found_in(dashboard.output() + dashboard.errors()) == []
    assert found_in("\n".join(rows_of(tmp_path / "data"))) == []
    for file in (tmp_path / "data").rglob("*"):
        if file.is_file():
            assert found_in(file.read_bytes().decode("latin-1")) == [], file


async def provoke(api: Api) -> list[str]:
    """Sessions that go wrong in every way, and some that do well and say what they must not."""
    failing = [
        await api.start("joke", task=f"a joke about mode-{mode}", config={"interval_s": 0}, max_steps=1)
        for mode in ("auth", "server", "request")
    ]
    failing.append(await api.start("prompted", task="Mend the stairs"))
    well = [
        await api.start("joke", task="buckets", config={"interval_s": 0}, max_steps=1),
        await api.start("summarize", config={"path": "notes.md"}),
    ]
    for session in failing:
        await api.becomes(session, "error")
    await api.becomes(well[0], "stopped")
    await api.becomes(well[1], "done")
    return [*failing, *well]


async def everything_answered(dashboard: Dashboard, sessions: list[str]) -> Any:
    paths = ["/api/sessions", "/api/queue", "/api/agents", "/api/workers", "/frame", "/readyz", "/metrics", "/sessions"]
    for session in sessions:
        paths += [f"/api/sessions/{session}", f"/api/sessions/{session}/steps", f"/sessions/{session}"]
    async with aiohttp.ClientSession() as client:
        for path in paths:
            async with client.get(dashboard.url + path) as response:
                yield f"{path} {response.status} {await response.text()}"


def rows_of(folder: Path) -> Iterator[str]:
    """Every row of every table as text: columns may be compressed in the files."""
    db = lancedb.connect(folder)
    names = sorted(path.stem for path in folder.glob("*.lance"))
    assert {"agent_steps", "records", "queue"} <= set(names)
    for name in names:
        yield from (str(row) for row in db.open_table(name).to_arrow().to_pylist())


def found_in(text: str) -> list[str]:
    return [canary for canary in ALL if canary in text]


@pytest.mark.parametrize("program", [agents.main, app.main])
def test_a_setting_that_cannot_be_used_is_refused_without_its_secret(
    program: click.Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = CANARIES["OPENAI_API_KEY"]
    monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.setenv("STEPWELL_LEASE_S", key)
    done = CliRunner().invoke(program, [])
    assert done.exit_code == 2
    assert "STEPWELL_LEASE_S" in done.output
    assert key not in done.output


async def test_a_process_of_the_sandbox_is_given_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CANARIES.items():
        monkeypatch.setenv(name, value)
    waits = "import sys; sys.stdin.read(1); import socket; socket.socket(fileno=int(sys.argv[1])).recv(1)"
    async with child(lambda number: [sys.executable, "-c", waits, str(number)], 1000) as process:
        environment = await asyncio.to_thread(lambda: Path(f"/proc/{process.pid}/environ").read_text())
        assert process.pid != os.getpid()
        assert found_in(environment) == []
