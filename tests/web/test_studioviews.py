"""What the studio's page begins with: sets, versions, sessions, and which version of an agent a session uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from monikers.copilot.agentsets import load_set, set_names
from monikers.copilot.moniker.studio import Studio
from store import TenantStore, create_conversation, upsert_agent_state
from store.copilot_agents import NewVersion, save_version
from store.ids import ConversationId
from tests.web.kit import CATALOGUE, MODEL, opener, state
from web.factory import Web, create_app
from web.settings import AsyncMode, WebSettings
from web.studioviews import StudioViews

Run = Callable[[Any], Any]
SHIPPED = load_set("sales_call").configs
FIRST = str(SHIPPED[0]["id"])
OWN = {"id": "own", "name": "Own", "text": "x"}
BROWSER = {"Accept": "text/html"}


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    settings = WebSettings(async_mode=AsyncMode.THREADING)
    made = create_app(settings, opener(tmp_path / "data"), CATALOGUE, MODEL, str, Studio())
    yield made
    made.close()


@pytest.fixture
def views(web: Web) -> StudioViews:
    return StudioViews(web.door.api, web.bridge)


def session(session_id: str, *, context: Any = None, **config: Any) -> Any:
    spec = {"config": {"agent_set": "sales_call", **config}}
    return state(session_id, moniker="copilot", spec=spec, context=context or {}, conversation_id="c1")


def save(db: TenantStore, run: Run, definition: Any, based_on: int = 0) -> None:
    run(save_version(db, NewVersion("sales_call", definition["id"], definition, based_on)))


def test_the_first_agent_of_the_first_set(views: StudioViews) -> None:
    found = views.studio("", "", "")
    assert found is not None
    assert [one["name"] for one in found["sets"]] == set_names()
    chosen = found["chosen"]
    assert chosen["agent_set"] == set_names()[0]
    assert (chosen["based_on"], len(chosen["versions"]), chosen["running"]) == (0, 1, "")
    assert (found["session"], found["sessions"]) == (None, [])


def test_what_is_not_there(views: StudioViews) -> None:
    assert views.studio("nowhere", "", "") is None
    assert views.studio("sales_call", "nobody", "") is None
    found = views.studio("sales_call", FIRST, "nobody")
    assert found is not None
    assert (found["session"], found["asked_session"]) == (None, "nobody")


def test_the_newest_version_with_all_before_it(views: StudioViews, db: TenantStore, run: Run) -> None:
    save(db, run, SHIPPED[0])
    save(db, run, {**SHIPPED[0], "priority": 99}, 1)
    found = views.studio("sales_call", FIRST, "")
    assert found is not None
    assert [one["version"] for one in found["chosen"]["versions"]] == [2, 1, 0]
    assert (found["chosen"]["based_on"], found["chosen"]["definition"]["priority"]) == (2, 99)


def test_which_version_a_session_uses(views: StudioViews, db: TenantStore, run: Run) -> None:
    changed = {**SHIPPED[0], "priority": 99}
    save(db, run, changed)
    other = {**SHIPPED[0], "priority": -1}
    rows = {
        "ships": session("ships"),
        "configured": session("configured", agents=[changed]),
        "later": session("later", context={"agents": {FIRST: changed}}),
        "own": session("own", agents=[other]),
        "gone": session("gone", context={"agents": {FIRST: None}}),
        "echo": state("echo"),
    }
    run(upsert_agent_state(db, list(rows.values())))
    told = {name: (views.studio("sales_call", FIRST, name) or {})["chosen"]["running"] for name in rows}
    assert told == {
        "ships": "the one that ships",
        "configured": "version 1",
        "later": "version 1",
        "own": "a version of its own",
        "gone": "",
        "echo": "",
    }


def test_an_agent_that_only_a_session_has_is_a_draft(views: StudioViews, db: TenantStore, run: Run) -> None:
    run(upsert_agent_state(db, [session("s", agents=[OWN])]))
    found = views.studio("", "own", "s")
    assert found is not None
    chosen = found["chosen"]
    assert (chosen["agent_set"], chosen["definition"], chosen["versions"]) == ("sales_call", OWN, [])


def test_sessions_are_named_and_dry_runs_left_out(views: StudioViews, db: TenantStore, run: Run) -> None:
    run(create_conversation(db, conversation_id=ConversationId("c1"), title="Call with Bo"))
    run(upsert_agent_state(db, [session("s"), session("d", dry_run=True), state("echo")]))
    found = views.studio("", "", "")
    assert found is not None
    assert [(one["session_id"], one["title"]) for one in found["sessions"]] == [("s", "Call with Bo")]


def test_the_page_and_what_it_does_not_know(web: Web, db: TenantStore, run: Run) -> None:
    nasty = "</textarea><script>alert(1)</script>"
    save(db, run, {**OWN, "name": nasty, "text": nasty})
    client = web.app.test_client()
    page = client.get("/copilot/studio?agent_set=sales_call&agent_id=own", headers=BROWSER)
    text = page.get_data(as_text=True)
    assert page.status_code == 200
    assert nasty not in text
    assert "&lt;/textarea&gt;&lt;script&gt;" in text
    assert client.get("/copilot/studio?agent_id=nobody", headers=BROWSER).status_code == 404


def test_a_dashboard_that_knows_no_agents(tmp_path: Path) -> None:
    settings = WebSettings(async_mode=AsyncMode.THREADING)
    made = create_app(settings, opener(tmp_path / "data"), CATALOGUE, MODEL)
    try:
        page = made.app.test_client().get("/copilot/studio", headers=BROWSER)
        assert page.status_code == 200
        assert "No agents ship with this dashboard" in page.get_data(as_text=True)
    finally:
        made.close()
