"""GET /api/search and the search page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from store import TenantStore, append_agent_step, post_message
from store.ids import ConversationId
from tests.web.kit import NASTY, Caller, step
from web.searching import parts

Run = Callable[[Any], Any]


def test_one_question_searches_everything(api: Caller, db: TenantStore, run: Run) -> None:
    run(append_agent_step(db, step("s1", 0, text="A <i>heron</i> & more")))
    run(post_message(db, ConversationId("c1"), text="Which heron?"))
    found = api.get("/api/search", q="heron")
    assert {one["kind"] for one in found["items"]} == {"steps", "messages"}
    assert (found["next_cursor"], found["incomplete"]) == (None, [])
    (one,) = api.get("/api/search", q="HERON", kinds="steps,memories", session_id="s1")["items"]
    assert (one["id"], one["session_id"], one["iteration"], one["conversation_id"]) == ("s1:0", "s1", 0, None)
    assert (one["snippet"], one["matches"]) == ("A <i>heron</i> & more", [[5, 10]])
    assert one["created_at"].endswith("Z")
    assert api.get("/api/search", q="")["items"] == []


def test_pages(api: Caller, db: TenantStore, run: Run) -> None:
    for number in range(3):
        run(append_agent_step(db, step("s1", number, text="heron")))
    first = api.get("/api/search", q="heron", limit=2)
    rest = api.get("/api/search", q="heron", limit=2, cursor=first["next_cursor"])
    assert [one["id"] for one in first["items"] + rest["items"]] == ["s1:2", "s1:1", "s1:0"]


def test_what_cannot_be_asked_is_told(api: Caller) -> None:
    assert "q" in str(api.get("/api/search", 400)["errors"])
    assert "kinds" in str(api.get("/api/search", 400, q="x", kinds="steps,nothing")["errors"])
    api.get("/api/search", 400, q="x", cursor="x")
    api.get("/api/search", 400, q="x", limit="0")
    api.get("/api/search", 400, q="x", where="1=1")


def test_no_value_is_a_query(api: Caller, db: TenantStore, run: Run) -> None:
    run(append_agent_step(db, step("s1", 0, text="heron")))
    for value in (*NASTY, "x" * 5_000, "heron AND (", '"heron'):
        for one in api.get("/api/search", q=value)["items"]:
            assert one["id"] == "s1:0"
        assert api.get("/api/search", q="heron", agent_id=value[:50], session_id=value[:50])["items"] == []


def test_the_page_shows_text_as_text(api: Caller, db: TenantStore, run: Run) -> None:
    run(append_agent_step(db, step("s1", 4, text="<script>alert(1)</script> heron <b>x</b>")))
    page = api.client.get("/search", query_string={"q": "heron alert"}).get_data(as_text=True)
    assert "<script>alert" not in page
    assert "&lt;script&gt;<mark>alert</mark>(1)&lt;/script&gt; <mark>heron</mark> &lt;b&gt;x" in page
    assert 'href="/sessions/s1#step-4"' in page
    nothing = api.client.get("/search", query_string={"q": '"><img src=y onload=prompt(2)>'}).get_data(as_text=True)
    assert "<img" not in nothing
    assert "Nothing holds these words" in nothing
    assert "Search what was said" in api.client.get("/search").get_data(as_text=True)


def test_parts() -> None:
    assert parts("a b c", [[0, 1], [4, 5]]) == [("a", True), (" b ", False), ("c", True)]
    assert parts("", []) == []
