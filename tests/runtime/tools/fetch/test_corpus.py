"""URLs that programs read differently, and names that lie: each is refused for the right reason, or goes where it says.

No test here uses the network: the client's transport is replaced by one that notes where it would have connected.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

import httpx2
import pytest

from runtime.tools.fetch.errors import FetchReason, FetchRefusedError
from runtime.tools.fetch.fetcher import Fetcher
from runtime.tools.fetch.port import FetchRequest, FetchRules
from tests.runtime.tools.fetch.servers import Names

PUBLIC, PUBLIC_6 = "93.184.216.34", "2606:2800:220:1::1"
KNOWN = {
    "public.test": [PUBLIC],
    "xn--bcher-kva.test": [PUBLIC],
    "a_b.public.test": [PUBLIC],
    "six.test": [PUBLIC_6],
    "private.test": ["10.0.0.1"],
    "mixed.test": [PUBLIC, "10.0.0.1"],
    "mixed-last.test": ["192.168.0.1", PUBLIC],
    "mixed-six.test": [PUBLIC, "::1"],
    "loopback.test": ["127.0.0.1"],
    "metadata.test": ["169.254.169.254"],
    "unspecified.test": [str(ipaddress.IPv4Address(0))],
    "mapped.test": ["::ffff:127.0.0.1"],
    "mapped-public.test": [f"::ffff:{PUBLIC}"],
    "nat64.test": ["64:ff9b::7f00:1"],
    "zone.test": ["fe80::1%eth0"],
    "odd.test": ["not an address"],
    "localhost": ["127.0.0.1"],
    "internal": ["10.1.2.3"],
}

URL, HOST, ADDRESS = FetchReason.URL, FetchReason.HOST, FetchReason.ADDRESS

CORPUS: list[tuple[str, FetchReason | tuple[str, str]]] = [
    # what may be fetched, where it goes and for whom it is meant
    ("http://public.test/", (PUBLIC, "public.test")),
    ("HTTP://PUBLIC.TEST/a", (PUBLIC, "public.test")),
    ("http://public.test", (PUBLIC, "public.test")),
    ("http://public.test?x=1", (PUBLIC, "public.test")),
    ("http://public.test#@private.test/", (PUBLIC, "public.test")),
    ("http://public.test/@private.test/", (PUBLIC, "public.test")),
    ("http://public.test:443/", (PUBLIC, "public.test:443")),
    ("https://public.test/", (PUBLIC, "public.test")),
    ("http://a_b.public.test/", (PUBLIC, "a_b.public.test")),
    ("http://xn--bcher-kva.test/", (PUBLIC, "xn--bcher-kva.test")),
    ("http://six.test/", (PUBLIC_6, "six.test")),
    ("http://1.1.1.1/", ("1.1.1.1", "1.1.1.1")),
    ("http://[2606:4700::1111]/", ("2606:4700::1111", "[2606:4700::1111]")),
    ("http://mapped-public.test/", ("::ffff:5db8:d822", "mapped-public.test")),
    # credentials, and hosts that one program sees and another does not
    ("http://user:password@public.test/", URL),
    ("http://public.test@private.test/", URL),
    ("http://@public.test/", URL),
    ("http://public.test%40private.test/", URL),
    ("http://1.1.1.1 &@2.2.2.2# @3.3.3.3/", URL),
    ("http://1.1.1.1&@2.2.2.2#@3.3.3.3/", URL),
    ("http://public.test\\@private.test/", URL),
    ("http://private.test\\.public.test/", URL),
    ("http:\\\\private.test/", URL),
    ("http:/\\private.test/", URL),
    ("http://public.test#@private.test:80\\", URL),
    ("http://public.test:80@private.test/", URL),
    ("http://public.test:80:8080/", URL),
    ("http://public.test,private.test/", URL),
    ("http://public.test;private.test/", URL),
    # whitespace and control characters
    (" http://public.test/", URL),
    ("http://public.test/ ", URL),
    ("http://public.test/a\r\nHost: private.test", URL),
    ("http://public\t.test/", URL),
    ("http://public.test\n/", URL),
    ("http://public.test/\0", URL),
    ("http://pub\u200blic.test/", URL),
    ("http://public.test/\u2028", URL),
    ("ht\ntp://public.test/", URL),
    # addresses in unusual forms
    ("http://127.1/", URL),
    ("http://0177.0.0.1/", URL),
    ("http://0x7f.0.0.1/", URL),
    ("http://0x7f000001/", URL),
    ("http://2130706433/", URL),
    ("http://017700000001/", URL),
    ("http://127.0.0.1./", URL),
    ("http://256.256.256.256/", URL),
    ("http://1.1.1/", URL),
    ("http://1.1.1.1.1/", URL),
    ("http://public.0x7f/", URL),
    ("http://１２７.０.０.１/", URL),
    ("http://①②⑦.⓪.⓪.①/", URL),
    ("http://127。0。0。1/", URL),
    # addresses that are not public
    ("http://127.0.0.1/", ADDRESS),
    ("http://127.255.255.254/", ADDRESS),
    ("http://10.0.0.1/", ADDRESS),
    ("http://172.31.255.255/", ADDRESS),
    ("http://192.168.1.1/", ADDRESS),
    ("http://100.64.0.1/", ADDRESS),
    ("http://0.0.0.0/", ADDRESS),
    ("http://0.1.2.3/", ADDRESS),
    ("http://169.254.169.254/latest/meta-data/", ADDRESS),
    ("http://168.63.129.16/", ADDRESS),
    ("http://224.0.0.1/", ADDRESS),
    ("http://255.255.255.255/", ADDRESS),
    ("http://192.0.2.1/", ADDRESS),
    ("http://198.18.0.1/", ADDRESS),
    ("http://[::1]/", ADDRESS),
    ("http://[::]/", ADDRESS),
    ("http://[::ffff:127.0.0.1]/", ADDRESS),
    ("http://[::ffff:7f00:1]/", ADDRESS),
    ("http://[::127.0.0.1]/", ADDRESS),
    ("http://[0:0:0:0:0:ffff:a9fe:a9fe]/", ADDRESS),
    ("http://[64:ff9b::a9fe:a9fe]/", ADDRESS),
    ("http://[2002:7f00:1::]/", ADDRESS),
    ("http://[2001:0:7f00:1::]/", ADDRESS),
    ("http://[fd00:ec2::254]/", ADDRESS),
    ("http://[fe80::1]/", ADDRESS),
    ("http://[fec0::1]/", ADDRESS),
    ("http://[ff02::1]/", ADDRESS),
    ("http://[2606:4700::5efe:7f00:1]/", ADDRESS),
    ("http://[fe80::1%25eth0]/", URL),
    ("http://[fe80::1%eth0]/", URL),
    ("http://[::1/", URL),
    ("http://::1/", URL),
    ("http://[]/", URL),
    ("http://[v1.x]/", URL),
    ("http://[127.0.0.1]/", URL),
    # names that lead where they should not
    ("http://private.test/", ADDRESS),
    ("http://mixed.test/", ADDRESS),
    ("http://mixed-last.test/", ADDRESS),
    ("http://mixed-six.test/", ADDRESS),
    ("http://loopback.test/", ADDRESS),
    ("http://metadata.test/", ADDRESS),
    ("http://unspecified.test/", ADDRESS),
    ("http://mapped.test/", ADDRESS),
    ("http://nat64.test/", ADDRESS),
    ("http://zone.test/", ADDRESS),
    ("http://odd.test/", ADDRESS),
    ("http://localhost/", ADDRESS),
    ("http://internal/", ADDRESS),
    # names in unusual forms
    ("http://public.test./", URL),
    ("http://.public.test/", URL),
    ("http://public..test/", URL),
    ("http://-public.test/", URL),
    ("http://./", URL),
    ("http://../", URL),
    ("http://bücher.test/", URL),
    ("http://ｐublic.test/", URL),
    ("http://public。test/", URL),
    ("http://publıc.test/", URL),
    ("http://%70ublic.test/", URL),
    ("http://public.test%00.private.test/", URL),
    ("http://public.test%2f@private.test/", URL),
    ("http://" + "a" * 64 + ".test/", URL),
    ("http://" + "a." * 127 + "test/", URL),
    # schemes, empty hosts, ports
    ("", URL),
    ("public.test", URL),
    ("//public.test/", URL),
    ("http:public.test", URL),
    ("http:/public.test", URL),
    ("http:///public.test/", URL),
    ("http://", URL),
    ("http:///", URL),
    ("http://:80/", URL),
    ("http://?public.test", URL),
    ("file:///etc/passwd", URL),
    ("ftp://public.test/", URL),
    ("gopher://public.test:70/_x", URL),
    ("javascript:alert(1)", URL),
    ("data:text/plain,hello", URL),
    ("url:http://public.test/", URL),
    ("http+unix://%2fvar%2frun%2fdocker.sock/", URL),
    ("http://public.test:/", URL),
    ("http://public.test:0/", URL),
    ("http://public.test:080/", URL),
    ("http://public.test:65616/", URL),
    ("http://public.test:99999/", URL),
    ("http://public.test:-80/", URL),
    ("http://public.test:８０/", URL),
    ("http://public.test:22/", HOST),
    ("http://public.test:6379/", HOST),
    ("http://public.test/%zz", URL),
    ("http://public.test/" + "a" * 5000, URL),
]


@dataclass
class Wire:
    """Where connections would have gone."""

    requests: list[httpx2.Request] = field(default_factory=list)

    async def send(self, _transport: httpx2.AsyncHTTPTransport, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        return httpx2.Response(200, headers={"content-type": "text/plain"}, content=b"hello")


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    wire = Wire()

    async def send(transport: httpx2.AsyncHTTPTransport, request: httpx2.Request) -> httpx2.Response:
        return await wire.send(transport, request)

    monkeypatch.setattr(httpx2.AsyncHTTPTransport, "handle_async_request", send)
    return wire


@pytest.fixture(scope="module")
def fetcher() -> Fetcher:
    return Fetcher(resolver=Names({name: [found] for name, found in KNOWN.items()}))


def rules() -> FetchRules:
    """Every name and the addresses of the corpus may be asked: what is refused is refused for its address or form."""
    literals = ("1.1.1.1", "2606:4700::1111", *_literals())
    return FetchRules(hosts=("*", *literals), schemes=frozenset({"http", "https"}))


def _literals() -> list[str]:
    hosts = [url.removeprefix("http://").rstrip("/").split("/")[0] for url, verdict in CORPUS if verdict is ADDRESS]
    numbers = [host for host in hosts if host[0].isdigit()]
    return [
        *numbers,
        "::1",
        "::",
        "::ffff:7f00:1",
        "::7f00:1",
        "::ffff:a9fe:a9fe",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "2001:0:7f00:1::",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "2606:4700::5efe:7f00:1",
    ]


def test_the_corpus_is_as_long_as_promised() -> None:
    assert len({url for url, _ in CORPUS}) == len(CORPUS) >= 60


@pytest.mark.parametrize(("url", "verdict"), CORPUS, ids=lambda value: ascii(value)[:50])
async def test_a_url(url: str, verdict: FetchReason | tuple[str, str], fetcher: Fetcher, wire: Wire) -> None:
    if isinstance(verdict, FetchReason):
        with pytest.raises(FetchRefusedError) as caught:
            await fetcher.fetch(FetchRequest(url), rules())
        assert caught.value.reason is verdict, caught.value
        assert not wire.requests
        assert "\n" not in str(caught.value)
        return
    result = await fetcher.fetch(FetchRequest(url), rules())
    (sent,) = wire.requests
    assert (sent.url.host, sent.headers["host"]) == verdict
    assert sent.extensions["sni_hostname"] == httpx2.URL(f"http://{verdict[1]}").raw_host.decode()
    assert result.url.value.endswith(sent.url.raw_path.decode())
    assert result.status == 200


@pytest.mark.parametrize("url", [url for url, _ in CORPUS])
async def test_nothing_is_allowed_by_default(url: str, fetcher: Fetcher, wire: Wire) -> None:
    with pytest.raises(FetchRefusedError):
        await fetcher.fetch(FetchRequest(url), FetchRules(schemes=frozenset({"http", "https"})))
    assert not wire.requests


async def test_a_name_is_resolved_once_and_the_answer_kept(wire: Wire) -> None:
    names = Names({"rebind.test": [[PUBLIC], ["127.0.0.1"]]})
    await Fetcher(resolver=names).fetch(FetchRequest("http://rebind.test/"), rules())
    assert names.asked == ["rebind.test"]
    assert wire.requests[0].url.host == PUBLIC
    with pytest.raises(FetchRefusedError):
        await Fetcher(resolver=names).fetch(FetchRequest("http://rebind.test/"), rules())
    assert len(wire.requests) == 1


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("http://169.254.169.254/latest/meta-data/", ADDRESS),
        ("http://metadata.test/", ADDRESS),
        ("//127.0.0.1/", ADDRESS),
        ("http://public.test\\@127.0.0.1/", URL),
        ("/\t/127.0.0.1/", URL),
        ("http://user@public.test/", URL),
        ("http://2130706433/", URL),
        ("file:///etc/passwd", URL),
        ("javascript:alert(1)", URL),
        ("http://public.test:22/", HOST),
        ("http://rebind.test/", ADDRESS),
    ],
)
async def test_a_redirect_is_judged_like_a_url(
    location: str, reason: FetchReason, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def leads_away(_transport: httpx2.AsyncHTTPTransport, request: httpx2.Request) -> httpx2.Response:
        wire.requests.append(request)
        return httpx2.Response(302, headers={"location": location})

    monkeypatch.setattr(wire, "send", leads_away)
    names = Names({"rebind.test": [[PUBLIC], ["10.0.0.1"]], **{name: [found] for name, found in KNOWN.items()}})
    start = "http://rebind.test/" if "rebind" in location else "http://public.test/"
    with pytest.raises(FetchRefusedError) as caught:
        await Fetcher(resolver=names).fetch(FetchRequest(start), rules())
    assert caught.value.reason is reason
    # Where it leads is the server's choice of words; only the type says so.
    assert caught.value.detail is not None
    assert location not in str(caught.value) or location == start
    assert [request.url.host for request in wire.requests] == [PUBLIC]
