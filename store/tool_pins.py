"""Tools that others describe (those of MCP servers): what was seen last, and what a person agreed to (S48).

    worker ── sees a tool ──▶ row: hash, description, parameters
    person ── reads the row, agrees to that hash ──▶ row: approved_hash    a tool is on while the two hashes are equal
    person ── takes it back ──▶ row: withdrawn_at                          and nobody has taken it back since

A description that changes after it was agreed to ("rug pull") changes the hash, and the tool is off until somebody
looks again. What was withdrawn stays off whatever its server says, until somebody agrees again. Crash between the
writes: each is one commit of its own columns, so none undoes another. Two at once: an approval or a withdrawal is taken
only while the hash it names is the one in the row, so nobody judges what he has not read; of an approval and a
withdrawal of one hash the later commit counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from lancedb.expr import Expr

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
    WITHDRAWN = "withdrawn"  # somebody agreed to it, and somebody took that back


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
    #: what was agreed to, word for word; None where nobody has agreed, and for a change from before this was kept
    approved_description: str | None
    approved_parameters: Any
    #: None while the last word on it is an approval
    withdrawn_at: datetime | None
    withdrawn_by: str | None

    @property
    def agreed_hash(self) -> str:
        """The hash under which it may be used; "" is none."""
        return self.approved_hash if self.withdrawn_at is None else ""

    @property
    def state(self) -> ToolState:
        """Whether it may be used."""
        if not self.approved_hash:
            return ToolState.NEW
        if not self.agreed_hash:
            return ToolState.WITHDRAWN
        return ToolState.APPROVED if self.agreed_hash == self.hash else ToolState.CHANGED


CODEC: RowCodec[ToolPin] = RowCodec(ToolPin, TOOL_PINS, json=frozenset({"parameters", "approved_parameters"}))


def tool_pins_of(db: TenantStore) -> ScopedTable[ToolPin]:
    """This tenant's tools of MCP servers."""
    return db.table(CODEC)


async def list_tool_pins(db: TenantStore) -> list[ToolPin]:
    """Every tool that was ever seen, by name."""
    return await tool_pins_of(db).find(order=[("tool", False)])


async def count_waiting_tools(db: TenantStore) -> int:
    """How many tools wait for a person's word: nobody has agreed to them, or not to what they are now."""
    judged = ["hash", "approved_hash", "withdrawn_at"]
    found = await tool_pins_of(db).find(columns=judged)
    return sum(pin.state in (ToolState.NEW, ToolState.CHANGED) for pin in found)


async def find_tool_pin(db: TenantStore, tool: str) -> ToolPin | None:
    """One tool, as the newest commit has it; None for one that was never seen."""
    return await tool_pins_of(db).first(filters.equals("tool", tool))


async def get_tool_pin(db: TenantStore, tool: str) -> ToolPin:
    """One tool; raises `NotFoundError`."""
    found = await find_tool_pin(db, tool)
    if found is None:
        raise NotFoundError("tool", tool)
    return found


async def publish_tools(db: TenantStore, seen: Sequence[SeenTool], *, trust_new: bool = False) -> None:
    """Store what a server offers now; what is stored already costs one read and no write.

    With `trust_new` a tool that nobody has agreed to yet counts as agreed to; one that changed or was withdrawn never
    does.
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
            await _approve(db, one, FIRST_USE, filters.equals("approved_hash", ""))


async def approve_tool(db: TenantStore, tool: str, hash_: str, *, approved_by: str | None = None) -> ToolPin:
    """Agree to a tool as it is now; it is on from then until it changes or that is withdrawn.

    Raises `NotFoundError`, and `ConflictError` when its hash is another one than the one that was looked at.
    """
    found = await _looked_at(db, tool, hash_)
    if not await _approve(db, found, approved_by):
        raise _other_than_seen(await get_tool_pin(db, tool), hash_)
    return await get_tool_pin(db, tool)


async def withdraw_tool(db: TenantStore, tool: str, hash_: str, *, withdrawn_by: str | None = None) -> ToolPin:
    """Take back that somebody agreed to a tool; it is off from then until somebody agrees to it again.

    Once this has returned, no worker begins a call of it (`runtime.tools.mcp`). Taken back twice is taken back.
    Raises `NotFoundError`, and `ConflictError` when its hash is another one than the one that was looked at, or when
    nobody has agreed to it so far.
    """
    found = await _looked_at(db, tool, hash_)
    if not found.approved_hash:
        raise ConflictError(f"nobody has agreed to {tool}, so it is off already and there is nothing to take back")
    taken_back = {"withdrawn_at": db.clock.now(), "withdrawn_by": withdrawn_by}
    if not await tool_pins_of(db).change_if(*_unchanged(found), **taken_back):
        raise _other_than_seen(await get_tool_pin(db, tool), hash_)
    return await get_tool_pin(db, tool)


async def _looked_at(db: TenantStore, tool: str, hash_: str) -> ToolPin:
    found = await get_tool_pin(db, tool)
    if found.hash != hash_:
        raise _other_than_seen(found, hash_)
    return found


def _other_than_seen(now: ToolPin, hash_: str) -> ConflictError:
    return ConflictError(
        f"{now.tool} is not what you looked at: its hash is {now.hash}, not {hash_[:80]!r}; read it again first"
    )


async def _approve(db: TenantStore, one: ToolPin | SeenTool, by: str | None, *more: Expr) -> int:
    return await tool_pins_of(db).change_if(*_unchanged(one), *more, **_agreed(one, db.clock.now(), by))


def _unchanged(one: ToolPin | SeenTool) -> tuple[Expr, ...]:
    """The row, while it says what `one` says: the hash covers name, description and parameters."""
    return filters.equals("tool", one.tool), filters.equals("hash", one.hash)


def _agreed(one: ToolPin | SeenTool, at: datetime, by: str | None) -> dict[str, Any]:
    return {
        "approved_hash": one.hash,
        "approved_at": at,
        "approved_by": by,
        "approved_description": one.description,
        "approved_parameters": one.parameters,
        "withdrawn_at": None,
        "withdrawn_by": None,
    }


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


_NOBODY: dict[str, Any] = {
    "approved_hash": "",
    "approved_at": None,
    "approved_by": None,
    "approved_description": None,
    "approved_parameters": None,
    "withdrawn_at": None,
    "withdrawn_by": None,
}


def _new_row(db: TenantStore, one: SeenTool, trusted: bool) -> ToolPin:
    now = db.clock.now()
    judged = _agreed(one, now, FIRST_USE) if trusted else _NOBODY
    return ToolPin(tool=one.tool, **_columns(one), seen_at=now, **judged)
