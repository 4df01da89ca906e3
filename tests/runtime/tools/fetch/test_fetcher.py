"""The fetcher against real servers on this machine: redirects, sizes, time, encryption, and what a server is told."""

from __future__ import annotations

import asyncio
import gzip
import shutil
import ssl
import subprocess
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from runtime.tools.fetch.errors import FetchError, FetchFailedError, FetchReason, FetchRefusedError
from runtime.tools.fetch.fetcher import Fetcher
from runtime.tools.fetch.port import FetchRequest, FetchResult, FetchRules, Method
from tests.runtime.tools.fetch.servers import HOST, Names, Script, answer, redirect, serving

SITE, OTHER = "site.test", "other.test"


def rules(*ports: int, **more: Any) -> FetchRules:
    """The servers on this machine may be asked, under both names."""
    internal = frozenset((host, port) for port in ports for host in (SITE, OTHER))
    return FetchRules(internal=internal, schemes=frozenset({"http", "https"}), **more)


def names() -> Names:
    return Names({SITE: [[HOST]], OTHER: [[HOST]]})


async def fetched(
    script: Script | bytes, path: str = "/", request: FetchRequest | None = None, **more: Any
) -> FetchResult:
    """What one server's answer becomes."""
    async with serving(script) as server:
        url = f"http://{SITE}:{server.port}{path}"
        asked = request or FetchRequest(url)
        asked = FetchRequest(url, asked.method, asked.headers, asked.body)
        return await Fetcher(resolver=names()).fetch(asked, rules(server.port, **more))


async def refusal(script: Script | bytes, **more: Any) -> FetchError:
    """The error that one server's answer ends in."""
    with pytest.raises(FetchError) as caught:
        async with asyncio.timeout(10):
            await fetched(script, **more)
    assert HOST not in str(caught.value)
    return caught.value


# --- what comes back -------------------------------------------------------------------------------------------------


async def test_a_page() -> None:
    result = await fetched(answer("grüße".encode("latin-1"), content_type='text/html; charset="ISO-8859-1"'))
    assert result.status == 200
    assert result.text is not None
    assert result.text.value == "grüße"
    assert result.text.source == SITE
    assert result.content_type.value == "text/html"
    assert result.url.value == result.requested
    assert not result.truncated
    assert ("content-length", "5") in result.headers.value


async def test_an_error_status_is_an_answer() -> None:
    result = await fetched(answer(b"not here", "404 Not Found"))
    assert (result.status, result.body.value) == (404, b"not here")


async def test_bytes_have_no_text() -> None:
    result = await fetched(answer(b"\x89PNG", content_type="image/png"), content_types=("image/*",))
    assert (result.text, result.body.value) == (None, b"\x89PNG")


@pytest.mark.parametrize("content_type", ["image/png", "application/octet-stream", "text", "", "application/jsonx"])
async def test_a_type_that_is_not_allowed(content_type: str) -> None:
    error = await refusal(answer(b"x", content_type=content_type))
    assert error.reason is FetchReason.CONTENT_TYPE


async def test_what_a_server_is_told() -> None:
    async with serving(answer()) as server:
        url = f"http://{SITE}:{server.port}/a%20b/.././c%20d?q=ü&r=%2F#part"
        headers = (("Authorization", "Bearer x"), ("Accept", "text/plain"))
        await Fetcher(resolver=names()).fetch(FetchRequest(url, headers=headers), rules(server.port))
        line, *told = server.asked[0].decode().rstrip().split("\r\n")
    assert line == "GET /c%20d?q=%C3%BC&r=%2F HTTP/1.1"
    assert sorted(told) == sorted(
        [
            f"Host: {SITE}:{server.port}",
            "Accept-Encoding: gzip, deflate",
            "Connection: close",
            "User-Agent: stepwell",
            "Authorization: Bearer x",
            "Accept: text/plain",
        ]
    )


async def test_nothing_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text(f"machine {SITE} login me password secret\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with serving(answer(set_cookie="a=b")) as server:
        fetcher = Fetcher(resolver=names())
        for _ in range(2):
            await fetcher.fetch(FetchRequest(f"http://{SITE}:{server.port}/"), rules(server.port))
    assert len(server.asked) == 2
    assert not any(b"uthorization" in head or b"ookie" in head for head in server.asked)


@pytest.mark.parametrize(
    ("method", "headers", "body"),
    [
        (Method.POST, (), b""),
        (Method.GET, (), b"body"),
        (Method.GET, (("Host", "private"),), b""),
        (Method.GET, (("Cookie", "a=b"),), b""),
        (Method.GET, (("content-length", "3"),), b""),
        (Method.GET, (("Transfer-Encoding", "chunked"),), b""),
        (Method.GET, (("X-Forwarded-For", "127.0.0.1"),), b""),
        (Method.GET, (("Proxy-Authorization", "x"),), b""),
        (Method.GET, (("X-A", "b\r\nX-C: d"),), b""),
        (Method.GET, (("X A", "b"),), b""),
        (Method.GET, (("", "b"),), b""),
        (Method.GET, (("X-A", "ü"),), b""),
    ],
)
async def test_a_request_that_is_not_sent(method: Method, headers: tuple[tuple[str, str], ...], body: bytes) -> None:
    async with serving(answer()) as server:
        request = FetchRequest(f"http://{SITE}:{server.port}/", method, headers, body)
        with pytest.raises(FetchRefusedError) as caught:
            await Fetcher(resolver=names()).fetch(request, rules(server.port))
    assert caught.value.reason is FetchReason.REQUEST
    assert not server.asked


# --- where it may go -------------------------------------------------------------------------------------------------


async def test_this_machine_is_closed_unless_host_and_port_were_named() -> None:
    async with serving(answer()) as server:
        url = f"http://{SITE}:{server.port}/"
        for closed in (
            FetchRules(hosts=("*",), ports=frozenset({server.port}), schemes=frozenset({"http"})),
            FetchRules(
                hosts=(SITE,),
                ports=frozenset({server.port}),
                internal=frozenset({(SITE, 1)}),
                schemes=frozenset({"http"}),
            ),
            FetchRules(internal=frozenset({(HOST, server.port)}), schemes=frozenset({"http"})),
        ):
            with pytest.raises(FetchRefusedError):
                await Fetcher(resolver=names()).fetch(FetchRequest(url), closed)
        assert not server.asked
        by_number = FetchRules(internal=frozenset({(HOST, server.port)}), schemes=frozenset({"http"}))
        result = await Fetcher().fetch(FetchRequest(f"http://{HOST}:{server.port}/"), by_number)
        assert result.status == 200


async def test_a_named_internal_host_may_not_become_a_link_local_one() -> None:
    lying = Names({SITE: [["169.254.169.254"]]})
    with pytest.raises(FetchRefusedError) as caught:
        await Fetcher(resolver=lying).fetch(FetchRequest(f"http://{SITE}:80/"), rules(80))
    assert caught.value.reason is FetchReason.ADDRESS


async def test_the_next_address_is_tried_when_one_takes_no_connection() -> None:
    async with serving(answer()) as server:
        several = Names({SITE: [["127.0.0.2", HOST]]})
        result = await Fetcher(resolver=several).fetch(
            FetchRequest(f"http://{SITE}:{server.port}/"), rules(server.port)
        )
    assert result.status == 200


async def test_nobody_listens() -> None:
    async with serving(answer()) as server:
        pass
    with pytest.raises(FetchFailedError) as caught:
        await Fetcher(resolver=names()).fetch(FetchRequest(f"http://{SITE}:{server.port}/"), rules(server.port))
    assert caught.value.reason is FetchReason.CONNECT


async def test_a_name_without_address() -> None:
    with pytest.raises(FetchFailedError) as caught:
        await Fetcher(resolver=Names({})).fetch(
            FetchRequest("http://nowhere.test/"), FetchRules(hosts=("*",), schemes=frozenset({"http"}))
        )
    assert caught.value.reason is FetchReason.DNS


# --- redirects -------------------------------------------------------------------------------------------------------


async def test_redirects_are_followed_and_counted() -> None:
    async def script(head: bytes, writer: asyncio.StreamWriter) -> None:
        number = int(head.split(b" ")[1][1:])
        writer.write(redirect(f"/{number - 1}") if number else answer(b"there"))

    result = await fetched(script, "/3")
    assert (result.redirects, result.body.value) == (3, b"there")
    assert result.url.value.endswith("/0")
    with pytest.raises(FetchRefusedError) as caught:
        await fetched(script, "/9")
    assert caught.value.detail is None
    assert caught.value.reason is FetchReason.REDIRECT
    assert (await fetched(script, "/2", redirects=2)).redirects == 2


async def test_no_redirect_may_be_allowed() -> None:
    error = await refusal(redirect("/elsewhere"), redirects=0)
    assert error.reason is FetchReason.REDIRECT


async def test_a_redirect_to_where_it_may_not_go_contacts_nobody() -> None:
    async with serving(answer()) as inner, serving(redirect(f"http://{HOST}:{inner.port}/")) as outer:
        with pytest.raises(FetchRefusedError):
            await Fetcher(resolver=names()).fetch(FetchRequest(f"http://{SITE}:{outer.port}/"), rules(outer.port))
        assert not inner.asked


async def test_an_error_says_nothing_in_a_servers_words() -> None:
    for location in ("http://ignore-all-that.test/", "http://ignore all that/", "/next"):

        async def script(head: bytes, writer: asyncio.StreamWriter, location: str = location) -> None:
            leads_on = head.startswith(b"GET / ")
            writer.write(redirect(location) if leads_on else answer(b"x", content_type="ignore/that"))

        error = await refusal(script)
        assert "ignore" not in str(error)
        assert SITE in str(error)
        assert error.detail is not None
    assert "ignore" not in str(await refusal(answer(b"x", content_type="ignore/that")))


async def test_keys_are_not_told_to_another_server() -> None:
    async with serving(answer()) as other, serving(redirect(f"http://{OTHER}:{other.port}/")) as first:
        request = FetchRequest(f"http://{SITE}:{first.port}/", headers=(("Authorization", "Bearer x"), ("X-Key", "y")))
        await Fetcher(resolver=names()).fetch(request, rules(first.port, other.port))
    assert b"Bearer x" in first.asked[0]
    assert b"Bearer x" not in other.asked[0]
    assert b"X-Key" not in other.asked[0]


async def test_a_post_becomes_a_get_or_stays_with_its_server() -> None:
    posts = frozenset({Method.POST})
    async with serving(answer()) as other:
        for status, moved in (("303 See Other", True), ("302 Found", True), ("307 Temporary Redirect", False)):
            async with serving(redirect(f"http://{OTHER}:{other.port}/", status)) as first:
                request = FetchRequest(f"http://{SITE}:{first.port}/", Method.POST, body=b"data")
                fetching = Fetcher(resolver=names()).fetch(request, rules(first.port, other.port, methods=posts))
                if moved:
                    assert (await fetching).redirects == 1
                    assert other.asked.pop().startswith(b"GET ")
                else:
                    with pytest.raises(FetchRefusedError):
                        await fetching
                    assert not other.asked


# --- sizes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "truncated"), [(99, False), (100, False), (101, True), (5_000, True)])
@pytest.mark.parametrize("packing", [None, "gzip", "deflate"])
async def test_a_body_is_cut_at_the_limit(size: int, truncated: bool, packing: str | None) -> None:
    body = bytes(number % 251 for number in range(size))
    packers: dict[str | None, Callable[[bytes], bytes]] = {None: bytes, "gzip": gzip.compress, "deflate": zlib.compress}
    headers = {"content_encoding": packing} if packing else {}
    result = await fetched(answer(packers[packing](body), **headers), body_bytes=100)
    assert (result.body.value, result.truncated) == (body[:100], truncated)


async def test_a_bomb_is_cut() -> None:
    bomb = gzip.compress(bytes(64 * 1024 * 1024), compresslevel=9, mtime=0)
    assert len(bomb) < 100_000
    result = await fetched(answer(bomb, content_encoding="gzip"))
    assert result.truncated
    assert len(result.body.value) == 2 * 1024 * 1024


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "compress", "gzip,deflate"])
async def test_packing_that_was_not_offered(encoding: str) -> None:
    assert (await refusal(answer(b"x", content_encoding=encoding))).reason is FetchReason.ENCODING


@pytest.mark.parametrize("body", [b"not packed", gzip.compress(b"x" * 1000, mtime=0)[:-9], b"\x1f"])
async def test_packing_that_is_none(body: bytes) -> None:
    assert (await refusal(answer(body, content_encoding="gzip"))).reason is FetchReason.PROTOCOL


async def test_a_body_without_end_is_cut() -> None:
    async def script(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while True:
            writer.write(b"x" * 10_000)
            await writer.drain()

    result = await fetched(script, body_bytes=50_000)
    assert result.truncated
    assert len(result.body.value) == 50_000


async def test_packed_data_that_unpacks_to_nothing_ends() -> None:
    async def script(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: deflate\r\n\r\n\x78\x9c")
        while True:
            writer.write(b"\x00\x00\x00\xff\xff" * 2_000)  # empty stored blocks
            await writer.drain()

    result = await fetched(script, body_bytes=50_000)
    assert (result.truncated, result.body.value) == (True, b"")


def many_headers(count: int) -> bytes:
    head = b"".join(b"X-%d: %s\r\n" % (number, b"y" * 100) for number in range(count))
    return b"HTTP/1.1 200 OK\r\n" + head + b"\r\n"


async def test_headers_have_a_limit() -> None:
    error = await refusal(answer(x="y" * 40_000))
    assert error.reason is FetchReason.HEADERS
    many = await refusal(many_headers(2_000))
    assert many.reason is FetchReason.PROTOCOL

    async def endless(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"X: " + b"y" * 1_000 + b"\r\n")
            await writer.drain()

    assert (await refusal(endless)).reason is FetchReason.PROTOCOL


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"hello\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nContent-Type: text/plain\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\nhe",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/plain\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA b: c\r\n\r\n",
    ],
)
async def test_what_is_no_http(raw: bytes) -> None:
    assert (await refusal(raw)).reason is FetchReason.PROTOCOL


async def test_a_cut_in_a_character_leaves_it_out() -> None:
    result = await fetched(answer("aé".encode(), content_type="text/plain; charset=utf-8"), body_bytes=2)
    assert result.text is not None
    assert (result.text.value, result.truncated) == ("a", True)


# --- time ------------------------------------------------------------------------------------------------------------


async def test_a_slow_body_ends_at_the_deadline_and_the_connection_with_it() -> None:
    gone = asyncio.Event()

    async def script(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nx")
        await writer.drain()
        try:
            while True:
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0)
        finally:
            gone.set()

    assert (await refusal(script, deadline_s=0.3, body_bytes=10**9)).reason is FetchReason.TIMEOUT
    async with asyncio.timeout(10):
        await gone.wait()


@pytest.mark.parametrize("first", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_silence_ends_at_the_deadline(first: bytes) -> None:
    over = asyncio.Event()

    async def script(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        await writer.drain()
        await over.wait()

    assert (await refusal(script, deadline_s=0.2)).reason is FetchReason.TIMEOUT
    over.set()


async def test_a_slow_name_server_ends_at_the_deadline() -> None:
    class Slow:
        async def resolve(self, host: str, port: int) -> list[str]:
            await asyncio.Event().wait()
            return []

    with pytest.raises(FetchFailedError) as caught:
        await Fetcher(resolver=Slow()).fetch(FetchRequest(f"http://{SITE}/"), rules(80, deadline_s=0.1))
    assert caught.value.reason is FetchReason.TIMEOUT


async def test_a_call_that_is_cancelled_closes_its_connection() -> None:
    asked, gone = asyncio.Event(), asyncio.Event()

    async def script(head: bytes, writer: asyncio.StreamWriter) -> None:
        asked.set()
        try:
            while True:
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                await writer.drain()
                await asyncio.sleep(0)
        finally:
            gone.set()

    task = asyncio.create_task(fetched(script))
    async with asyncio.timeout(10):
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await gone.wait()


# --- encryption ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for `site.test`, signed by itself, with its key in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("certificate")
    subprocess.run(
        f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={SITE} "
        f"-addext subjectAltName=DNS:{SITE} -keyout key.pem -out certificate.pem".split(),
        cwd=folder,
        check=True,
        capture_output=True,
    )
    both = folder / "both.pem"
    both.write_text((folder / "key.pem").read_text() + (folder / "certificate.pem").read_text())
    return both


@pytest.fixture
async def secure(certificate: Path) -> AsyncIterator[tuple[int, list[str | None]]]:
    """The port of an encrypted server, and the names that clients asked it for."""
    asked: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.sni_callback = lambda _socket, name, _context: asked.append(name)
    async with serving(answer(), context) as server:
        yield server.port, asked


async def test_a_certificate_is_held_against_the_name_not_the_address(
    secure: tuple[int, list[str | None]], certificate: Path
) -> None:
    port, asked = secure
    trusting = Fetcher(resolver=names(), trust=ssl.create_default_context(cafile=str(certificate)))
    result = await trusting.fetch(FetchRequest(f"https://{SITE}:{port}/"), rules(port))
    assert result.status == 200
    assert asked == [SITE]
    with pytest.raises(FetchFailedError, match="certificate"):
        await trusting.fetch(FetchRequest(f"https://{OTHER}:{port}/"), rules(port))


async def test_a_certificate_that_nobody_vouches_for(secure: tuple[int, list[str | None]]) -> None:
    port, _ = secure
    with pytest.raises(FetchFailedError, match="certificate") as caught:
        await Fetcher(resolver=names()).fetch(FetchRequest(f"https://{SITE}:{port}/"), rules(port))
    assert caught.value.reason is FetchReason.CONNECT


async def test_an_encrypted_page_does_not_lead_to_a_plain_one(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    async with serving(answer()) as plain, serving(redirect(f"http://{SITE}:{plain.port}/"), context) as server:
        trusting = Fetcher(resolver=names(), trust=ssl.create_default_context(cafile=str(certificate)))
        with pytest.raises(FetchRefusedError) as caught:
            await trusting.fetch(FetchRequest(f"https://{SITE}:{server.port}/"), rules(server.port, plain.port))
        assert caught.value.detail is not None
        assert "from https to http" in caught.value.detail.value
        assert not plain.asked
