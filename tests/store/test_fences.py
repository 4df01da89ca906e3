"""Fences: whatever several owners append, and in whatever order, every reader shows the same: what came in time."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from store.agent_state import upsert_agent_state
from store.agent_steps import (
    StepFilter,
    answered_actions,
    append_agent_step,
    fences_of,
    find_step,
    journal_of,
    list_agent_steps,
    list_steps_since_version,
    raise_fences,
    shown_steps,
)
from store.database import TenantStore, open_store
from store.ids import ActionId, AgentId, SessionId, WorkerId
from store.lanes import LaneId, lanes_of
from store.leases import activate_leases, add_leases, claim_leases, list_leases
from store.options import StoreOptions
from store.testing import CountingIds, FrozenClock
from tests.store.rows import a_state, a_step
from tests.support import examples

LANE = LaneId("echo/03")
S = SessionId("s")


@dataclass(frozen=True, slots=True)
class Fenced:
    """An owner claims the lane and raises its fence; with `looks`, a reader looks between the two."""

    looks: bool


@dataclass(frozen=True, slots=True)
class Stepped:
    """The owner of `epoch`, be it long replaced, appends an iteration."""

    epoch: int
    iteration: int


events = st.lists(
    st.one_of(
        st.builds(Fenced, st.booleans()),
        st.builds(Stepped, st.integers(0, 4), st.integers(0, 4)),
    ),
    max_size=14,
)


async def claim(db: TenantStore) -> int:
    """Claim the lane for the next owner; returns its epoch."""
    lease = (await list_leases(db))[LANE]
    await claim_leases(db, [lease], WorkerId(f"w{lease.epoch + 1}"), lease.epoch + 1)
    return lease.epoch + 1


async def replaced(db: TenantStore) -> int:
    """Another owner takes the lane over."""
    epoch = await claim(db)
    await raise_fences(db, [LANE], epoch)
    await activate_leases(db, {LANE: epoch}, WorkerId(f"w{epoch}"), watermark=0)
    return epoch


async def step(db: TenantStore, epoch: int, iteration: int, label: str) -> None:
    """The owner of `epoch` appends an iteration; the action it answers is its `label`."""
    row = a_step("s", iteration, epoch=epoch, lane=LANE, text=label, action_id=ActionId(label))
    await append_agent_step(db, row)


async def shown_everywhere(db: TenantStore) -> dict[int, str]:
    """The text of each iteration, once every way to read the journal was seen to say the same."""
    rows = sorted(await shown_steps(db, await journal_of(db).created_since(0)), key=lambda row: row.version)
    rule: dict[int, str] = {}
    for row in rows:
        rule.setdefault(row.item.iteration, str(row.item.text))
    labels = {str(row.item.text) for row in rows}
    for order in ("asc", "desc"):
        for size in (1, 500):
            assert await listed(db, StepFilter(session_id=S), order, size) == rule
            assert await listed(db, StepFilter(agent_id=AgentId("agent")), order, size) == rule
    for iteration in range(5):
        found = await find_step(db, S, iteration)
        assert (None if found is None else found.text) == rule.get(iteration)
    assert {one.iteration: one.text for one in await list_steps_since_version(db, 0)} == rule
    every = [ActionId(str(row.item.text)) for row in await journal_of(db).created_since(0) if row.item.text]
    assert await answered_actions(db, every) == labels
    return rule


async def listed(db: TenantStore, wanted: StepFilter, order: str, size: int) -> dict[int, str]:
    found: list[tuple[int, str]] = []
    cursor = None
    while True:
        page = await list_agent_steps(db, wanted, order=order, limit=size, cursor=cursor)  # type: ignore[arg-type]
        found += [(one.iteration, str(one.text)) for one in page.items]
        cursor = page.next_cursor
        if cursor is None:
            assert len({iteration for iteration, _ in found}) == len(found), found
            assert [iteration for iteration, _ in found] == sorted(dict(found), reverse=order == "desc")
            return dict(found)
        assert page.items


@examples(10)
@given(events)
async def test_every_reader_shows_what_came_before_the_fence_of_a_later_owner(story: list[Fenced | Stepped]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        options = StoreOptions(str(Path(folder) / "data"), patience_s=2.0)
        store = await open_store(options, clock=FrozenClock(), ids=CountingIds())
        reader = await open_store(options, clock=FrozenClock(), ids=CountingIds())
        try:
            await _play(store.tenant(), reader.tenant(), story)
        finally:
            await reader.close()
            await store.close()


async def _play(db: TenantStore, reader: TenantStore, story: list[Fenced | Stepped]) -> None:
    await add_leases(db, lanes_of("echo"))
    await upsert_agent_state(db, [a_state("s", iteration=-1, lane=LANE)])
    highest, model = 0, dict[int, str]()
    for number, event in enumerate(story):
        match event:
            case Stepped():
                label = f"{number}"
                iteration = min(event.iteration, len(model))  # an owner leaves no iteration out
                await step(db, event.epoch, iteration, label)
                if event.epoch >= highest:
                    model.setdefault(iteration, label)
            case Fenced():
                epoch = await claim(db)
                if event.looks:
                    await fences_of(reader).refresh()  # while somebody claims
                await raise_fences(db, [LANE], epoch)
                if event.looks:
                    await fences_of(reader).refresh()
                await activate_leases(db, {LANE: epoch}, WorkerId(f"w{epoch}"), watermark=0)
                highest = epoch
    await upsert_agent_state(db, [a_state("s", iteration=max(model, default=-1), lane=LANE)])
    assert await shown_everywhere(reader) == model
    assert await shown_everywhere(db) == model


async def test_a_page_that_ends_between_a_late_row_and_the_true_one_loses_neither(db: TenantStore) -> None:
    await add_leases(db, lanes_of("echo"))
    await step(db, 1, 0, "true 0")
    await replaced(db)
    epoch = await replaced(db)
    await step(db, 1, 1, "late 1")
    await step(db, epoch, 1, "true 1")
    await step(db, epoch, 2, "true 2")
    expected = {0: "true 0", 1: "true 1", 2: "true 2"}
    for size in (1, 2, 3):
        assert await listed(db, StepFilter(session_id=S), "asc", size) == expected


async def test_the_newest_step_of_an_agent_is_found_behind_rows_that_came_too_late(db: TenantStore) -> None:
    await add_leases(db, lanes_of("echo"))
    await step(db, 1, 0, "true 0")
    await replaced(db)
    await replaced(db)
    for iteration in (1, 2, 3):
        await step(db, 1, iteration, "late")
    page = await list_agent_steps(db, StepFilter(agent_id=AgentId("agent")), order="desc", limit=1)
    assert [one.text for one in page.items] == ["true 0"]


async def test_a_view_that_was_refreshed_while_nobody_claimed_sees_the_next_fence(db: TenantStore) -> None:
    await add_leases(db, lanes_of("echo"))
    await replaced(db)
    await fences_of(db).refresh()
    await fences_of(db).refresh()
    await replaced(db)
    await step(db, 1, 0, "late")
    assert await find_step(db, S, 0) is None


async def test_a_claimant_that_stood_still_raises_its_fence_late_and_hides_nothing_of_its_successor(
    db: TenantStore,
) -> None:
    await add_leases(db, lanes_of("echo"))
    stalled = await claim(db)
    await replaced(db)
    await fences_of(db).refresh()
    await step(db, stalled + 1, 0, "true")
    await raise_fences(db, [LANE], stalled)
    await step(db, stalled + 1, 1, "true too")
    await step(db, stalled, 2, "late")
    assert await listed(db, StepFilter(session_id=S), "asc", 5) == {0: "true", 1: "true too"}


async def test_a_row_from_before_there_were_lanes_is_shown(db: TenantStore) -> None:
    await add_leases(db, lanes_of("echo"))
    await replaced(db)
    await append_agent_step(db, a_step("s", 0, epoch=0, lane=""))
    assert await find_step(db, S, 0) is not None
