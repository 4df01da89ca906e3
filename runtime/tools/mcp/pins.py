"""What people agreed to, as this folder needs it: a port and the store behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from store.database import TenantStore
from store.schema import TOOL_PINS
from store.tool_pins import SeenTool, ToolPin, find_tool_pin, list_tool_pins, publish_tools
from store.watch import CommitWatch


class PinBook(Protocol):
    """The book of tools that were seen and agreed to."""

    async def pins(self) -> Sequence[ToolPin]:
        """Every tool that was ever seen."""
        ...

    async def agreed_hash(self, tool: str) -> str:
        """The hash under which a tool may be used at this moment, whoever wrote that down; "" is none."""
        ...

    async def publish(self, seen: Sequence[SeenTool], *, trust_new: bool) -> None:
        """Write down what a server offers now, so that people can see it."""
        ...

    def watch(self) -> CommitWatch:
        """Something to wait on until the book has changed, by any process."""
        ...


class StorePins:
    """The book in the store, shared by workers and the dashboard."""

    def __init__(self, db: TenantStore) -> None:
        self._db = db

    async def pins(self) -> Sequence[ToolPin]:
        return await list_tool_pins(self._db)

    async def agreed_hash(self, tool: str) -> str:
        found = await find_tool_pin(self._db, tool)
        return "" if found is None else found.agreed_hash

    async def publish(self, seen: Sequence[SeenTool], *, trust_new: bool) -> None:
        await publish_tools(self._db, seen, trust_new=trust_new)

    def watch(self) -> CommitWatch:
        return self._db.store.watch(TOOL_PINS.name)
