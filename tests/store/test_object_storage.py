"""Object storage without conditional PUTs is refused; with them the store works as on a disk."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import timedelta

import pytest

from store.actions import ActionFilter, ActionKind, ActionStatus, get_action, list_actions
from store.agent_state import get_agent_state, upsert_agent_state
from store.agent_steps import append_agent_step
from store.clock import SystemClock, SystemIds
from store.database import Store, open_store
from store.enqueueing import NewAction, enqueue
from store.errors import StoreUnavailableError, StoreUnsafeError
from store.ids import SessionId
from store.marks import mark_action_processed_async
from store.memories import Wanted, delete_memories, list_memories, memories_of
from store.options import StoreOptions
from store.schema import AGENT_STEPS
from store.upkeep import Upkeep, UpkeepRules
from tests.faultproxy import FaultProxy, Faults, fault_proxy
from tests.objectstore import ObjectStore, aws, object_store
from tests.store.rows import a_memory
from tests.store.test_memories import Told
from tests.support import eventually
from tests.web.kit import state, step

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.xdist_group("object storage")]


@dataclass(frozen=True)
class Cloud:
    """An object store behind a proxy, and a bucket in it."""

    proxy: FaultProxy
    objects: ObjectStore

    async def open(self, url: str | None = None, *, patience_s: float = 120.0) -> Store:
        options = StoreOptions(url or self.objects.bucket(), patience_s)
        return await open_store(options, clock=SystemClock(), ids=SystemIds())


@pytest.fixture(scope="module")
def objects() -> Iterator[ObjectStore]:
    with object_store() as found:
        yield found


@pytest.fixture
def cloud(objects: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    with fault_proxy(objects.url) as proxy:
        for name, value in aws(proxy.url).items():
            monkeypatch.setenv(name, value)
        yield Cloud(proxy, objects)


@pytest.fixture
async def store(cloud: Cloud) -> AsyncIterator[Store]:
    opened = await cloud.open()
    yield opened
    cloud.proxy.heal()
    await opened.close()


# --- what is refused -------------------------------------------------------------------------------------------------


async def test_a_store_that_ignores_conditions_is_refused(cloud: Cloud) -> None:
    cloud.proxy.faults.ignore_conditions = True
    with pytest.raises(StoreUnsafeError, match=r"ignores conditions on PUT.*honours If-None-Match"):
        await cloud.open()
    assert [seen.path for seen in cloud.proxy.seen if seen.method == "PUT" and "_probe/" not in seen.path] == []


async def test_the_probe_tells_a_lost_answer_from_a_store_that_ignores_conditions(cloud: Cloud) -> None:
    cloud.proxy.faults = Faults(slow_down=0.4, drop=0.1)
    await (await cloud.open()).close()


@pytest.mark.parametrize("url", ["s3+ddb://bucket/x", "memory://x", "db://cloud", "http://somewhere/x"])
async def test_a_kind_of_store_that_nothing_was_made_for_is_refused(url: str) -> None:
    with pytest.raises(StoreUnsafeError, match="is not supported; use a folder, or one of s3://"):
        await open_store(StoreOptions(url), clock=SystemClock(), ids=SystemIds())


async def test_a_bucket_that_is_not_there_is_named(cloud: Cloud) -> None:
    with pytest.raises(StoreUnavailableError, match=r"s3://nowhere-at-all/x.*AWS_\*.*bucket exists"):
        await cloud.open("s3://nowhere-at-all/x")


# --- what works ------------------------------------------------------------------------------------------------------


async def test_tables_have_stable_row_ids_and_the_file_version(store: Store) -> None:
    await append_agent_step(store.tenant(), step("s", 0))
    await append_agent_step(store.tenant(), step("s", 1))
    table = store.tables[AGENT_STEPS.name]
    before = await table.read(None, columns=["id", "_row_created_at_version"])
    await table.compact(keep=timedelta(seconds=5))
    after = await table.read(None, columns=["id", "_row_created_at_version"])
    assert sorted(after.to_pylist(), key=str) == sorted(before.to_pylist(), key=str)
    assert len(set(after.column("_row_created_at_version").to_pylist())) == 2


async def test_two_processes_may_make_a_new_store_at_once(cloud: Cloud) -> None:
    url = cloud.objects.bucket()
    opened = await asyncio.gather(*[cloud.open(url) for _ in range(3)])
    await asyncio.gather(*[append_agent_step(one.tenant(), step(f"s{n}", 0)) for n, one in enumerate(opened)])
    assert {await one.tables[AGENT_STEPS.name].rows() for one in opened} == {3}
    for one in opened:
        await one.close()


async def test_a_deleted_memory_is_out_of_the_bucket(cloud: Cloud, store: Store) -> None:
    """There is no sign of a deletion beside the table: every change of it is taken for one."""
    secret, db = "zanzibarquince", store.tenant()
    for start in (0, 10):
        await memories_of(db).insert_missing([a_memory(f"m{n}", f"Filling {n}.") for n in range(start, start + 10)])
    await memories_of(db).insert_missing([a_memory("secret", f"It is {secret}.", subject=secret, source=secret)])
    upkeep = Upkeep(store, UpkeepRules(keep=timedelta(milliseconds=1)), Told())
    await upkeep.once(force=True)
    held = cloud.objects.holding(store.options.url, secret)
    assert any("/data/" in name for name in held)
    indexes = cloud.objects.names(store.options.url, "memories.lance/_indices/")
    assert await delete_memories(db, ids=["secret"]) == 1
    assert cloud.objects.holding(store.options.url, secret) != []
    await upkeep.once(force=True)
    assert cloud.objects.holding(store.options.url, secret) == []
    # the words of an index are packed, so that a look at the bytes proves nothing: none of the old ones is left
    assert not indexes & cloud.objects.names(store.options.url, "memories.lance/_indices/")
    assert len((await list_memories(db, Wanted(None))).items) == 20


async def test_a_watch_sees_another_ones_commit_and_outlives_an_outage(cloud: Cloud, store: Store) -> None:
    other = await cloud.open(store.options.url)
    async with store.watch(AGENT_STEPS.name) as watch:
        waiting = asyncio.create_task(watch.wait())
        await append_agent_step(other.tenant(), step("s", 0))
        await asyncio.wait_for(waiting, 60)
        cloud.proxy.kill()
        waiting = asyncio.create_task(watch.wait())
        cloud.proxy.heal()
        await append_agent_step(other.tenant(), step("s", 1))
        await asyncio.wait_for(waiting, 60)
    await other.close()


# --- faults ----------------------------------------------------------------------------------------------------------


async def _steps(store: Store, session: str, count: int) -> None:
    for number in range(count):
        await append_agent_step(store.tenant(), step(session, number))


async def _whole(store: Store, sessions: list[str], count: int) -> None:
    """Every session has each of its steps once."""
    rows = (await store.tables[AGENT_STEPS.name].read(None, columns=["id"])).column("id").to_pylist()
    assert sorted(rows) == sorted(f"{session}:{number}" for session in sessions for number in range(count))


@pytest.mark.parametrize(
    "faults",
    [
        Faults(ambiguous=0.3),
        Faults(ambiguous_500=0.3),
        Faults(ambiguous=0.3, slow_down=0.2),
        Faults(slow_down=0.5),
        Faults(drop=0.2, delay_s=0.01),
    ],
    ids=["answer lost", "500 after the commit", "lost and busy", "busy", "cut"],
)
async def test_no_row_is_lost_or_doubled_whatever_happens_to_the_answer(
    cloud: Cloud, store: Store, faults: Faults
) -> None:
    sessions = ["a", "b", "c"]
    cloud.proxy.faults = faults
    other = await cloud.open(store.options.url)  # a second writer: commits also meet each other
    await asyncio.gather(*[_steps(one, name, 6) for name, one in zip(sessions, (store, other, other), strict=True)])
    cloud.proxy.heal()
    await _whole(store, sessions, 6)
    await other.close()


async def test_upserts_and_marks_are_right_though_commits_are_not_answered(cloud: Cloud, store: Store) -> None:
    db = store.tenant()
    actions = [await enqueue(db, NewAction(kind=ActionKind.INPUT, session_id=SessionId("s"))) for _ in range(6)]
    cloud.proxy.faults = Faults(ambiguous=0.3, slow_down=0.1)
    for number, action in enumerate(actions):
        await upsert_agent_state(db, [state("s", iteration=number)])
        await mark_action_processed_async(db, action.id, status=ActionStatus.DONE, attempts=1, owner="w")
    cloud.proxy.heal()
    assert (await get_agent_state(db, session_id=SessionId("s"))).iteration == 5
    found = (await list_actions(db, ActionFilter())).items
    assert {(one.id, one.status) for one in found} == {(one.id, ActionStatus.DONE) for one in actions}
    assert await store.tables["agent_state"].rows() == 1


async def test_a_conditional_update_has_one_winner_and_says_so(cloud: Cloud, store: Store) -> None:
    """What leases stand on: of those who change a row from E to E + 1, one is told that it did, and it is the one."""
    handle = store.tables["agents"]._handle
    other = (await cloud.open(store.options.url)).tables["agents"]._handle
    await handle.add([{"tenant": "main", "agent_id": "x", "moniker": "echo", "version": 0}])
    cloud.proxy.faults = Faults(ambiguous=0.3)
    won = 0
    for number in range(8):
        tries = [one.update({"version": number + 1}, where=f"version = {number}") for one in (handle, other)]
        answers = await asyncio.gather(*tries, return_exceptions=True)
        told = [int(answer.rows_updated) for answer in answers if not isinstance(answer, BaseException)]
        assert sum(told) <= 1, "two were told that they changed the row"
        assert sum(told) == 1 or any(isinstance(answer, BaseException) for answer in answers)
        won += sum(told)
    cloud.proxy.heal()
    assert (await handle.query().select(["version"]).to_arrow()).column("version").to_pylist() == [8]
    assert won >= 4


async def test_busy_answers_are_met_with_waits_that_grow_and_differ(cloud: Cloud, store: Store) -> None:
    cloud.proxy.faults = Faults(slow_down=1.0)
    writing = asyncio.create_task(append_agent_step(store.tenant(), step("s", 0)))
    await eventually(lambda: len(cloud.proxy.met("slow_down")) >= 7, 60)
    cloud.proxy.heal()
    await writing
    waits = _gaps([seen.at for seen in cloud.proxy.met("slow_down")][:7])
    assert max(waits) > 1.5 * min(waits)
    assert len({round(wait, 3) for wait in waits}) > 3
    await _whole(store, ["s"], 1)


def _gaps(moments: list[float]) -> list[float]:
    return [later - earlier for earlier, later in itertools.pairwise(moments)]


async def test_a_write_outlives_an_outage_and_is_stored_once(cloud: Cloud, store: Store) -> None:
    cloud.proxy.kill()
    writing = asyncio.gather(*[append_agent_step(store.tenant(), step(f"s{n}", 0)) for n in range(5)])
    reading = asyncio.create_task(store.tables["queue"].version())
    await asyncio.wait([reading], timeout=3.0)
    assert not writing.done()
    assert not reading.done()
    cloud.proxy.heal()
    await asyncio.wait_for(asyncio.gather(writing, reading), 120)
    await _whole(store, [f"s{n}" for n in range(5)], 1)


async def test_after_its_patience_a_write_says_what_is_wrong(cloud: Cloud) -> None:
    store = await cloud.open(patience_s=0.5)
    cloud.proxy.kill()
    with pytest.raises(
        StoreUnavailableError, match=r"'agent_steps' could not be written, tried for up to 0\.5 s.*bucket"
    ):
        await append_agent_step(store.tenant(), step("s", 0))
    cloud.proxy.heal()
    await store.close()


async def test_get_action_of_another_process_is_seen_at_once(cloud: Cloud, store: Store) -> None:
    other = await cloud.open(store.options.url)
    action = await enqueue(store.tenant(), NewAction(kind=ActionKind.INPUT, session_id=SessionId("s")))
    assert (await get_action(other.tenant(), action.id)).id == action.id
    await other.close()
