"""The one place of the product that asks other people's servers (SECURITY S18, S19).

Invariant: a connection goes to an address that was judged, and to no other. Each hop, the first as every redirect, is
read by the one reader of URLs, held against the operator's list, resolved once, and all its addresses are judged; the
client is then given the address, and the name only for the Host header and for TLS. No name is looked up after it was
judged, so a name server that changes its answer gains nothing.

The client is used below its conveniences: no environment, proxy, netrc, cookie, stored connection or redirect of its
own is in play.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace

import httpx2

from runtime.tools.fetch.errors import FetchError, FetchFailedError, FetchReason, FetchRefusedError
from runtime.tools.fetch.port import FetchPort, FetchRequest, FetchResult, FetchRules, Method, Resolver
from runtime.tools.fetch.reading import OFFERED, packing_of, read_body, read_text
from runtime.tools.fetch.resolving import SystemResolver
from runtime.tools.fetch.rules import check_host, check_request, checked_addresses, type_allowed
from runtime.tools.fetch.untrusted import Untrusted
from runtime.tools.fetch.urls import WebAddress, read_redirect, read_url

USER_AGENT = "stepwell"
#: Addresses of one host that are tried until one takes a connection.
MOST_ADDRESSES = 3
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_KEEP_METHOD = frozenset({307, 308})
_NO_BODY = frozenset({204, 304})
_TEXTUAL = ("json", "xml", "javascript", "x-www-form-urlencoded", "yaml", "toml", "csv", "graphql")


@dataclass(frozen=True, slots=True)
class _Hop:
    """A request to one place."""

    at: WebAddress
    request: FetchRequest


class Fetcher(FetchPort):
    """Fetches over the network. Keeps no connection and no state between two calls; calls may run side by side.

    `trust`: which certificates are accepted; by default those that the operating system trusts.
    """

    def __init__(self, *, resolver: Resolver | None = None, trust: ssl.SSLContext | None = None) -> None:
        self._resolver = resolver or SystemResolver()
        self._trust = trust or httpx2.create_ssl_context(trust_env=False)

    async def fetch(self, request: FetchRequest, rules: FetchRules) -> FetchResult:
        """As `FetchPort` promises. A call that is cancelled closes its connection."""
        check_request(request, rules)
        try:
            async with asyncio.timeout(rules.deadline_s):
                return await self._follow(_Hop(read_url(request.url), request), rules)
        except TimeoutError:
            raise FetchFailedError(
                FetchReason.TIMEOUT, f"the answer was not complete after {rules.deadline_s:g} s: try again later"
            ) from None

    async def _follow(self, hop: _Hop, rules: FetchRules) -> FetchResult:
        first = hop
        for redirects in range(rules.redirects + 1):
            with _led_by(first.at, redirects > 0):
                async with self._answered(hop, rules) as response:
                    location = response.headers.get("location")
                    if response.status_code not in _REDIRECTS or location is None:
                        return await _result(first.request.url, hop, response, rules, redirects)
            with _led_by(first.at, led=True):
                hop = _next_hop(hop, response.status_code, location)
        raise FetchRefusedError(
            FetchReason.REDIRECT, f"there were more than {rules.redirects} redirects: fetch where they lead directly"
        )

    @asynccontextmanager
    async def _answered(self, hop: _Hop, rules: FetchRules) -> AsyncIterator[httpx2.Response]:
        """The head of the answer of one place, its body still to be read."""
        addresses = await judged_addresses(hop.at, rules, self._resolver)
        async with httpx2.AsyncHTTPTransport(verify=self._trust, trust_env=False) as transport:
            with told(hop.at):
                response = await _ask(transport, hop, addresses, rules)
            try:
                _check_size_of_head(response, rules)
                yield response
            finally:
                await response.aclose()


async def judged_addresses(at: WebAddress, rules: FetchRules, resolver: Resolver) -> list[str]:
    """The addresses of a place that may be asked, all of them judged. Raises `FetchError`."""
    check_host(at, rules)
    if at.address is not None:
        return checked_addresses(at, [str(at.address)], rules)
    try:
        found = await resolver.resolve(at.host, at.port)
    except (OSError, UnicodeError):
        found = ()
    if not found:
        raise FetchFailedError(FetchReason.DNS, f"{at.host} has no address: check the name")
    return checked_addresses(at, found, rules)


async def _ask(
    transport: httpx2.AsyncHTTPTransport, hop: _Hop, addresses: list[str], rules: FetchRules
) -> httpx2.Response:
    """Send a request to the first address that takes a connection."""
    *before, last = addresses[:MOST_ADDRESSES]
    for address in before:
        try:
            return await transport.handle_async_request(_pinned(hop, address, rules))
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            continue  # nothing was sent yet
    return await transport.handle_async_request(_pinned(hop, last, rules))


def _pinned(hop: _Hop, address: str, rules: FetchRules) -> httpx2.Request:
    """The request as it is sent: connected to an address, meant for a name."""
    at, request = hop.at, hop.request
    given = {name.lower() for name, _ in request.headers}
    ours = [("Host", at.authority), ("Accept-Encoding", OFFERED), ("Connection", "close")]
    ours += [
        (name, value) for name, value in (("User-Agent", USER_AGENT), ("Accept", "*/*")) if name.lower() not in given
    ]
    host = f"[{address}]" if ":" in address else address
    return httpx2.Request(
        request.method,
        httpx2.URL(f"{at.scheme}://{host}:{at.port}").copy_with(raw_path=at.target.encode("ascii")),
        headers=[*ours, *request.headers],
        content=request.body or None,
        extensions={"sni_hostname": at.host, "timeout": {"connect": rules.connect_s}},
    )


def _next_hop(hop: _Hop, status: int, location: str) -> _Hop:
    """Where a redirect leads and what is asked there."""
    at = read_redirect(hop.at, location)
    if (hop.at.scheme, at.scheme) == ("https", "http"):
        raise FetchRefusedError(FetchReason.REDIRECT, f"{hop.at.host} leads from https to http: fetch that directly")
    request = hop.request
    if status not in _KEEP_METHOD and request.method is not Method.HEAD:
        request = replace(request, method=Method.GET, body=b"")
    if at.origin != hop.at.origin:
        if request.method not in (Method.GET, Method.HEAD):
            raise FetchRefusedError(
                FetchReason.REDIRECT, f"{hop.at.host} would have the {request.method} sent to another server"
            )
        # What was meant for one server, a key perhaps, is not told to another.
        request = replace(request, headers=())
    return _Hop(at, request)


async def _result(
    requested: str, hop: _Hop, response: httpx2.Response, rules: FetchRules, redirects: int
) -> FetchResult:
    content_type, charset = _content_type(response)
    body, truncated = b"", False
    if hop.request.method is not Method.HEAD and response.status_code not in _NO_BODY:
        if not type_allowed(content_type, rules):
            raise FetchRefusedError(
                FetchReason.CONTENT_TYPE,
                f"{hop.at.host} answered {response.status_code} with content of a type that is not allowed: "
                f"{', '.join(rules.content_types)} are",
            )
        packing = packing_of(response.headers.get_list("content-encoding"))
        with told(hop.at):
            body, truncated = await read_body(_chunks(response), packing, rules.body_bytes)
    source = hop.at.host
    text = Untrusted(read_text(body, charset, truncated), source) if _is_text(content_type) else None
    return FetchResult(
        requested=requested,
        url=Untrusted(str(hop.at), source),
        status=response.status_code,
        content_type=Untrusted(content_type, source),
        headers=Untrusted(tuple(response.headers.multi_items()), source),
        body=Untrusted(body, source),
        text=text,
        truncated=truncated,
        redirects=redirects,
    )


async def _chunks(response: httpx2.Response) -> AsyncIterator[bytes]:
    """The body as it comes, not unpacked."""
    stream = response.stream
    if not isinstance(stream, httpx2.AsyncByteStream):
        raise TypeError(f"the client gave a {type(stream).__name__}, not an asynchronous stream")
    async for chunk in stream:
        yield chunk


def _check_size_of_head(response: httpx2.Response, rules: FetchRules) -> None:
    size = sum(len(name) + len(value) + len(": \r\n") for name, value in response.headers.raw)
    if size > rules.header_bytes:
        raise FetchRefusedError(
            FetchReason.HEADERS, f"the answer has {size} bytes of headers: {rules.header_bytes} may be"
        )


def _content_type(response: httpx2.Response) -> tuple[str, str | None]:
    """The type in small letters, without parameters, and the charset among them."""
    kind, *parameters = response.headers.get("content-type", "application/octet-stream").split(";")
    charsets = (
        value for name, _, value in (one.partition("=") for one in parameters) if name.strip().lower() == "charset"
    )
    return kind.strip().lower(), next(charsets, None)


def _is_text(content_type: str) -> bool:
    kind, _, subtype = content_type.partition("/")
    return kind == "text" or subtype.rpartition("+")[2].removeprefix("x-") in _TEXTUAL


@contextmanager
def _led_by(first: WebAddress, led: bool) -> Iterator[None]:
    """Take what servers wrote out of errors, once one of them has led somewhere."""
    try:
        yield
    except FetchError as error:
        raise error.behind_redirect(first.host) if led else error from None


@contextmanager
def told(at: WebAddress) -> Iterator[None]:
    """Turn the client's errors into ours. Its texts are left out: they quote addresses and what servers wrote."""
    try:
        yield
    except httpx2.ConnectTimeout:
        raise FetchFailedError(FetchReason.CONNECT, f"{at.host} took no connection in time: try again later") from None
    except httpx2.ConnectError as error:
        raise FetchFailedError(FetchReason.CONNECT, f"{at.host} {_about_connection(error)}") from None
    except httpx2.HTTPError as error:
        kind = type(error).__name__
        raise FetchFailedError(
            FetchReason.PROTOCOL, f"{at.host} gave no proper answer ({kind}): try again later"
        ) from None


def _about_connection(error: BaseException) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return "has a certificate or a TLS version that is not accepted: check the name"
        cause = cause.__cause__ or cause.__context__
    return "takes no connections: try again later"
