"""One connection to a server: opened, asked for its tools, and called, by the `mcp` package's client.

Requests that a server makes of us (a model's answer, a question to a person, our folders) are refused: the client is
given nothing to answer them with and does not say that it could. What a server declares of its *answers* is not checked
here: the library would run the server's own schema over them, regular expressions and all.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from mcp import Client, ClientSession, MCPError
from mcp.client.subscriptions import SubscriptionLost
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    InputRequiredResult,
    PaginatedRequestParams,
    ToolListChangedNotification,
)
from mcp_types import Tool as ToolDescription
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from runtime.tools.errors import ToolFailed
from runtime.tools.fetch.pinned import PinnedLimits
from runtime.tools.fetch.port import Resolver
from runtime.tools.mcp.config import McpServer, Stdio
from runtime.tools.mcp.failures import BadAnswer, ServerGone
from runtime.tools.mcp.http import http_transport
from runtime.tools.mcp.stdio import stdio_transport

MAX_PAGES = 50
MAX_TOOLS = 200
_ANSWER: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(CallToolResult | InputRequiredResult)
_US = Implementation(name="stepwell", version="1")
#: what a server says when it did nothing
_NOT_DONE = frozenset({INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND})
#: what the library says of a session that the server has forgotten
_FORGOTTEN = "Session terminated"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What connections need from outside. `resolver`: None is the machine's own."""

    environ: Mapping[str, str]
    resolver: Resolver | None = None


@dataclass(slots=True)
class Events:
    """What a connection tells: that it has ended and why, or that the server's tools have changed."""

    ended: asyncio.Event
    changed: asyncio.Event
    reason: str = ""
    last_words: str = ""

    @classmethod
    def none_yet(cls) -> Events:
        return cls(asyncio.Event(), asyncio.Event())

    def end(self, reason: str) -> None:
        """The connection has ended; the first reason counts."""
        self.reason = self.reason or reason
        self.ended.set()

    def keep_last_words(self, text: str) -> None:
        self.last_words = text


@dataclass(frozen=True, slots=True)
class Link:
    """An open connection."""

    server: McpServer
    session: ClientSession
    client: Client
    events: Events

    async def tools(self) -> list[ToolDescription]:
        """Every tool that the server has now, at most `MAX_TOOLS`. Raises `BadAnswer` for a list without an end."""
        found: list[ToolDescription] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
            found.extend(page.tools)
            if page.next_cursor is None:
                return found[:MAX_TOOLS]
            if page.next_cursor == cursor or len(found) > MAX_TOOLS:
                break
            cursor = page.next_cursor
        raise BadAnswer(f"its list of tools has no end: more than {MAX_TOOLS} tools or {MAX_PAGES} pages")

    async def call(self, remote: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Call a tool. Cancelled, it tells the server so.

        Raises `ToolFailed` when the server did nothing, `ServerGone` when the connection ended and `BadAnswer` for
        everything else that is no answer.
        """
        request = CallToolRequest(params=CallToolRequestParams(name=remote, arguments=dict(arguments)))
        try:
            answer = await self.session.send_request(request, _ANSWER)
        except MCPError as error:
            raise self._failure(error) from error
        except ValidationError as error:
            raise BadAnswer(f"what {self.server.name} answered is no result of a tool") from error
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, RuntimeError) as error:
            raise ServerGone(f"the connection to {self.server.name} ended") from error
        if isinstance(answer, InputRequiredResult):
            raise ToolFailed(f"{self.server.name} wants to ask people or a model first, which it may not do here")
        return answer

    def _failure(self, error: MCPError) -> Exception:
        said = " ".join(error.message.split())[:500]
        if error.message == _FORGOTTEN:
            self.events.end("it has forgotten the session")
            return ServerGone(f"{self.server.name} has forgotten the session")
        if error.code == CONNECTION_CLOSED:
            return ServerGone(f"the connection to {self.server.name} ended: {said}")
        if error.code in _NOT_DONE:
            return ToolFailed(f"{self.server.name} refused the call: {said} ({error.code})")
        return BadAnswer(f"{self.server.name} answered with an error: {said} ({error.code})")

    async def listen(self) -> None:
        """Hear of changed tools from servers that are asked for that (protocol 2026-07-28 on); older ones just tell."""
        capability = self.session.server_capabilities
        tells = capability is not None and capability.tools is not None and bool(capability.tools.list_changed)
        if not tells or self.client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        try:
            async with self.client.listen(tools_list_changed=True) as subscription:
                async for _ in subscription:
                    self.events.changed.set()
        except (MCPError, SubscriptionLost, TimeoutError):
            return  # its tools are listed again from time to time in any case


@asynccontextmanager
async def open_link(server: McpServer, around: Surroundings, events: Events) -> AsyncIterator[Link]:
    """Connect within `server.connect_s` seconds; enter and leave it in one task.

    Raises `CannotConnect`, `FetchError`, `MCPError`, `TimeoutError`, or a group of such errors.
    """

    async def hear(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            events.changed.set()

    client = Client(_transport(server, around, events), cache=None, client_info=_US, message_handler=hear)
    async with AsyncExitStack() as stack:
        async with asyncio.timeout(server.connect_s):
            await stack.enter_async_context(client)
        yield Link(server, client.session, client, events)


def _transport(server: McpServer, around: Surroundings, events: Events) -> Any:
    limits = PinnedLimits(server.max_message_bytes, read_s=max(300.0, server.time_out_s + 30))
    if isinstance(server.reached, Stdio):
        return stdio_transport(
            server.reached,
            around.environ,
            max_bytes=server.max_message_bytes,
            ended=events.end,
            last_words=events.keep_last_words,
        )
    return http_transport(server.reached, around.environ, limits=limits, resolver=around.resolver)
