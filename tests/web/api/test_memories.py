"""The memories' addresses: listed, asked for by name and by words, deleted to the last byte."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest

from store import TenantStore
from store.ids import SessionId, TenantId
from store.memories import Memory, MemoryKind, memories_of, memory_id_of
from store.testing import START
from store.upkeep import Upkeep, UpkeepRules
from tests.store.rows import a_memory
from tests.store.test_memories import Told, on_disk
from tests.web.kit import NASTY, Caller, assert_problem
from web.factory import Web

Run = Callable[[Any], Any]
SECRET = "zanzibarquince"
SCOPES = ("user_id", "agent_id", "conversation_id", "session_id", "subject", "source")


def write(db: TenantStore, run: Run, *memories: Memory) -> None:
    run(memories_of(db).insert_missing(memories))


def delete(web: Web, path: str, expect: int = 200, **query: Any) -> Any:
    answer = web.app.test_client().delete(path, query_string=query or None)
    assert answer.status_code == expect, answer.get_data(as_text=True)
    if expect >= 400:
        assert_problem(answer.json, expect)
    return answer.json


def ids(page: Any) -> list[str]:
    return [one["memory_id"] for one in page["items"]]


def test_a_memory_is_shown_with_whom_it_is_for_and_where_it_came_from(api: Caller, db: TenantStore, run: Run) -> None:
    memory_id = memory_id_of(SessionId("s1"), 4, "anything")
    memory = a_memory(
        memory_id,
        "The <b>well</b> is 30 m deep.",
        kind=MemoryKind.TERM,
        subject="well",
        session_id="s1",
        user_id="mia",
        source="a.md",
        data={"quote": "30 m"},
        taint=["a.md"],
        author="research",
        expires_at=START + timedelta(days=90_000),
    )
    write(db, run, memory, a_memory("m2", taint=None, session_id=""))
    shown = api.get(f"/api/memories/{memory_id}")
    assert shown == {
        "memory_id": memory_id,
        "created_at": "2026-01-01T00:00:00.000000Z",
        "kind": "term",
        "subject": "well",
        "text": "The <b>well</b> is 30 m deep.",
        "data": {"quote": "30 m"},
        "user_id": "mia",
        "agent_id": None,
        "conversation_id": None,
        "session_id": "s1",
        "iteration": 4,
        "author": "research",
        "source": "a.md",
        "taint": ["a.md"],
        "expires_at": shown["expires_at"],
    }
    assert shown["expires_at"].startswith("2272-")
    other = api.get("/api/memories/m2")
    assert (other["taint"], other["iteration"], other["expires_at"]) == (["unknown"], None, None)
    assert api.get("/api/memories", user_id="mia")["items"] == [shown]


def test_they_come_in_pages_newest_first(api: Caller, db: TenantStore, run: Run) -> None:
    write(db, run, *(a_memory(f"m{n}", created_at=START + timedelta(seconds=n)) for n in range(5)))
    first = api.get("/api/memories", limit=3)
    rest = api.get("/api/memories", limit=3, cursor=first["next_cursor"])
    assert ids(first) + ids(rest) == ["m4", "m3", "m2", "m1", "m0"]
    assert rest["next_cursor"] is None


def test_they_are_asked_for_by_name_kind_and_words(api: Caller, db: TenantStore, run: Run) -> None:
    write(db, run, *(a_memory(name, f"A heron by the {name}.", **{name: "x"}) for name in SCOPES))
    write(db, run, a_memory("term", "A heron is a bird.", kind=MemoryKind.TERM), a_memory("made", taint=["x"]))
    for name in SCOPES:
        asked: dict[str, Any] = {name: "x"}
        more = {"made"} if name == "source" else set()
        assert set(ids(api.get("/api/memories", **asked))) == {name, *more}
        both = ids(api.get("/api/memories", **{**asked, "user_id": "x"}))
        assert both == (["user_id"] if name == "user_id" else [])
    assert ids(api.get("/api/memories", kind="term")) == ["term"]
    assert ids(api.get("/api/memories", q="bird heron", limit=1)) == ["term"]
    assert ids(api.get("/api/memories", q="HERON", kind="fact", agent_id="x")) == ["agent_id"]
    first = api.get("/api/memories", q="heron", limit=4)
    rest = api.get("/api/memories", q="heron", limit=4, cursor=first["next_cursor"])
    assert sorted(ids(first) + ids(rest)) == sorted([*SCOPES, "term"])
    assert api.get("/api/memories", q="nothing")["items"] == []


@pytest.mark.parametrize(
    "query",
    [
        {"kind": "rumour"},
        {"kind": ""},
        {"user_id": ""},
        {"user_id": "x" * 201},
        {"source": "x" * 2001},
        {"q": "x" * 10_001},
        {"limit": "0"},
        {"limit": "1001"},
        {"limit": "1.5"},
        {"cursor": "x"},
        {"cursor": ""},
        {"q": "heron", "cursor": "WyIyMDI2LTAxLTAxVDAwOjAwOjAwKzAwOjAwIiwibSJd"},
        {"user": "mia"},
        {"where": "1=1"},
        {"user_id": ["a", "b"]},
    ],
)
def test_what_cannot_be_asked_is_told(api: Caller, query: dict[str, Any]) -> None:
    api.get("/api/memories", 400, **query)


def test_no_value_is_a_query(api: Caller, web: Web, db: TenantStore, run: Run) -> None:
    write(db, run, a_memory("m", user_id="mia", source="a.md"))
    for value in NASTY:
        for name in SCOPES:
            asked: dict[str, Any] = {name: value}
            assert api.get("/api/memories", **asked)["items"] == []
            assert delete(web, "/api/memories", **asked)["deleted"] == 0
        assert api.get("/api/memories", q=value)["items"] == []
        path = f"/api/memories/{quote(value, safe='')}"
        api.get(path, 404)
        delete(web, path, 404)
    assert ids(api.get("/api/memories")) == ["m"]


@pytest.mark.parametrize("memory_id", ["x" * 265, "a%2Fb", "%00", "..", "%20m", "none"])
def test_an_id_that_is_none_is_not_there(api: Caller, web: Web, memory_id: str) -> None:
    api.get(f"/api/memories/{memory_id}", 404)
    delete(web, f"/api/memories/{memory_id}", 404)


def test_the_longest_id_is_one(api: Caller, web: Web, db: TenantStore, run: Run) -> None:
    memory_id = memory_id_of(SessionId("s" * 200), 10**15, "x")
    write(db, run, a_memory(memory_id, session_id="s" * 200))
    assert api.get(f"/api/memories/{memory_id}")["iteration"] == 10**15
    assert delete(web, f"/api/memories/{memory_id}")["deleted"] == 1


def test_one_is_deleted_once(api: Caller, web: Web, db: TenantStore, run: Run) -> None:
    write(db, run, a_memory("m"), a_memory("kept"))
    told = delete(web, "/api/memories/m")
    assert (told["deleted"], told["named"], told["off_disk_within_s"]) == (1, {"memory_id": "m"}, 120)
    assert "upkeep --now" in told["note"]
    delete(web, "/api/memories/m", 404)
    api.get("/api/memories/m", 404)
    assert ids(api.get("/api/memories")) == ["kept"]


def test_all_that_meet_the_names_are_deleted(api: Caller, web: Web, db: TenantStore, run: Run) -> None:
    write(db, run, a_memory("a", user_id="mia"), a_memory("b", user_id="mia", agent_id="x"), a_memory("c"))
    write(db, run, a_memory("old", user_id="mia", expires_at=START))
    assert delete(web, "/api/memories", user_id="mia", agent_id="x")["deleted"] == 1
    told = delete(web, "/api/memories", user_id="mia")
    assert (told["deleted"], told["named"]) == (2, {"user_id": "mia"})
    again = delete(web, "/api/memories", user_id="mia")
    assert (again["deleted"], again["off_disk_within_s"]) == (0, None)
    assert ids(api.get("/api/memories")) == ["c"]


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"user_id": ""},
        {"kind": "fact"},
        {"q": "heron"},
        {"limit": "5"},
        {"user": "x"},
        {"user_id": "x", "kind": "fact"},
    ],
)
def test_nothing_is_deleted_without_a_name(
    api: Caller, web: Web, db: TenantStore, run: Run, query: dict[str, str]
) -> None:
    """A parameter that would narrow the list and does not narrow a deletion is refused, rather than left out."""
    write(db, run, a_memory("m", user_id="x"))
    delete(web, "/api/memories", 400, **query)
    assert ids(api.get("/api/memories")) == ["m"]


def test_pages_of_other_sites_delete_nothing(api: Caller, web: Web, db: TenantStore, run: Run) -> None:
    write(db, run, a_memory("m", user_id="x"))
    for path in ("/api/memories/m", "/api/memories?user_id=x"):
        answer = web.app.test_client().delete(path, headers={"Origin": "http://elsewhere.example"})
        assert answer.status_code == 403
    assert ids(api.get("/api/memories")) == ["m"]


def test_another_tenants_memories_are_not_there(api: Caller, web: Web, db: TenantStore, run: Run) -> None:
    other = db.store.tenant(TenantId("other"))
    write(other, run, a_memory("theirs", "A heron.", user_id="mia"))
    write(db, run, a_memory("ours", user_id="mia"))
    assert ids(api.get("/api/memories")) == ids(api.get("/api/memories", user_id="mia")) == ["ours"]
    assert api.get("/api/memories", q="heron")["items"] == []
    api.get("/api/memories/theirs", 404)
    delete(web, "/api/memories/theirs", 404)
    assert delete(web, "/api/memories", user_id="mia")["deleted"] == 1
    assert [memory.memory_id for memory in run(memories_of(other).find())] == ["theirs"]


@pytest.mark.parametrize("path", ["/api/memories/secret", f"/api/memories?source={SECRET}"])
def test_what_is_deleted_leaves_no_byte(web: Web, db: TenantStore, run: Run, path: str) -> None:
    write(db, run, *(a_memory(f"m{n}", f"Filling {n}.") for n in range(20)))
    secret = a_memory("secret", f"It is {SECRET}.", subject=SECRET, source=SECRET, data={SECRET: 1}, taint=[SECRET])
    write(db, run, secret, *(a_memory(f"n{n}", f"Filling {n}.") for n in range(20)))
    upkeep = Upkeep(db.store, UpkeepRules(keep=timedelta(milliseconds=1)), Told())  # what a worker does
    run(upkeep.once(force=True))  # now all are in one file, which the engine alone would keep
    assert delete(web, path)["deleted"] == 1
    assert on_disk(db.store, SECRET)
    run(upkeep.once(force=True))
    assert on_disk(db.store, SECRET) == []
    assert len(run(memories_of(db).find())) == 40


def test_the_page_shows_text_as_text(api: Caller, db: TenantStore, run: Run) -> None:
    nasty = '<script>alert(1)</script> "><img src=y onload=prompt(2)>'
    write(db, run, a_memory("m", f"{nasty} {'long ' * 300}", subject=nasty, source=nasty, user_id="mia", taint=[nasty]))
    page = api.client.get("/memories").get_data(as_text=True)
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "user mia" in page
    assert "Show all of it" in page
    asked = api.client.get("/memories", query_string={"q": nasty, "user_id": nasty, "kind": nasty, "subject": nasty})
    assert asked.status_code == 200
    assert "<img" not in asked.get_data(as_text=True)
    assert api.client.get("/memories?cursor=x", headers={"Accept": "text/html"}).status_code == 400


def test_the_page_offers_to_delete_a_scope_and_nothing_wider(api: Caller, db: TenantStore, run: Run) -> None:
    write(db, run, a_memory("m", user_id="mia"))
    offered = {
        path: "data-forget-all" in api.client.get(path).get_data(as_text=True)
        for path in (
            "/memories",
            "/memories?user_id=mia",
            "/memories?user_id=mia&agent_id=",
            "/memories?user_id=mia&kind=fact",
            "/memories?user_id=mia&q=well",
            "/memories?kind=fact",
            "/memories?user_id=nobody",
        )
    }
    assert [path for path, offer in offered.items() if offer] == [
        "/memories?user_id=mia",
        "/memories?user_id=mia&agent_id=",
    ]
