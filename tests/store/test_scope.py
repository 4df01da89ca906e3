"""The scope: every row goes in and comes out as an object of one tenant."""

from __future__ import annotations

import asyncio

import pytest

from store import filters
from store.actions import CODEC, Action, ActionKind, queue_of
from store.agent_state import get_agent_state, states_of
from store.database import TenantStore
from store.enqueueing import NewAction, enqueue, enqueue_all
from store.errors import BadRowError
from store.ids import SessionId, TenantId
from store.scope import ScopedTable
from tests.store.rows import a_state

OTHER = TenantId("other")


@pytest.fixture
async def three(db: TenantStore) -> list[Action]:
    """Three actions of the main tenant and one of another."""
    await enqueue(db.store.tenant(OTHER), NewAction(ActionKind.INPUT, session_id=SessionId("s")))
    return await enqueue_all(db, [NewAction(ActionKind.INPUT, urgency=at) for at in range(3)])


async def test_find_gives_whole_objects(db: TenantStore, three: list[Action]) -> None:
    assert sorted(await queue_of(db).find(), key=lambda action: action.id) == three


async def test_find_takes_order_and_a_stretch(db: TenantStore, three: list[Action]) -> None:
    found = await queue_of(db).find(order=[("urgency", True)], limit=1, offset=1)

    assert found == [three[1]]


async def test_columns_that_were_not_asked_for_are_none(db: TenantStore, three: list[Action]) -> None:
    found = await queue_of(db).find(columns=["id"])

    assert {action.id for action in found} == {action.id for action in three}
    assert {action.payload for action in found} == {None}


async def test_first_is_the_first_in_order_or_none(db: TenantStore, three: list[Action]) -> None:
    table = queue_of(db)

    assert await table.first(order=[("urgency", True)]) == three[2]
    assert await table.first(filters.equals("urgency", 9)) is None


async def test_values_gives_one_column_of_this_tenant(db: TenantStore, three: list[Action]) -> None:
    values = await queue_of(db).values("urgency", filters.above("urgency", 0))

    assert sorted(values.to_pylist()) == [1, 2]


async def test_nothing_to_store_is_no_commit(db: TenantStore) -> None:
    table = states_of(db)
    before = await table.version()

    await table.append_all([])
    await table.upsert_all([])

    assert await table.version() == before


async def test_several_rows_are_stored_in_one_commit(db: TenantStore) -> None:
    table = states_of(db)
    before = await table.version()

    await table.upsert_all([a_state(f"s{at}") for at in range(5)])

    assert await table.version() == before + 1


async def test_a_change_keeps_the_other_columns(db: TenantStore) -> None:
    await states_of(db).upsert(a_state("s", reason="old"))

    await states_of(db).change(("s",), reason="new")

    assert await get_agent_state(db, session_id=SessionId("s")) == a_state("s", reason="new")


async def test_a_change_reaches_the_row_of_its_own_tenant(db: TenantStore) -> None:
    tenants = [db, db.store.tenant(OTHER)]
    for tenant in tenants:
        await states_of(tenant).upsert(a_state("s"))

    await asyncio.gather(*[states_of(tenant).change(("s",), reason=tenant.tenant) for tenant in tenants])

    states = [await get_agent_state(tenant, session_id=SessionId("s")) for tenant in tenants]
    assert [state.reason for state in states] == ["main", "other"]


async def test_a_change_encodes_columns_as_a_whole_row_does(db: TenantStore) -> None:
    await states_of(db).upsert(a_state("s"))

    await states_of(db).change(("s",), result={"é": [1]}, usage=None, reason="\ud800")

    changed = await get_agent_state(db, session_id=SessionId("s"))
    assert (changed.result, changed.usage, changed.reason) == ({"é": [1]}, None, "\ufffd")


async def test_a_change_of_a_column_that_does_not_exist_is_refused(db: TenantStore) -> None:
    with pytest.raises((KeyError, BadRowError)):
        await states_of(db).change(("s",), colour="red")


async def test_since_a_version_means_after_it(db: TenantStore, three: list[Action]) -> None:
    table = queue_of(db)
    middle = await table.version()
    await table.change((three[0].id,), urgency=7)
    new = await enqueue(db, NewAction(ActionKind.PAUSE))

    assert [row.item for row in await table.created_since(middle)] == [new]
    changed = await table.changed_since(middle)
    assert [(row.item.id, row.version) for row in changed] == [(three[0].id, middle + 1), (new.id, middle + 2)]
    assert [row.item.kind for row in await table.changed_since(0, filters.equals("kind", ActionKind.PAUSE))] == [
        ActionKind.PAUSE
    ]


async def test_a_tenant_has_one_table_object_a_codec(db: TenantStore) -> None:
    assert db.table(CODEC) is db.table(CODEC)
    assert isinstance(db.table(CODEC), ScopedTable)
