"""Keeps one server connected: starts it, lists its tools, hears of changes, and starts it again when it is gone.

    connecting ──▶ up ──▶ (it ends) ──▶ down, for a while that doubles ──▶ connecting ──▶ ...

One task opens and closes every connection; calls come from other tasks. A call that finds the server connecting waits
as long as its tool may run; one that finds it down is told so at once. A call is never sent twice from here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from mcp_types import CallToolResult
from mcp_types import Tool as ToolDescription

from runtime.firstof import first_of
from runtime.ports import Clock, Log
from runtime.tools.errors import MayPass, ToolFailed
from runtime.tools.mcp.cards import Card, CardRefused, card_of
from runtime.tools.mcp.config import McpServer
from runtime.tools.mcp.failures import ServerGone, words_of
from runtime.tools.mcp.link import Events, Link, Surroundings, open_link
from runtime.tools.scope import ToolName
from store.clock import Chance

_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 60.0
_MOST_DOUBLINGS = 10
#: a connection that held so long was no failed one
_HELD_S = 60.0
#: the tools are listed again so often, also when the server says nothing
_LIST_AGAIN_S = 300.0
#: and not more often than this, however often it says that they changed
_LIST_PAUSE_S = 1.0

Told = Callable[[McpServer, Sequence[Card]], Awaitable[None]]
Agreed = Callable[[ToolName, str], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class _Connecting:
    """Soon it is something else; `over` is set then."""

    over: asyncio.Event


@dataclass(frozen=True, slots=True)
class _Up:
    link: Link
    cards: Mapping[ToolName, Card]


@dataclass(frozen=True, slots=True)
class _Down:
    """`until` is a time of the clock's `monotonic`."""

    reason: str
    until: float


@dataclass(frozen=True, slots=True)
class KeeperPorts:
    """What a keeper needs from outside.

    `told` is called with the tools after each listing; `agreed` says, right before a call is sent, whether people agree
    to the tool of that name and hash at this moment. It raises `ToolFailed` when nobody can say.
    """

    clock: Clock
    chance: Chance
    log: Log
    around: Surroundings
    told: Told
    agreed: Agreed


class Keeper:
    """One server. `start` it once, `stop` it once."""

    def __init__(self, server: McpServer, ports: KeeperPorts) -> None:
        self.server = server
        self._ports = ports
        self._state: _Connecting | _Up | _Down = _Connecting(asyncio.Event())
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to connect; returns at once."""
        self._task = asyncio.create_task(self._run(), name=f"mcp {self.server.name}")

    async def stop(self) -> None:
        """Close the connection and end the server's process; nothing of it is left."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._set(_Down("the worker stops", self._ports.clock.monotonic()))

    @property
    def is_up(self) -> bool:
        """Whether calls reach the server now."""
        return isinstance(self._state, _Up)

    async def call(self, name: ToolName, hash_: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Call the tool `name` if it still is the one with that hash, and people still agree to that one.

        Raises `ToolFailed` when nothing was sent and asking again does not help, `MayPass` when nothing was sent and it
        may, and what `Link.call` raises.
        """
        link, card = await self._ready(name, hash_)
        return await link.call(card.remote, card.theirs(arguments))

    async def _ready(self, name: ToolName, hash_: str) -> tuple[Link, Card]:
        """The connection, and the tool that people agreed to while it stood: a wait for one leaves time to withdraw."""
        while True:
            up = await self._up()
            card = self._offered(up, name, hash_)
            if not await self._ports.agreed(name, hash_):
                raise ToolFailed(f"{name} is off: nobody agrees to it now, and nothing was sent")
            if self._state is up:
                return up.link, card

    def _offered(self, up: _Up, name: ToolName, hash_: str) -> Card:
        card = up.cards.get(name)
        if card is None:
            raise ToolFailed(f"{self.server.name} does not have {name} any more")
        if card.hash != hash_:
            raise ToolFailed(f"{name} has changed at {self.server.name}; it is off until a person agrees to it again")
        return card

    async def _up(self) -> _Up:
        while True:
            match self._state:
                case _Up() as up:
                    return up
                case _Connecting(over=over):
                    await over.wait()
                case _Down(reason=reason, until=until):
                    wait = max(0.0, until - self._ports.clock.monotonic())
                    raise MayPass(f"{self.server.name} cannot be reached now: {reason}", retry_after_s=wait)
                case _:
                    assert_never(self._state)

    async def _run(self) -> None:
        failures = 0
        clock = self._ports.clock
        while True:
            began = clock.monotonic()
            reason = await self._served()
            failures = 0 if clock.monotonic() - began >= _HELD_S else min(failures + 1, _MOST_DOUBLINGS)
            limit = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** max(0, failures - 1))
            pause = self._ports.chance.uniform(limit / 2, limit)
            self._set(_Down(reason, clock.monotonic() + pause))
            self._ports.log.warning(
                "an MCP server is gone; it is tried again", server=self.server.name, reason=reason, in_s=round(pause, 1)
            )
            await clock.sleep(pause)
            self._set(_Connecting(asyncio.Event()))

    async def _served(self) -> str:
        """Connect and stay until the connection ends; returns why it did."""
        events = Events.none_yet()
        try:
            async with open_link(self.server, self._ports.around, events) as link:
                try:
                    await self._stay(link)
                finally:
                    self._set(_Down(events.reason or "the connection ended", self._ports.clock.monotonic()))
        except TimeoutError:
            events.end(f"it did not answer within {self.server.connect_s:g} s")
        except (Exception, BaseExceptionGroup, asyncio.CancelledError) as error:
            # Whatever a server or the library does, a cancel of the library's own among it, the next try is the answer.
            if self._is_stopping():
                raise
            events.end(words_of(error))
        if events.last_words:
            self._ports.log.info("what an MCP server wrote last", server=self.server.name, said=events.last_words)
        return events.reason or "the connection ended"

    def _is_stopping(self) -> bool:
        return self._task is not None and self._task.cancelling() > 0

    async def _stay(self, link: Link) -> None:
        listening = asyncio.create_task(link.listen())
        try:
            while not link.events.ended.is_set():
                link.events.changed.clear()
                await self._list(link)
                await self._pause(_LIST_PAUSE_S, link.events.ended)
                await self._pause(_LIST_AGAIN_S, link.events.ended, link.events.changed)
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def _pause(self, seconds: float, *until: asyncio.Event) -> None:
        await first_of(self._ports.clock.sleep(seconds), *[event.wait() for event in until])

    async def _list(self, link: Link) -> None:
        async with asyncio.timeout(self.server.connect_s):
            listed = await link.tools()
        cards = self._cards(listed)
        if link.events.ended.is_set():
            raise ServerGone(link.events.reason)
        self._set(_Up(link, cards))  # before anybody is told of new tools and calls one
        await self._ports.told(self.server, list(cards.values()))

    def _cards(self, listed: Sequence[ToolDescription]) -> dict[ToolName, Card]:
        found: dict[ToolName, Card] = {}
        twice: set[ToolName] = set()
        for tool in listed:
            if not self.server.offers(tool.name):
                continue
            with contextlib.suppress(CardRefused):
                card = self._card(tool)
                if card.name in found:
                    self._refused(tool, "there are two of that name, and which one is meant nobody can say")
                    twice.add(card.name)
                found[card.name] = card
        return {name: card for name, card in found.items() if name not in twice}

    def _card(self, tool: ToolDescription) -> Card:
        try:
            return card_of(self.server, tool.name, tool.description, tool.input_schema)
        except CardRefused as error:
            self._refused(tool, str(error))
            raise

    def _refused(self, tool: ToolDescription, why: str) -> None:
        self._ports.log.warning(
            "a tool of an MCP server is left out", server=self.server.name, tool=tool.name[:100], why=why[:300]
        )

    def _set(self, state: _Connecting | _Up | _Down) -> None:
        before, self._state = self._state, state
        if isinstance(before, _Connecting):
            before.over.set()
