"""Records: the results of one step's calls, in the order of the calls."""

from __future__ import annotations

import asyncio

from store.database import TenantStore
from store.ids import SessionId
from store.records import append_record, list_records
from tests.store.rows import a_record

S = SessionId("s")


async def test_a_record_comes_back_whole(db: TenantStore) -> None:
    record = a_record(result={"text": "é\0", "n": [1.5, None]}, usage={"calls": 1}, kind="model")

    await append_record(db, record)

    assert await list_records(db, S, 0) == [record]


async def test_a_result_of_null_is_a_result(db: TenantStore) -> None:
    await append_record(db, a_record(result=None))

    assert [record.result for record in await list_records(db, S, 0)] == [None]


async def test_records_come_in_the_order_of_the_calls(db: TenantStore) -> None:
    await asyncio.gather(*[append_record(db, a_record(seq=seq)) for seq in (2, 0, 3, 1)])

    assert [record.event_seq for record in await list_records(db, S, 0)] == [0, 1, 2, 3]


async def test_only_those_of_the_step_are_given(db: TenantStore) -> None:
    for record in (a_record(), a_record("other"), a_record(iteration=1, id="x")):
        await append_record(db, record)

    assert await list_records(db, S, 0) == [a_record()]
    assert await list_records(db, S, 2) == []
