"""Servers over streamable HTTP: the one client, the operator's headers, redirects and answers without an end."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from runtime.tools.fetch.pinned import PinnedLimits, pinned_client
from runtime.tools.fetch.port import FetchRules
from runtime.tools.fetch.urls import read_url
from runtime.tools.result import ToolErrorKind
from store.database import TenantStore
from tests.runtime.tools.fetch.servers import HOST, Names, answer, serving
from tests.runtime.tools.mcp.kit import FAKE, REAL, http_server, running
from tests.support import eventually

pytestmark = pytest.mark.process
TOKEN = {"MCP_TOKEN": "Bearer t0k3n-c4n4ry"}


def http_table(port: int, path: str = "/mcp", **more: Any) -> dict[str, Any]:
    """The table of a server on this machine, with a token that it is given."""
    headers = {"Authorization": "MCP_TOKEN"}
    return {"url": f"http://{HOST}:{port}{path}", "headers_env": headers, "trust": "on_first_use", **more}


async def seen(port: int) -> list[dict[str, str]]:
    """The requests that the fake server was sent."""

    def ask() -> list[dict[str, str]]:
        with urllib.request.urlopen(f"http://{HOST}:{port}/seen", timeout=10) as found:
            return list(json.loads(found.read()))

    return await asyncio.to_thread(ask)


@pytest.mark.parametrize("mode", ["json", "events"])
async def test_a_tool_is_called_over_http(mode: str, db: TenantStore, tmp_path: Path) -> None:
    async with http_server(FAKE, mode, tmp_path) as port, running(db, {"fake": http_table(port)}, TOKEN) as it:
        await it.offered("fake_echo")
        assert (await it.call(text="ab", times=2)).content == "abab"
        failed = await it.call(text="fail")
        assert (failed.error, failed.content) == (ToolErrorKind.FAILED, "the disk is full.")
        requests = await seen(port)
        assert {one["authorization"] for one in requests} == {TOKEN["MCP_TOKEN"]}
        assert {one["host"] for one in requests} == {f"{HOST}:{port}"}
        assert {one["accept-encoding"] for one in requests} == {"identity"}
        assert all("cookie" not in one for one in requests)
        assert TOKEN["MCP_TOKEN"] not in it.said()


async def test_a_redirect_to_another_server_gets_nothing(db: TenantStore, tmp_path: Path) -> None:
    """S49: not the token, not a request."""
    async with http_server(FAKE, "json", tmp_path) as other:
        target = f"http://{HOST}:{other}/mcp"
        async with (
            http_server(FAKE, "events", tmp_path, MOVED_TO=target) as port,
            running(db, {"fake": http_table(port, "/moved")}, TOKEN) as it,
        ):
            await eventually(lambda: "it is tried again" in it.said())
            assert "Redirect to" in it.said()
            assert len(await seen(port)) > 0
        assert await seen(other) == []


async def test_a_redirect_within_the_server_is_followed(db: TenantStore, tmp_path: Path) -> None:
    async with (
        http_server(FAKE, "json", tmp_path, MOVED_TO="/mcp") as port,
        running(db, {"fake": http_table(port, "/moved")}, TOKEN) as it,
    ):
        await it.offered("fake_echo")
        assert {one["path"] for one in await seen(port)} == {"/moved", "/mcp"}


async def test_too_large_and_packed_answers_are_errors(db: TenantStore, tmp_path: Path) -> None:
    async with http_server(FAKE, "json", tmp_path) as port:
        table = http_table(port, max_message_bytes=20_000)
        async with running(db, {"fake": table}, TOKEN) as it:
            await it.offered("fake_echo")
            large = await it.call(text="long")
            assert large.error is ToolErrorKind.FAILED
            assert "more than 20,000 bytes" in large.content
            assert (await it.call(text="still there")).ok
    async with http_server(FAKE, "packed", tmp_path) as port, running(db, {"fake": http_table(port)}, TOKEN) as it:
        await it.offered("fake_echo")
        packed = await it.call(text="x")
        assert packed.error is ToolErrorKind.FAILED
        await eventually(lambda: "packed content" in it.said())


async def test_a_server_that_is_not_there_or_breaks_is_tried_again(db: TenantStore, tmp_path: Path) -> None:
    tables = {"gone": http_table(9), "name": {"url": "https://no-such-host.invalid/mcp"}}
    async with (
        http_server(FAKE, "http_500", tmp_path) as port,
        running(db, {**tables, "broken": http_table(port)}, TOKEN, resolver=Names({})) as it,
    ):
        await eventually(lambda: len({line[2]["server"] for line in it.log.lines}) == 3)
        for words in ["takes no connections", "has no address", "Server returned an error response"]:
            assert words in it.said()


async def test_a_public_name_that_leads_inside_is_refused(db: TenantStore, tmp_path: Path) -> None:
    """S19: the same judgement as every other request; only what the operator calls internal is."""
    names = Names({"mcp.example": [[HOST]]})
    async with http_server(FAKE, "json", tmp_path) as port:
        table: dict[str, Any] = {"url": f"https://mcp.example:{port}/mcp"}
        async with running(db, {"fake": table}, resolver=names) as it:
            await eventually(lambda: "it is tried again" in it.said())
            assert "mcp.example is not in the public network" in it.said()
        assert await seen(port) == []
        table = {"url": f"http://mcp.example:{port}/mcp", "internal": True, "trust": "on_first_use"}
        async with running(db, {"fake": table}, resolver=names) as it:
            await it.offered("fake_echo")
            assert {one["host"] for one in await seen(port)} == {f"mcp.example:{port}"}


async def test_the_client_asks_one_origin_only() -> None:
    async with serving(answer(b"{}")) as one, serving(answer(b"{}")) as other:
        at = read_url(f"http://{HOST}:{one.port}/")
        rules = FetchRules(internal=frozenset({(HOST, one.port), (HOST, other.port)}), schemes=frozenset({"http"}))
        async with pinned_client(at, rules, [("X-Key", "k")], PinnedLimits(1000)) as client:
            assert (await client.get(f"http://{HOST}:{one.port}/a")).status_code == 200
            with pytest.raises(Exception, match="leads to another server"):
                await client.get(f"http://{HOST}:{other.port}/a")
        assert len(one.asked) == 1
        assert other.asked == []


async def test_a_server_of_the_newest_protocol_over_http(db: TenantStore, tmp_path: Path) -> None:
    async with http_server(REAL, "http", tmp_path) as port:
        table = {"url": f"http://{HOST}:{port}/mcp", "trust": "on_first_use"}
        async with running(db, {"real": table}) as it:
            await it.offered("real_add", "real_grow")
            assert "5" in (await it.call("real_add", a=2, b=3)).content
            assert (await it.call("real_grow")).ok
            await it.offered("real_add", "real_grow", "real_born")
