"""Tools that others describe (those of MCP servers): what was seen last, and what a person agreed to (S48).

    worker ── sees a tool ──▶ row: hash, description, parameters
    person ── reads the row, agrees to that hash ──▶ row: approved_hash    a tool is on while the two hashes are equal

A description that changes after it was agreed to ("rug pull") changes the hash, and the tool is off until somebody
looks again. Crash between the two writes: each is one commit of its own columns, so neither undoes the other. Two at
once: an approval is taken only while the hash it names is the one in the row, so nobody agrees to what he has not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from store import filters
from store.codec import RowCodec
from store.database import TenantStore
from store.errors import ConflictError, NotFoundError
from store.schema import TOOL_PINS
from store.scope import ScopedTable

#: who approved what was approved by the operator's `trust = "on_first_use"`
FIRST_USE = "on_first_use"


class ToolState(StrEnum):
    """What a person has said of a tool."""

    NEW = "new"  # nobody has agreed to it
    APPROVED = "approved"  # somebody agreed to exactly this
    CHANGED = "changed"  # it is not what somebody agreed to


@dataclass(frozen=True, slots=True)
class SeenTool:
    """A tool as its server describes it now. `parameters` is the JSON schema that a model is shown."""

    tool: str
    server: str
    remote: str
    hash: str
    description: str
    parameters: Any


@dataclass(frozen=True, slots=True)
class ToolPin:
    """A row of `tool_pins`."""

    tool: str
    server: str
    #: its name at the server
    remote: str
    #: of name, description and parameters as they were seen last
    hash: str
    #: a stranger's words: data, wherever they are shown
    description: str
    parameters: Any
    seen_at: datetime
    #: "" while nobody has agreed
    approved_hash: str
    approved_at: datetime | None
    approved_by: str | None

    @property
    def state(self) -> ToolState:
        """Whether it may be used."""
        if not self.approved_hash:
            return ToolState.NEW
        return ToolState.APPROVED if self.approved_hash == self.hash else ToolState.CHANGED


CODEC: RowCodec[ToolPin] = RowCodec(ToolPin, TOOL_PINS, json=frozenset({"parameters"}))


def tool_pins_of(db: TenantStore) -> ScopedTable[ToolPin]:
    """This tenant's tools of MCP servers."""
    return db.table(CODEC)


async def list_tool_pins(db: TenantStore) -> list[ToolPin]:
    """Every tool that was ever seen, by name."""
    return await tool_pins_of(db).find(order=[("tool", False)])


async def get_tool_pin(db: TenantStore, tool: str) -> ToolPin:
    """One tool; raises `NotFoundError`."""
    found = await tool_pins_of(db).first(filters.equals("tool", tool))
    if found is None:
        raise NotFoundError("tool", tool)
    return found


async def publish_tools(db: TenantStore, seen: Sequence[SeenTool], *, trust_new: bool = False) -> None:
    """Store what a server offers now; what is stored already costs one read and no write.

    With `trust_new` a tool that nobody has agreed to yet counts as agreed to; one that changed never does.
    """
    if not seen:
        return
    rows = tool_pins_of(db)
    known = {row.tool: row for row in await rows.find(filters.one_of("tool", [one.tool for one in seen]))}
    await rows.insert_missing(_new_row(db, one, trust_new) for one in seen if one.tool not in known)
    for one in seen:
        row = known.get(one.tool)
        if row is not None and _told(row) != _told(one):
            await rows.change_if(filters.equals("tool", one.tool), seen_at=db.clock.now(), **_columns(one))
        if row is not None and trust_new and not row.approved_hash:
            await _approve(db, one.tool, one.hash, FIRST_USE, filters.equals("approved_hash", ""))


async def approve_tool(db: TenantStore, tool: str, hash_: str, *, approved_by: str | None = None) -> ToolPin:
    """Agree to a tool as it is now; it is on from then until it changes.

    Raises `NotFoundError`, and `ConflictError` when its hash is another one than the one that was looked at.
    """
    if not await _approve(db, tool, hash_, approved_by):
        found = await get_tool_pin(db, tool)
        raise ConflictError(
            f"{tool} is not what you looked at: its hash is {found.hash}, not {hash_[:80]!r}; read it again first"
        )
    return await get_tool_pin(db, tool)


async def _approve(db: TenantStore, tool: str, hash_: str, by: str | None, *more: Any) -> int:
    conditions = [filters.equals("tool", tool), filters.equals("hash", hash_), *more]
    return await tool_pins_of(db).change_if(
        *conditions, approved_hash=hash_, approved_at=db.clock.now(), approved_by=by
    )


def _told(one: ToolPin | SeenTool) -> tuple[str, str, str, str, Any]:
    return one.server, one.remote, one.hash, one.description, one.parameters


def _columns(one: SeenTool) -> dict[str, Any]:
    return {
        "server": one.server,
        "remote": one.remote,
        "hash": one.hash,
        "description": one.description,
        "parameters": one.parameters,
    }


def _new_row(db: TenantStore, one: SeenTool, trusted: bool) -> ToolPin:
    now = db.clock.now()
    return ToolPin(
        tool=one.tool,
        **_columns(one),
        seen_at=now,
        approved_hash=one.hash if trusted else "",
        approved_at=now if trusted else None,
        approved_by=FIRST_USE if trusted else None,
    )
