"""The addresses of tools of MCP servers, and that no body can name a server or a command (S47)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from store import TenantStore, append_agent_step, upsert_agent_state
from store.tool_pins import SeenTool, approve_tool, publish_tools
from tests.web.kit import NASTY, Caller, state, step
from web.factory import Web
from web.rooms import Room, RoomKind

Run = Callable[[Any], Any]
A, B = "a" * 64, "b" * 64


def seen(hash_: str) -> SeenTool:
    return SeenTool("s_t", "s", "t", hash_, "<script>alert(1)</script> {{ 7*7 }}", {"type": "object"})


def test_a_tool_is_shown_and_agreed_to(api: Caller, db: TenantStore, run: Run) -> None:
    assert api.get("/api/tools")["items"] == []
    run(publish_tools(db, [seen(A)]))
    (shown,) = api.get("/api/tools")["items"]
    assert (shown["tool"], shown["state"], shown["hash"]) == ("s_t", "new", A)
    assert shown["description"] == "<script>alert(1)</script> {{ 7*7 }}"
    approved = api.post("/api/tools/s_t/approve", {"hash": A, "approved_by": "me"}, 200)
    assert (approved["state"], approved["approved_by"]) == ("approved", "me")
    run(publish_tools(db, [seen(B)]))
    assert api.get("/api/tools")["items"][0]["state"] == "changed"
    assert "not what you looked at" in api.post("/api/tools/s_t/approve", {"hash": A}, 409)["detail"]
    assert api.post("/api/tools/s_t/approve", {"hash": B}, 200)["state"] == "approved"


def test_an_approval_is_taken_back(api: Caller, db: TenantStore, run: Run) -> None:
    run(publish_tools(db, [seen(A)]))
    assert "nobody has agreed" in api.post("/api/tools/s_t/withdraw", {"hash": A}, 409)["detail"]
    api.post("/api/tools/s_t/approve", {"hash": A, "approved_by": "me"}, 200)
    assert api.get("/frame")["badges"]["tools"] == 0
    api.post("/api/tools/s_t/withdraw", {"hash": A}, 200)
    taken = api.post("/api/tools/s_t/withdraw", {"hash": A, "withdrawn_by": "you"}, 200)
    assert (taken["state"], taken["withdrawn_by"], taken["approved_by"]) == ("withdrawn", "you", "me")
    assert api.get("/api/tools")["items"] == [taken]
    run(publish_tools(db, [seen(B)]))
    assert "not what you looked at" in api.post("/api/tools/s_t/withdraw", {"hash": A}, 409)["detail"]
    again = api.post("/api/tools/s_t/approve", {"hash": B}, 200)
    assert (again["state"], again["withdrawn_at"], again["approved_description"]) == (
        "approved",
        None,
        seen(B).description,
    )


def test_what_cannot_be_withdrawn(api: Caller) -> None:
    api.post("/api/tools/none/withdraw", {"hash": A}, 404)
    for name in NASTY:
        api.post(f"/api/tools/{name}/withdraw", {"hash": A}, 404)
    for body in [{}, {"hash": "x"}, {"hash": A, "approved_by": "me"}, {"hash": A, "withdrawn_by": 7}]:
        api.post("/api/tools/none/withdraw", body, 422)


def test_a_tool_is_told_live_without_its_words(db: TenantStore, web: Web, run: Run) -> None:
    room = Room(RoomKind.TOOLS)
    cursor = run(web.relay.missed(room, None)).cursor
    run(publish_tools(db, [seen(A)]))
    run(approve_tool(db, "s_t", A, approved_by="me"))
    (told,) = [sent.data for sent in run(web.relay.missed(room, cursor)).events]
    assert (told["tool"], told["hash"], told["state"], told["approved_by"]) == ("s_t", A, "approved", "me")
    assert not {"description", "parameters", "approved_description"} & told.keys()


def test_the_page_shows_a_strangers_words_as_text(api: Caller, db: TenantStore, web: Web, run: Run) -> None:
    run(publish_tools(db, [seen(A), replace(seen(B), tool="other_t", server="other")]))
    page = web.app.test_client().get("/tools").get_data(as_text=True)
    assert "&lt;script&gt;alert(1)&lt;/script&gt; {{ 7*7 }}" in page
    assert "<script>alert" not in page
    assert page.index(">other</h2>") < page.index(">s</h2>")
    assert page.count("waits for you") == 2
    assert "docs/tools.md" in page


def test_what_cannot_be_approved(api: Caller) -> None:
    api.post("/api/tools/none/approve", {"hash": A}, 404)
    for name in NASTY:
        api.post(f"/api/tools/{name}/approve", {"hash": A}, 404)
    for body in [{}, {"hash": ""}, {"hash": "x"}, {"hash": A, "command": "sh"}, {"hash": None}]:
        api.post("/api/tools/none/approve", body, 422)


HOSTILE: list[dict[str, Any]] = [
    {"mcpServers": {"x": {"command": "touch", "args": ["FILE"]}}},
    {"mcp": {"x": {"command": "touch", "args": ["FILE"]}}},
    {"command": "touch", "args": ["FILE"]},
    {"tools": [{"type": "stdio", "command": "touch FILE"}]},
]


class Starts:
    """Counts the programs that this process starts; a hook of the interpreter sees them all."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.on = True
        sys.addaudithook(self._hook)

    def _hook(self, event: str, _: tuple[Any, ...]) -> None:
        if self.on and event in {"subprocess.Popen", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.system"}:
            self.seen.append(event)


@pytest.fixture
def starts() -> Iterator[Starts]:
    found = Starts()
    yield found
    found.on = False


@pytest.mark.parametrize("config", HOSTILE)
def test_no_config_names_a_command(config: dict[str, Any], api: Caller, tmp_path: Path, starts: Starts) -> None:
    """Where a config is checked it is refused; where any config is taken it is stored as data. Nothing is started."""
    hostile = json.loads(json.dumps(config).replace("FILE", str(tmp_path / "ran")))
    api.post("/api/agents", {"moniker": "echo", "task": "t", "config": {"text": "x", **hostile}}, 422)
    api.post("/api/agents", {"moniker": "joke", "task": "t", "session_id": "j", "config": hostile}, 202)
    api.post("/api/agents", {"moniker": "joke", "task": "t", **hostile}, 422)
    create = {"moniker": "echo", "task": "t", "config": hostile}
    api.post("/api/schedules", {"every_s": 60, "agent_create": create}, 422)
    assert starts.seen == []
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("config", HOSTILE)
def test_no_fork_names_a_command(
    config: dict[str, Any], api: Caller, db: TenantStore, run: Run, starts: Starts
) -> None:
    run(upsert_agent_state(db, [state("s1", iteration=0)]))
    run(append_agent_step(db, step("s1", 0)))
    api.post("/api/sessions/s1/fork", {"config": config}, 422)
    api.post("/api/sessions/s1/fork", config, 422)
    assert starts.seen == []


def test_the_count_of_starts_counts(starts: Starts) -> None:
    subprocess.run(["true"], check=True)
    assert starts.seen
