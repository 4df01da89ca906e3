"""The live part over real sockets, in both async modes: the server is one process, the writer of the rows another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
import websocket

from store import TenantStore, append_agent_step, upsert_agent_state
from tests.support import eventually
from tests.web.client import LEAVES_CONNECTIONS, Client
from tests.web.kit import opener, state, step
from tests.web.served import Served, get, post, start
from tests.web.test_rooms import BAD_ROOMS
from web.replay import PAGE_ROWS
from web.subscriptions import MAX_ROOMS

pytestmark = [pytest.mark.process, *LEAVES_CONNECTIONS]


@dataclass(frozen=True)
class Site:
    """A served process and the folder it serves."""

    served: Served
    folder: Path


@pytest.fixture(scope="module", params=["eventlet", "threading"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp(request.param)
    served = start(folder / "data", request.param, folder / "log")
    yield Site(served, folder / "data")
    assert served.stop() == 0
    assert "Traceback" not in served.log.read_text()


@pytest.fixture
async def db(site: Site) -> AsyncIterator[TenantStore]:
    """The store, opened by this process too."""
    found = await opener(site.folder)()
    yield found
    await found.store.close()


@pytest.fixture
async def client(site: Site) -> AsyncIterator[Client]:
    made = Client(site.served.url)
    await made.connect()
    yield made
    await made.leave()


@pytest.mark.parametrize("transport", ["websocket", "polling"])
async def test_a_client_is_greeted(site: Site, transport: str) -> None:
    client = await Client(site.served.url).connect(transport)
    assert client.hello.keys() == {"boot_id", "version", "model", "server_time"}
    assert client.hello["model"] == {"label": "offline", "offline": True}
    await client.leave()


async def test_what_another_process_stores_arrives(client: Client, db: TenantStore) -> None:
    answer = await client.ask("subscribe", {"session_id": "live"})
    assert {key: answer[key] for key in ("ok", "room", "missed", "more")} == {
        "ok": True,
        "room": "session:live",
        "missed": [],
        "more": False,
    }
    assert answer["boot_id"] == client.hello["boot_id"]
    for n in range(5):
        await append_agent_step(db, step("live", n, text="\x00 😀"))
    await append_agent_step(db, step("someone else", 0))
    await upsert_agent_state(db, [state("live")])
    await eventually(lambda: bool(client.seen("state")))
    assert [one["iteration"] for one in client.seen("step")] == [0, 1, 2, 3, 4]
    assert client.seen("step")[0]["text"] == "\x00 😀"
    assert client.seen("state")[0]["session_id"] == "live"


async def test_what_was_missed_comes_with_the_acknowledgement(site: Site, client: Client, db: TenantStore) -> None:
    cursor = (await client.ask("subscribe", {"session_id": "away"}))["cursor"]
    await client.leave()
    for n in range(3):
        await append_agent_step(db, step("away", n))
    back = await Client(site.served.url).connect()
    answer = await back.ask("subscribe", {"session_id": "away", "cursor": cursor})
    assert [one["data"]["id"] for one in answer["missed"]] == ["away:0", "away:1", "away:2"]
    assert {one["event"] for one in answer["missed"]} == {"step"}
    assert answer["missed"][-1]["data"]["cursor"]
    again = await back.ask("subscribe", {"session_id": "away", "cursor": answer["cursor"]})
    assert again["missed"] == []
    await back.leave()


async def test_a_client_that_comes_and_goes_has_every_step_once(site: Site, db: TenantStore) -> None:
    total, known, cursor = 120, [], None
    writer = asyncio.create_task(_write(db, total))

    def take(events: list[tuple[str, Any]]) -> str | None:
        for event, data in events:
            if event == "step" and data["id"] not in known:
                known.append(data["id"])
        return events[-1][1]["cursor"] if events else None

    first = await Client(site.served.url).connect()
    cursor = (await first.ask("subscribe", {"session_id": "busy"}))["cursor"]
    await first.leave()
    cursor = take(first.events) or cursor
    # What was written before the first subscription is history and not missed.
    before = await asyncio.to_thread(get, site.served, "/api/agent-steps?session_id=busy")
    known += [one["id"] for one in before["items"] if one["id"] not in known]
    while len(known) < total:
        client = await Client(site.served.url).connect()
        more = True
        while more:
            answer = await client.ask("subscribe", {"session_id": "busy", "cursor": cursor})
            assert answer["ok"], answer
            take([(one["event"], one["data"]) for one in answer["missed"]])
            cursor, more = answer["cursor"], answer["more"]
        await client.leave()
        cursor = take([one for one in client.events if one[0] == "step"]) or cursor
    await writer
    assert sorted(known, key=lambda one: int(one.split(":")[1])) == [f"busy:{n}" for n in range(total)]


async def _write(db: TenantStore, total: int) -> None:
    for n in range(total):
        await append_agent_step(db, step("busy", n))


async def test_segments_are_stored_in_their_order(site: Site, client: Client, db: TenantStore) -> None:
    await asyncio.to_thread(post, site.served, "/api/conversations", {"conversation_id": "call"}, 201)
    await upsert_agent_state(db, [state("listener")])
    await asyncio.to_thread(post, site.served, "/api/conversations/call/participants", {"session_id": "listener"}, 201)
    said = [{"conversation_id": "call", "speaker": "ANN", "text": f"{n} 😀", "timestamp": n} for n in range(8)]
    answers = await asyncio.gather(*[client.ask("segment", one) for one in said])
    assert all(answer["ok"] for answer in answers), answers
    stored = await asyncio.to_thread(get, site.served, "/api/conversations/call/messages")
    assert [one["text"] for one in stored["items"]] == [one["text"] for one in said]
    assert stored["items"][3]["data"] == {"segment": {"speaker": "ANN", "timestamp": 3, "is_final": True}}
    assert [one["message_id"] for one in stored["items"]] == [answer["message_id"] for answer in answers]
    assert [len(answer["action_ids"]) for answer in answers] == [1] * len(said)


async def test_a_segment_with_a_key_is_stored_once(site: Site, client: Client) -> None:
    await asyncio.to_thread(post, site.served, "/api/conversations", {"conversation_id": "twice"}, 201)
    said = {"conversation_id": "twice", "speaker": "ANN", "text": "Hello.", "idempotency_key": "k1"}
    first, second = await client.ask("segment", said), await client.ask("segment", said)
    assert first == second


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (None, 400),
        ("Hello.", 400),
        ([], 400),
        ({"text": "Hello.", "speaker": "ANN"}, 400),
        ({"conversation_id": "call", "text": "Hello."}, 400),
        ({"conversation_id": "call", "speaker": "ANN", "text": "Hello.", "timestamp": -1}, 400),
        ({"conversation_id": "call", "speaker": "ANN", "text": "Hello.", "data": {}}, 400),
        ({"conversation_id": "../x", "speaker": "ANN", "text": "Hello."}, 400),
        ({"conversation_id": "nobody here", "speaker": "ANN", "text": "Hello."}, 404),
    ],
)
async def test_a_segment_that_cannot_be_taken_is_answered(client: Client, said: Any, status: int) -> None:
    answer = await client.ask("segment", said)
    assert (answer["ok"], answer["error"]["status"]) == (False, status)
    assert (await client.ask("subscribe", {"topic": "queue"}))["ok"], "the connection lives on"


async def test_each_client_hears_its_own_rooms_only(site: Site, client: Client, db: TenantStore) -> None:
    other = await Client(site.served.url).connect()
    await client.ask("subscribe", {"session_id": "mine"})
    await other.ask("subscribe", {"session_id": "theirs"})
    await append_agent_step(db, step("theirs", 0))
    await append_agent_step(db, step("mine", 0))
    await eventually(lambda: bool(client.seen("step")) and bool(other.seen("step")))
    assert [one["id"] for one in client.seen("step")] == ["mine:0"]
    assert [one["id"] for one in other.seen("step")] == ["theirs:0"]
    await other.leave()


async def test_live_events_begin_when_the_last_page_was_read(client: Client, db: TenantStore) -> None:
    answer = await client.ask("subscribe", {"session_id": "long"})
    await client.ask("unsubscribe", {"session_id": "long"})
    await asyncio.gather(*[append_agent_step(db, step("long", n)) for n in range(PAGE_ROWS)])
    await append_agent_step(db, step("long", PAGE_ROWS))
    await client.ask("subscribe", {"session_id": "witness"})
    first = await client.ask("subscribe", {"session_id": "long", "cursor": answer["cursor"]})
    assert first["more"]
    await append_agent_step(db, step("long", PAGE_ROWS + 1))
    await append_agent_step(db, step("witness", 0))
    await eventually(lambda: bool(client.seen("step")))
    assert [one["id"] for one in client.seen("step")] == ["witness:0"]
    second = await client.ask("subscribe", {"session_id": "long", "cursor": first["cursor"]})
    assert not second["more"]
    ids = [one["data"]["id"] for page in (first, second) for one in page["missed"]]
    assert sorted(ids, key=lambda one: int(one.split(":")[1])) == [f"long:{n}" for n in range(PAGE_ROWS + 2)]
    await append_agent_step(db, step("long", PAGE_ROWS + 2))
    await eventually(lambda: len(client.seen("step")) == 2)
    assert client.seen("step")[1]["id"] == f"long:{PAGE_ROWS + 2}"


async def test_topics_follow_what_the_api_does(site: Site, client: Client) -> None:
    await client.ask("subscribe", {"topic": "queue"})
    made = await asyncio.to_thread(post, site.served, "/api/agents", {"moniker": "echo"})
    await eventually(lambda: made["action_id"] in [one["id"] for one in client.seen("action")])


async def test_who_unsubscribes_hears_no_more(client: Client, db: TenantStore) -> None:
    for session in ("gone", "kept"):
        await client.ask("subscribe", {"session_id": session})
    assert (await client.ask("unsubscribe", {"session_id": "gone"}))["ok"]
    assert (await client.ask("unsubscribe", {"session_id": "never was"}))["ok"]
    await append_agent_step(db, step("gone", 0))
    await append_agent_step(db, step("kept", 0))
    await eventually(lambda: bool(client.seen("step")))
    assert [one["id"] for one in client.seen("step")] == ["kept:0"]


async def test_whatever_is_sent_is_answered(client: Client) -> None:
    for payload in BAD_ROOMS:
        for event in ("subscribe", "unsubscribe"):
            answer = await client.ask(event, payload)
            assert answer["ok"] is False, payload
            assert answer["error"]["status"] == 400
    for payloads in ((), ({"session_id": "s"}, {"session_id": "t"}), (1, 2, 3)):
        assert (await client.ask("subscribe", *payloads))["error"]["status"] == 400
    for cursor in ("x", "%", "W10", "e30"):
        answer = await client.ask("subscribe", {"session_id": "s", "cursor": cursor})
        assert answer["error"]["status"] == 400
    assert (await client.ask("subscribe", {"session_id": "s"}))["ok"]


async def test_a_connection_may_follow_so_many_rooms(client: Client) -> None:
    for n in range(MAX_ROOMS):
        assert (await client.ask("subscribe", {"session_id": f"r{n}"}))["ok"]
    refused = await client.ask("subscribe", {"session_id": "one more"})
    assert refused["error"]["status"] == 429
    assert (await client.ask("subscribe", {"session_id": "r0"}))["ok"]
    await client.ask("unsubscribe", {"session_id": "r0"})
    assert (await client.ask("subscribe", {"session_id": "one more"}))["ok"]


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1"])
def test_a_foreign_page_gets_no_websocket(site: Site, origin: str) -> None:
    address = f"ws://127.0.0.1:{site.served.port}/socket.io/?EIO=4&transport=websocket"
    with pytest.raises(websocket.WebSocketBadStatusException, match="403"):
        websocket.create_connection(address, origin=origin, timeout=10)
    with pytest.raises(websocket.WebSocketBadStatusException, match="421"):
        websocket.create_connection(address, host="evil.example", suppress_origin=True, timeout=10)
    websocket.create_connection(address, suppress_origin=True, timeout=10).close()


MALFORMED = [
    "",
    "9",
    "4",
    "49",
    "42",
    "42[",
    "42{}",
    "42[1]",
    "42[null]",
    "42[{}]",
    '42["subscribe"',
    '420["connect"]',
    '421["disconnect"]',
    '42["subscribe",' + "[" * 20_000 + "]" * 20_000 + "]",
    '451-["subscribe",{"_placeholder":true,"num":0}]',
    '459999999-["subscribe"]',
    '451-["subscribe",{"_placeholder":true,"num":5}]',
    "42" + "9" * 200 + '["subscribe",{}]',
    '42["subscribe",{"session_id":"\\ud800"}]',
    '420["subscribe",' + '"x"' + "]",
    '42["subscribe",' + '"' + "x" * 200_000 + '"]',
]


def test_malformed_packets_hurt_nobody_else(site: Site) -> None:
    address = f"ws://127.0.0.1:{site.served.port}/socket.io/?EIO=4&transport=websocket"
    for packet in MALFORMED:
        raw = websocket.create_connection(address, suppress_origin=True, timeout=10)
        raw.recv()
        raw.send("40")
        raw.recv()
        raw.send(packet)
        raw.close()
    raw = websocket.create_connection(address, suppress_origin=True, timeout=10)
    assert raw.recv()
    raw.close()
    assert site.served.ready()


async def test_others_are_served_while_malformed_packets_arrive(site: Site, client: Client) -> None:
    await asyncio.to_thread(test_malformed_packets_hurt_nobody_else, site)
    assert (await client.ask("subscribe", {"session_id": "s"}))["ok"]


def test_a_large_body_gets_its_answer_on_the_wire(site: Site) -> None:
    for body in (b"x" * 50_000_000, iter([b"x" * 500_000] * 10)):
        answer = requests.post(
            f"{site.served.url}/api/agents", data=body, headers={"Content-Type": "application/json"}, timeout=60
        )
        assert answer.status_code == 413
        assert answer.json()["status"] == 413


def test_a_body_in_chunks_is_read(site: Site) -> None:
    parts = iter([b'{"moniker": ', b'"echo", "session_id": "chunked"}'])
    headers = {"Content-Type": "application/json"}
    answer = requests.post(f"{site.served.url}/api/agents", data=parts, headers=headers, timeout=30)
    assert answer.status_code == 202
    assert answer.json()["session_id"] == "chunked"


async def test_many_requests_at_once(site: Site) -> None:
    def create(n: int) -> str:
        return str(post(site.served, "/api/agents", {"moniker": "echo", "agent_id": "many"})["session_id"])

    ids = await asyncio.gather(*[asyncio.to_thread(create, n) for n in range(60)])
    stored = await asyncio.to_thread(get, site.served, "/api/queue?agent_id=many&limit=1000")
    assert {one["session_id"] for one in stored["items"]} == set(ids)
    assert len(set(ids)) == 60
