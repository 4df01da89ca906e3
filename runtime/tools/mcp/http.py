"""A server asked over streamable HTTP, through the client that judges every address (S19, S49).

Headers with the operator's tokens belong to this connection alone: the client asks one origin, and a redirect to
another one is refused before anything is sent. There is no sign-in by a browser, and no other token is sent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from mcp.client.streamable_http import streamable_http_client

from runtime.tools.fetch.pinned import PinnedLimits, pinned_client
from runtime.tools.fetch.port import FetchRequest, FetchRules, Method, Resolver
from runtime.tools.fetch.rules import check_request
from runtime.tools.mcp.config import Http
from runtime.tools.mcp.stdio import given_variables

_METHODS = frozenset({Method.GET, Method.POST, Method.DELETE})


@asynccontextmanager
async def http_transport(
    server: Http, environ: Mapping[str, str], *, limits: PinnedLimits, resolver: Resolver | None
) -> AsyncIterator[Any]:
    """The streams of a server; connections are closed when the context ends.

    Raises `CannotConnect` for a variable that is not set, `FetchRefusedError` for a value that is no header's.
    """
    values = given_variables(tuple(name for _, name in server.headers_env), environ)
    headers = tuple((header, values[name]) for header, name in server.headers_env)
    rules = _rules(server)
    check_request(FetchRequest(str(server.at), Method.POST, headers), rules)
    async with (
        pinned_client(server.at, rules, headers, limits, resolver=resolver) as client,
        streamable_http_client(str(server.at), http_client=client, max_sse_event_size=limits.body_bytes) as streams,
    ):
        yield streams


def _rules(server: Http) -> FetchRules:
    at = server.at
    place = (at.host, at.port)
    return FetchRules(
        hosts=(at.host,),
        internal=frozenset({place}) if server.internal else frozenset(),
        schemes=frozenset({at.scheme}),
        ports=frozenset({at.port}),
        methods=_METHODS,
    )
