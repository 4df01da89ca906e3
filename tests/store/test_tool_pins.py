"""What is stored of tools that others describe: seen, agreed to, changed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from store.database import TenantStore
from store.errors import ConflictError, NotFoundError
from store.tool_pins import (
    FIRST_USE,
    SeenTool,
    ToolState,
    approve_tool,
    count_waiting_tools,
    find_tool_pin,
    get_tool_pin,
    list_tool_pins,
    publish_tools,
    withdraw_tool,
)


def seen(hash_: str = "a" * 64, tool: str = "s_t", **more: Any) -> SeenTool:
    values: dict[str, Any] = {"server": "s", "remote": "t", "description": hash_[:3], "parameters": {"n": hash_[:1]}}
    return SeenTool(tool=tool, hash=hash_, **{**values, **more})


A, B, C = "a" * 64, "b" * 64, "c" * 64


async def test_new_approved_changed_and_approved_again(db: TenantStore) -> None:
    await publish_tools(db, [seen(A), seen(B, "s_other")])
    assert [(pin.tool, pin.state) for pin in await list_tool_pins(db)] == [
        ("s_other", ToolState.NEW),
        ("s_t", ToolState.NEW),
    ]
    agreed = await approve_tool(db, "s_t", A, approved_by="me")
    assert (agreed.state, agreed.approved_by, agreed.approved_at) == (ToolState.APPROVED, "me", db.clock.now())
    await publish_tools(db, [seen(B)])
    changed = await get_tool_pin(db, "s_t")
    assert (changed.state, changed.hash, changed.approved_hash) == (ToolState.CHANGED, B, A)
    assert changed.parameters == {"n": "b"}
    with pytest.raises(ConflictError, match=B):
        await approve_tool(db, "s_t", A)
    assert (await approve_tool(db, "s_t", B)).state is ToolState.APPROVED
    await publish_tools(db, [seen(A)])
    assert (await get_tool_pin(db, "s_t")).state is ToolState.CHANGED


async def test_a_tool_that_nobody_has_seen(db: TenantStore) -> None:
    with pytest.raises(NotFoundError):
        await approve_tool(db, "none", A)
    await publish_tools(db, [])
    assert await list_tool_pins(db) == []


async def test_trust_on_first_use_is_for_the_first_use_only(db: TenantStore) -> None:
    await publish_tools(db, [seen(A)], trust_new=True)
    first = await get_tool_pin(db, "s_t")
    assert (first.state, first.approved_by) == (ToolState.APPROVED, FIRST_USE)
    await publish_tools(db, [seen(B)], trust_new=True)
    assert (await get_tool_pin(db, "s_t")).state is ToolState.CHANGED


async def test_trust_that_comes_later_takes_what_nobody_has_judged(db: TenantStore) -> None:
    await publish_tools(db, [seen(A)])
    await publish_tools(db, [seen(B)], trust_new=True)
    assert (await get_tool_pin(db, "s_t")).state is ToolState.APPROVED


async def test_what_is_known_is_not_written_again(db: TenantStore) -> None:
    await publish_tools(db, [seen(A)])
    version = await db.store.tables["tool_pins"].version()
    await publish_tools(db, [seen(A)])
    assert await db.store.tables["tool_pins"].version() == version


async def test_an_approval_that_races_with_a_change_is_for_what_was_read(db: TenantStore) -> None:
    """Whoever wins: the tool is never on with a description that nobody has read."""
    await publish_tools(db, [seen(A)])
    await asyncio.gather(approve_tool(db, "s_t", A), publish_tools(db, [seen(B)]), return_exceptions=True)
    pin = await get_tool_pin(db, "s_t")
    assert (pin.hash, pin.approved_hash in {"", A}) == (B, True)
    assert pin.state is not ToolState.APPROVED


async def test_a_withdrawn_tool_is_off_whatever_its_server_says(db: TenantStore) -> None:
    await publish_tools(db, [seen(A)])
    await approve_tool(db, "s_t", A, approved_by="me")
    withdrawn = await withdraw_tool(db, "s_t", A, withdrawn_by="you")
    assert (withdrawn.state, withdrawn.agreed_hash) == (ToolState.WITHDRAWN, "")
    assert (withdrawn.approved_by, withdrawn.withdrawn_by, withdrawn.withdrawn_at) == ("me", "you", db.clock.now())
    assert (await withdraw_tool(db, "s_t", A)).state is ToolState.WITHDRAWN
    for said in (B, A):
        await publish_tools(db, [seen(said)], trust_new=True)
        assert (await get_tool_pin(db, "s_t")).state is ToolState.WITHDRAWN, "trust on first use is for the first use"
    again = await approve_tool(db, "s_t", A, approved_by="me")
    assert (again.state, again.agreed_hash, again.withdrawn_at, again.withdrawn_by) == (
        ToolState.APPROVED,
        A,
        None,
        None,
    )


async def test_a_changed_tool_that_is_withdrawn_does_not_come_back_with_its_old_words(db: TenantStore) -> None:
    await publish_tools(db, [seen(A)])
    await approve_tool(db, "s_t", A)
    await publish_tools(db, [seen(B)])
    with pytest.raises(ConflictError, match=B):
        await withdraw_tool(db, "s_t", A)
    await withdraw_tool(db, "s_t", B)
    await publish_tools(db, [seen(A)])
    assert (await get_tool_pin(db, "s_t")).agreed_hash == ""


async def test_what_nobody_has_agreed_to_cannot_be_withdrawn(db: TenantStore) -> None:
    with pytest.raises(NotFoundError):
        await withdraw_tool(db, "s_t", A)
    await publish_tools(db, [seen(A)])
    with pytest.raises(ConflictError, match="nobody has agreed"):
        await withdraw_tool(db, "s_t", A)
    assert (await get_tool_pin(db, "s_t")).state is ToolState.NEW


async def test_the_words_that_were_agreed_to_are_kept(db: TenantStore) -> None:
    await publish_tools(db, [seen(A, description="kind", parameters={"n": 1})])
    assert (await get_tool_pin(db, "s_t")).approved_description is None
    await approve_tool(db, "s_t", A)
    await publish_tools(db, [seen(B, description="unkind", parameters={"n": 2})])
    changed = await get_tool_pin(db, "s_t")
    assert (changed.approved_description, changed.approved_parameters) == ("kind", {"n": 1})
    assert (changed.description, changed.parameters) == ("unkind", {"n": 2})
    await publish_tools(db, [seen(C, "s_first", description="trusted")], trust_new=True)
    assert (await get_tool_pin(db, "s_first")).approved_description == "trusted"


async def test_who_waits_for_a_person(db: TenantStore) -> None:
    await publish_tools(db, [seen(A, f"s_{number}") for number in range(4)])
    for number in range(3):
        await approve_tool(db, f"s_{number}", A)
    await withdraw_tool(db, "s_0", A)
    await publish_tools(db, [seen(B, "s_1")])
    assert await count_waiting_tools(db) == 2
    assert await find_tool_pin(db, "none") is None


async def test_a_withdrawal_that_races_with_a_change_is_for_what_was_read(db: TenantStore) -> None:
    """Whoever wins: the tool is off, and a refused withdrawal has changed nothing."""
    await publish_tools(db, [seen(A)])
    await approve_tool(db, "s_t", A)
    withdrawal, _ = await asyncio.gather(
        withdraw_tool(db, "s_t", A), publish_tools(db, [seen(B)]), return_exceptions=True
    )
    pin = await get_tool_pin(db, "s_t")
    assert pin.hash == B
    refused = isinstance(withdrawal, ConflictError)
    assert pin.state is (ToolState.CHANGED if refused else ToolState.WITHDRAWN)


async def test_of_an_approval_and_a_withdrawal_the_later_commit_counts_whole(db: TenantStore) -> None:
    for _ in range(4):
        await publish_tools(db, [seen(A)])
        await approve_tool(db, "s_t", A, approved_by="first")
        taken = [approve_tool(db, "s_t", A, approved_by="me"), withdraw_tool(db, "s_t", A, withdrawn_by="you")]
        await asyncio.gather(*taken)
        pin = await get_tool_pin(db, "s_t")
        assert (pin.state, pin.withdrawn_by) in [(ToolState.APPROVED, None), (ToolState.WITHDRAWN, "you")]
        assert pin.approved_by == "me"


async def test_two_workers_that_see_the_same_tool_store_it_once(db: TenantStore) -> None:
    await asyncio.gather(*[publish_tools(db, [seen(A)]) for _ in range(4)])
    assert len(await list_tool_pins(db)) == 1
