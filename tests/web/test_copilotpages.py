"""The copilot's pages as the server draws them: whole without scripts, and nothing that was said is markup."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from store import SessionStatus, TenantStore, upsert_agent_state
from tests.web.copilotkit import insight, run_of, segment, store_copilot, tell_early, turn_step
from tests.web.kit import Caller, state
from web.copilotviews import CopilotViews
from web.factory import Web
from web.rooms import Room, RoomKind

Run = Callable[[Any], Any]
BROWSER = {"Accept": "text/html"}
EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture
def page(api: Caller) -> Callable[[str], str]:
    """The HTML of a page."""

    def read(path: str) -> str:
        answer = api.client.get(path, headers=BROWSER)
        assert (answer.status_code, answer.mimetype) == (200, "text/html")
        return answer.get_data(as_text=True)

    return read


def test_the_list_has_copilots_only(page: Callable[[str], str], db: TenantStore, run: Run) -> None:
    assert "No copilot has listened yet" in page("/copilot")
    run(store_copilot(db, "call", title=f"Call {EVIL}", agent_set="negotiation"))
    run(upsert_agent_state(db, [state("another", status=SessionStatus.DONE)]))
    shown = page("/copilot")
    assert 'data-session-id="call"' in shown
    assert "Negotiation" in shown
    assert "listening" in shown
    assert 'data-session-id="another"' not in shown
    assert EVIL not in shown


def test_one_copilot_is_whole_without_scripts(page: Callable[[str], str], db: TenantStore, run: Run) -> None:
    told = insight("call", 0, "Ask for the reason.", zone="A", suggested_response="What would be right?")
    held = insight("call", 0, "Offer a pilot.", number=2, status="held")
    step = turn_step(
        "call",
        0,
        said=segment("CUSTOMER", "Too expensive.", 65.0),
        ran=[run_of("objection_coach", insights=[told["insight_id"]], variables={"stage": "price"})],
        skipped=[{"agent_id": "closer", "reason": "cooldown"}],
        insights=[told, held],
        board={"variables": {"stage": "price"}},
    )
    run(store_copilot(db, "call", [step], title="Call with a bakery"))
    shown = page("/copilot/call")
    for words in (
        "Call with a bakery",
        "Too expensive.",
        "1:05",
        "Ask for the reason.",
        "What would be right?",
        "waits for you",
        'data-decide="true"',
        "/sessions/call#step-0",
        "/copilot/studio?agent_set=sales_call&amp;agent_id=objection_coach&amp;session_id=call",
        "written by",
        "rests after its last run",
        "/sessions/call#trace:call-action-0",
        "980 tokens",
    ):
        assert words in shown, words


@pytest.mark.parametrize("path", ["/copilot", "/copilot/call"])
def test_nothing_that_was_said_is_markup(page: Callable[[str], str], db: TenantStore, run: Run, path: str) -> None:
    told = insight(
        "call", 0, EVIL, agent_id=EVIL, type=EVIL, action_label=EVIL, color=EVIL, zone=EVIL, suggested_response=EVIL
    )
    ran = run_of(EVIL, variables={EVIL: EVIL}, queues={EVIL: [EVIL]}, events=[EVIL], memory={EVIL: EVIL})
    board = {
        "variables": {EVIL: EVIL},
        "queues": {EVIL: [EVIL]},
        "facts": [{"type": EVIL, "key": EVIL, "value": {EVIL: EVIL}, "confidence": 1}],
        "memory": {EVIL: {EVIL: EVIL}},
    }
    step = turn_step(
        "call",
        0,
        said=segment(EVIL, EVIL),
        ran=[ran],
        insights=[told],
        board=board,
        trigger=EVIL,
        metadata={"keyword": EVIL},
    )
    run(store_copilot(db, "call", [step], title=EVIL, agent_set=EVIL))
    shown = page(path)
    assert "<img" not in shown
    assert "onerror=alert" in shown, "it is shown, as text"


def test_an_unknown_copilot_is_a_404_page(api: Caller) -> None:
    assert api.client.get("/copilot/nope", headers=BROWSER).status_code == 404


def test_a_session_of_another_kind_is_shown_on_its_own_page(api: Caller, db: TenantStore, run: Run) -> None:
    run(upsert_agent_state(db, [state("another")]))
    answer = api.client.get("/copilot/another", headers=BROWSER)
    assert (answer.status_code, answer.location) == (302, "/sessions/another")
    run(store_copilot(db, "call"))
    assert 'href="/copilot/call"' in api.client.get("/sessions/call", headers=BROWSER).get_data(as_text=True)


def test_the_live_cursors_miss_nothing_after_the_page(web: Web, api: Caller, db: TenantStore, run: Run) -> None:
    run(store_copilot(db, "call", title="Call"))
    found = CopilotViews(web.door.api, web.bridge).session("call")
    assert found is not None
    api.post("/api/conversations/thread-of-call/messages", {"text": "Hello"})
    page = run(web.relay.missed(Room(RoomKind.CONVERSATION, "thread-of-call"), found["thread_cursor"]))
    assert [(sent.event, sent.data["text"], sent.data["room"]) for sent in page.events] == [
        ("message", "Hello", "conversation:thread-of-call")
    ]
    page = run(web.relay.missed(Room(RoomKind.SESSION, "call"), found["live_cursor"]))
    assert [(sent.event, sent.data["room"]) for sent in page.events] == [("action", "session:call")]


def test_what_waits_in_the_queue_is_on_the_page(web: Web, api: Caller, db: TenantStore, run: Run) -> None:
    run(store_copilot(db, "call"))
    body = {"text": "Is anybody there?", "data": {"segment": {"speaker": "CUSTOMER"}}}
    action_id = api.post("/api/sessions/call/input", body)["action_id"]
    found = CopilotViews(web.door.api, web.bridge).session("call")
    assert found is not None
    assert [(row["key"], row["speaker"], row["iteration"]) for row in found["said"]] == [(action_id, "CUSTOMER", None)]


def test_what_a_running_step_has_found_is_on_the_page(web: Web, db: TenantStore, run: Run) -> None:
    run(store_copilot(db, "call", [turn_step("call", 0)]))
    for iteration, content in ((0, "Void."), (1, "Early.")):
        run(tell_early(db, "call", iteration, insight("call", iteration, content, zone="A")))
    found = CopilotViews(web.door.api, web.bridge).session("call")
    assert found is not None
    assert [(one["content"], one["stored"]) for one in found["zones"]["A"]] == [("Early.", False)]
