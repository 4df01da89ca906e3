"""The MCP servers of a worker, and their tools as snapshots that never change.

    async with McpServers(servers, pins=StorePins(db), ...) as mcp:
        now = mcp.snapshot()
        toolbox = Toolbox([*ours, *now.tools], grants, pins=now.pins)
        await mcp.newer_than(now.number)          # then a new snapshot, and a new toolbox

**Invariant: a tool is on only while what its server says of it is what a person agreed to**, and a running toolbox
never changes. A server that says "my tools changed", or a person who takes an approval back, leads to a new snapshot in
which the tool is off; a call with an older toolbox is refused before it is sent, where the hash is compared once more
with what the server says and, in the store, with what people agree to at that moment.

Before a server has answered, its tools are those that were seen last: a session that is carried on at the start of a
worker finds them, and its call waits for the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from runtime.ports import Clock, Log
from runtime.tools.errors import MayPass
from runtime.tools.mcp.answers import text_of
from runtime.tools.mcp.cards import Card, CardRefused, stored_card, tool_of
from runtime.tools.mcp.config import McpServer, ServerName, Trust
from runtime.tools.mcp.keeper import Keeper, KeeperPorts
from runtime.tools.mcp.link import Surroundings
from runtime.tools.mcp.pins import PinBook
from runtime.tools.schema import Json
from runtime.tools.scope import ToolName, ToolScope
from runtime.tools.tool import Run, Tool
from store.clock import Chance
from store.errors import StoreError
from store.tool_pins import ToolPin

_AFTER_FAILURE_S = 1.0


@dataclass(frozen=True, slots=True)
class McpSnapshot:
    """The tools of all servers at one moment, for a `Toolbox`. `pins` has an entry for each: "" is "off"."""

    number: int = 0
    tools: tuple[Tool, ...] = ()
    pins: Mapping[ToolName, str] = field(default_factory=dict)

    def says(self) -> list[tuple[str, str, str]]:
        """What tells one snapshot from another."""
        return [(tool.name, tool.schema_hash, self.pins[tool.name]) for tool in self.tools]


class McpServers:
    """Connects to all servers in the background while it is entered, and closes them when it is left.

    `environ` is where named variables are taken from; nothing else of it leaves this process. Entering reads the store
    once and waits for no server. Raises nothing of what servers do.
    """

    def __init__(
        self,
        servers: Sequence[McpServer],
        *,
        pins: PinBook,
        clock: Clock,
        chance: Chance,
        log: Log,
        around: Surroundings,
    ) -> None:
        ports = KeeperPorts(clock, chance, log, around, self._told, self._agreed)
        self._keepers = {server.name: Keeper(server, ports) for server in servers}
        self._book = pins
        self._clock = clock
        self._log = log
        self._live: dict[ServerName, tuple[Card, ...]] = {}
        self._rows: dict[str, ToolPin] = {}
        self._snapshot = McpSnapshot()
        self._newer = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._refresh()
        self._following = asyncio.create_task(self._follow(), name="mcp pins")
        for keeper in self._keepers.values():
            keeper.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        await asyncio.gather(*[keeper.stop() for keeper in self._keepers.values()])

    def snapshot(self) -> McpSnapshot:
        """The tools as they are known now."""
        return self._snapshot

    async def newer_than(self, number: int) -> McpSnapshot:
        """The first snapshot after the one with that number."""
        while self._snapshot.number <= number:
            await self._newer.wait()
        return self._snapshot

    def is_up(self, name: str) -> bool:
        """Whether a server can be called now."""
        keeper = self._keepers.get(ServerName(name))
        return keeper is not None and keeper.is_up

    async def _told(self, server: McpServer, cards: Sequence[Card]) -> None:
        is_news = self._live.get(server.name) != tuple(cards)
        self._live[server.name] = tuple(cards)
        try:
            await self._book.publish([card.seen() for card in cards], trust_new=server.trust is Trust.ON_FIRST_USE)
            await self._refresh()
        except StoreError as error:  # what is not in the book is off; the next listing writes it down
            self._log.warning("tools of an MCP server could not be stored", server=server.name, error=str(error))
            self._build()
        off = [card.name for card in cards if self._pin(card.name) != card.hash]
        if is_news:
            self._log.info("tools of an MCP server", server=server.name, tools=len(cards), waiting_for_a_person=off)

    async def _agreed(self, name: ToolName, hash_: str) -> bool:
        try:
            return await self._book.agreed_hash(name) == hash_
        except StoreError as error:
            raise MayPass(f"nothing was sent to {name}: whether people agree to it cannot be read now") from error

    async def _follow(self) -> None:
        """Take in what people agree to or take back, in whatever process."""
        async with self._book.watch() as watch:
            while True:
                try:
                    await self._refresh()
                    await watch.wait()
                except StoreError as error:
                    self._log.warning("tools that people agreed to cannot be read; trying again", error=str(error))
                    await self._clock.sleep(_AFTER_FAILURE_S)

    async def _refresh(self) -> None:
        self._rows = {row.tool: row for row in await self._book.pins()}
        self._build()

    def _build(self) -> None:
        tools = tuple(self._tools())
        made = McpSnapshot(self._snapshot.number + 1, tools, {tool.name: self._pin(tool.name) for tool in tools})
        if made.says() != self._snapshot.says():
            self._snapshot = made
            self._newer.set()
            self._newer = asyncio.Event()

    def _tools(self) -> list[Tool]:
        found: list[Tool] = []
        for name, keeper in self._keepers.items():
            for card in self._live.get(name) or self._seen_last(keeper.server):
                try:
                    found.append(tool_of(card, keeper.server, self._run(keeper, card)))
                except CardRefused as error:
                    self._log.warning("a tool of an MCP server is left out", tool=card.name, why=str(error))
        return sorted(found, key=lambda tool: tool.name)

    def _seen_last(self, server: McpServer) -> list[Card]:
        rows = (row for row in self._rows.values() if row.server == server.name and server.offers(row.remote))
        return [stored_card(row) for row in rows]

    def _pin(self, name: ToolName) -> str:
        row = self._rows.get(name)
        return "" if row is None else row.agreed_hash

    def _run(self, keeper: Keeper, card: Card) -> Run:
        async def run(scope: ToolScope, arguments: Json) -> Any:
            return text_of(keeper.server, await keeper.call(card.name, card.hash, arguments))

        return run
