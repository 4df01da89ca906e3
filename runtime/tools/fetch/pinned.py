"""An HTTP client for one server that the operator named, for libraries that bring a protocol but no judgement.

It keeps the promise of `fetcher.py` for them: each request goes to an address that was judged, and to one origin,
without a proxy, netrc, cookie or redirect of the library's own. What comes back is bounded, and not unpacked: packed
answers are not asked for and not taken.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import httpx2

from runtime.tools.fetch.errors import FetchReason, FetchRefusedError
from runtime.tools.fetch.fetcher import MOST_ADDRESSES, USER_AGENT, judged_addresses, told
from runtime.tools.fetch.port import FetchRules, Resolver
from runtime.tools.fetch.resolving import SystemResolver
from runtime.tools.fetch.urls import WebAddress, read_url

_STREAMED = "text/event-stream"
_NOT_TAKEN = frozenset({"set-cookie"})


@dataclass(frozen=True, slots=True)
class PinnedLimits:
    """`body_bytes` of one answer that is no stream of events; `read_s` seconds without a byte end an answer."""

    body_bytes: int
    connect_s: float = 5.0
    read_s: float = 300.0


class BrokenOffError(httpx2.StreamError):
    """An answer ends here: it is larger than allowed, or its connection failed."""


def pinned_client(
    at: WebAddress,
    rules: FetchRules,
    headers: Sequence[tuple[str, str]],
    limits: PinnedLimits,
    *,
    resolver: Resolver | None = None,
    trust: ssl.SSLContext | None = None,
) -> httpx2.AsyncClient:
    """A client that asks the origin of `at` and no other, with `headers` on every request. Close it after use."""
    transport = _PinnedTransport(at, rules, limits, resolver or SystemResolver(), trust)
    timeout = httpx2.Timeout(30.0, connect=limits.connect_s, read=limits.read_s)
    named = {"User-Agent": USER_AGENT, **dict(headers)}
    return httpx2.AsyncClient(transport=transport, headers=named, timeout=timeout, trust_env=False)


class _PinnedTransport(httpx2.AsyncBaseTransport):
    def __init__(
        self, at: WebAddress, rules: FetchRules, limits: PinnedLimits, resolver: Resolver, trust: ssl.SSLContext | None
    ) -> None:
        self._at = at
        self._rules = rules
        self._limits = limits
        self._resolver = resolver
        # One origin: a connection that is kept was judged when it was made.
        self._inner = httpx2.AsyncHTTPTransport(
            verify=trust or httpx2.create_ssl_context(trust_env=False), trust_env=False
        )

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self._inner.__aexit__(exc_type, exc_value, traceback)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        at = read_url(str(request.url))
        if at.origin != self._at.origin:
            raise FetchRefusedError(
                FetchReason.REDIRECT, f"{self._at.host} leads to another server, which was not named: name that one"
            )
        addresses = (await judged_addresses(at, self._rules, self._resolver))[:MOST_ADDRESSES]
        with told(at):
            response = await self._asked(at, request, addresses)
        return await self._bounded(response)

    async def _asked(self, at: WebAddress, request: httpx2.Request, addresses: list[str]) -> httpx2.Response:
        *before, last = addresses
        for address in before:
            try:
                return await self._inner.handle_async_request(_pinned(at, request, address))
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue  # nothing was sent yet
        return await self._inner.handle_async_request(_pinned(at, request, last))

    async def _bounded(self, response: httpx2.Response) -> httpx2.Response:
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            await response.aclose()
            raise FetchRefusedError(
                FetchReason.ENCODING, f"{self._at.host} answered with packed content, which was not asked for"
            )
        streams = response.headers.get("content-type", "").lower().startswith(_STREAMED)
        limit = None if streams else self._limits.body_bytes
        headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in _NOT_TAKEN]
        return httpx2.Response(
            response.status_code,
            headers=headers,
            stream=_BoundedStream(response, limit),
            extensions=response.extensions,
        )


class _BoundedStream(httpx2.AsyncByteStream):
    """The bytes of an answer, so many at most; None is without limit."""

    def __init__(self, response: httpx2.Response, limit: int | None) -> None:
        self._response = response
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        taken = 0
        stream = self._response.stream
        if not isinstance(stream, httpx2.AsyncByteStream):
            raise TypeError(f"the client gave a {type(stream).__name__}, not an asynchronous stream")
        try:
            async for chunk in stream:
                taken += len(chunk)
                if self._limit is not None and taken > self._limit:
                    raise BrokenOffError(f"the answer has more than {self._limit:,} bytes")
                yield chunk
        except httpx2.HTTPError as error:
            raise BrokenOffError(f"the answer broke off ({type(error).__name__})") from error

    async def aclose(self) -> None:
        await self._response.aclose()


def _pinned(at: WebAddress, request: httpx2.Request, address: str) -> httpx2.Request:
    """The request as it is sent: connected to an address, meant for a name."""
    ours = {"host", "accept-encoding", "cookie"}
    kept = [(name, value) for name, value in request.headers.multi_items() if name.lower() not in ours]
    host = f"[{address}]" if ":" in address else address
    return httpx2.Request(
        request.method,
        httpx2.URL(f"{at.scheme}://{host}:{at.port}").copy_with(raw_path=at.target.encode("ascii")),
        headers=[("Host", at.authority), ("Accept-Encoding", "identity"), *kept],
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": at.host},
    )
