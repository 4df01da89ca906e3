"""The journal: every step once, in order, however it is asked for and however often it was written."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.agent_state import upsert_agent_state
from store.agent_steps import (
    AgentStep,
    StepFilter,
    StepStatus,
    answered_actions,
    append_agent_step,
    find_step,
    journal_of,
    list_agent_steps,
    list_agent_steps_latest,
    list_agent_steps_since_iteration,
    list_steps_since_version,
    state_at,
)
from store.database import TenantStore
from store.errors import BadFilterError, BadRowError, NotFoundError
from store.ids import ActionId, AgentId, SessionId, step_id
from store.paging import Order
from store.testing import START
from tests.store.rows import a_state, a_step
from tests.support import examples

S = SessionId("s")
A, B = ActionId("a"), ActionId("b")


@pytest.fixture
async def ten(db: TenantStore) -> list[AgentStep]:
    """Ten steps of a session, which were not stored in their order, and some of others."""
    steps = [a_step(iteration=at, status=StepStatus.WAITING if at % 3 else StepStatus.RUNNING) for at in range(10)]
    await journal_of(db).append_all(
        [*steps[5:], a_step("ss", 1), *steps[:5], a_step("r", 2, agent_id=AgentId("other"))]
    )
    return steps


async def test_a_step_comes_back_whole(db: TenantStore) -> None:
    step = a_step(
        action_id=A,
        data={"é": [1]},
        state=None,
        guidance={"inputs": []},
        wait={"until": "x"},
        notes="n",
        error="e",
        usage={"calls": 1},
    )

    version = await append_agent_step(db, step)

    assert await find_step(db, S, 0) == step
    assert await journal_of(db).version() == version
    assert await find_step(db, S, 1) is None


def test_a_steps_id_is_made_of_session_and_iteration() -> None:
    assert step_id(SessionId("s:1"), 2) == "s:1:2"


@pytest.mark.parametrize(
    "wanted",
    [
        StepFilter(S),
        StepFilter(S, min_iteration=3),
        StepFilter(S, max_iteration=3),
        StepFilter(S, max_iteration=-1),
        StepFilter(S, after_iteration=3, max_iteration=7),
        StepFilter(S, since_created_at=START + timedelta(seconds=4)),
        StepFilter(S, status=StepStatus.RUNNING),
        StepFilter(S, agent_id=AgentId("other")),
        StepFilter(agent_id=AgentId("other")),
        StepFilter(agent_id=AgentId("agent"), min_iteration=2),
        StepFilter(),
        StepFilter(SessionId("unknown")),
    ],
)
@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_filters_keep_what_meets_all_of_them_in_order(
    db: TenantStore, ten: list[AgentStep], wanted: StepFilter, order: Order
) -> None:
    found = await list_agent_steps(db, wanted, order=order)

    everything = [*ten, a_step("ss", 1), a_step("r", 2, agent_id=AgentId("other"))]
    sort = "iteration" if wanted.session_id else "created_at"
    in_order = sorted(everything, key=lambda step: (getattr(step, sort), step.id), reverse=order == "desc")
    assert list(found.items) == [step for step in in_order if meets(step, wanted)]
    assert found.next_cursor is None


def meets(step: AgentStep, wanted: StepFilter) -> bool:
    """What a filter means."""
    return (
        wanted.session_id in (None, step.session_id)
        and wanted.agent_id in (None, step.agent_id)
        and wanted.status in (None, step.status)
        and (wanted.min_iteration is None or step.iteration >= wanted.min_iteration)
        and (wanted.max_iteration is None or step.iteration <= wanted.max_iteration)
        and (wanted.after_iteration is None or step.iteration > wanted.after_iteration)
        and (wanted.since_created_at is None or step.created_at >= wanted.since_created_at)
    )


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_offset_and_cursor_walk_the_same_way(db: TenantStore, ten: list[AgentStep], order: Order) -> None:
    cursor = None
    for offset in (0, 4, 8):
        by_offset = await list_agent_steps(db, StepFilter(S), order=order, limit=4, offset=offset)
        by_cursor = await list_agent_steps(db, StepFilter(S), order=order, limit=4, cursor=cursor)

        assert by_offset == by_cursor
        cursor = by_cursor.next_cursor
    assert cursor is None


@pytest.mark.parametrize(("offset", "cursor"), [(-1, None), (1, "x")])
async def test_an_offset_that_cannot_be_used_is_refused(db: TenantStore, offset: int, cursor: str | None) -> None:
    with pytest.raises(BadFilterError, match=f"offset {offset} cannot be used"):
        await list_agent_steps(db, StepFilter(S), offset=offset, cursor=cursor)


async def test_the_steps_after_an_iteration_are_a_sessions_next(db: TenantStore, ten: list[AgentStep]) -> None:
    assert await list_agent_steps_since_iteration(db, S, 3) == ten[4:]
    assert await list_agent_steps_since_iteration(db, S, 3, limit=2) == ten[4:6]
    assert await list_agent_steps_since_iteration(db, S, -1) == ten
    assert await list_agent_steps_since_iteration(db, S, 9) == []


async def test_the_latest_steps_are_newest_first(db: TenantStore, ten: list[AgentStep]) -> None:
    assert await list_agent_steps_latest(db, session_id=S, limit=3) == ten[:6:-1]
    of_agent = await list_agent_steps_latest(db, agent_id=AgentId("agent"), limit=2)
    assert of_agent == ten[:7:-1]


async def test_the_latest_steps_of_nobody_cannot_be_asked_for(db: TenantStore) -> None:
    with pytest.raises(BadFilterError, match="session_id or an agent_id"):
        await list_agent_steps_latest(db)


@pytest.mark.parametrize("known", [None, -1, 0, 4, 9])
async def test_the_latest_steps_are_the_same_however_far_the_sessions_row_lags(
    db: TenantStore, ten: list[AgentStep], known: int | None
) -> None:
    if known is not None:
        await upsert_agent_state(db, [a_state("s", iteration=known)])

    for limit in (1, 3, 10, 11):
        assert await list_agent_steps_latest(db, session_id=S, limit=limit) == ten[::-1][:limit]


async def walked(db: TenantStore, wanted: StepFilter, order: Order, limit: int) -> list[AgentStep]:
    """Every step, page by page."""
    steps: list[AgentStep] = []
    cursor = None
    while True:
        page = await list_agent_steps(db, wanted, order=order, limit=limit, cursor=cursor)
        steps += page.items
        cursor = page.next_cursor
        if cursor is None:
            return steps


async def test_a_long_journal_is_walked_down_whole_however_far_the_sessions_row_lags(db: TenantStore) -> None:
    await journal_of(db).append_all([a_step(iteration=at) for at in range(300)])

    for known in (0, 98, 99, 100, 150, 299):
        await upsert_agent_state(db, [a_state("s", iteration=known)])
        for highest in (None, 0, 120, 250, 299, 1000):
            found = await walked(db, StepFilter(S, max_iteration=highest), "desc", 90)

            top = 299 if highest is None else min(299, highest)
            assert [step.iteration for step in found] == list(range(top, -1, -1)), (known, highest)


# --- steps that were written twice -----------------------------------------------------------------------------------


@pytest.fixture
async def repeated(db: TenantStore) -> list[AgentStep]:
    """Six steps, of which some were stored two or three times."""
    steps = [a_step(iteration=at) for at in range(6)]
    for at in (0, 1, 1, 2, 3, 3, 3, 4, 5, 5):
        await append_agent_step(db, steps[at])
    return steps


@pytest.mark.parametrize("wanted", [StepFilter(S), StepFilter(agent_id=AgentId("agent")), StepFilter()])
@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_a_repeated_step_is_shown_once_on_all_pages_together(
    db: TenantStore, repeated: list[AgentStep], wanted: StepFilter, order: Order
) -> None:
    for limit in (1, 2, 3, 4, 6, 7, 10, 11):
        shown = await walked(db, wanted, order, limit)

        assert shown == (repeated if order == "asc" else repeated[::-1]), limit


async def test_a_repeated_step_is_projected_once(db: TenantStore, repeated: list[AgentStep]) -> None:
    assert await list_steps_since_version(db, 0) == repeated


@pytest.fixture
async def rewritten(db: TenantStore) -> AgentStep:
    """A step that a stale owner wrote again when it woke up, otherwise than it is."""
    first = a_step(text="first")
    await append_agent_step(db, first)
    await append_agent_step(db, dataclasses.replace(first, text="late"))
    return first


async def test_the_first_row_of_a_step_counts(db: TenantStore, rewritten: AgentStep) -> None:
    assert await list_steps_since_version(db, 0) == [rewritten]
    assert await find_step(db, S, 0) == rewritten


async def test_the_first_row_of_a_step_is_listed(db: TenantStore, rewritten: AgentStep) -> None:
    assert (await list_agent_steps(db, StepFilter(S))).items == (rewritten,)


# --- what projections ask for ----------------------------------------------------------------------------------------


async def test_steps_since_a_version_come_by_session_and_iteration(db: TenantStore) -> None:
    await append_agent_step(db, a_step("z", 0))
    version = await journal_of(db).version()
    for session, at in (("b", 1), ("a", 0), ("b", 0), ("a", 1)):
        await append_agent_step(db, a_step(session, at))

    found = await list_steps_since_version(db, version)

    assert [step.id for step in found] == ["a:0", "a:1", "b:0", "b:1"]


@pytest.mark.parametrize(
    ("steps", "answered"),
    [
        ([], set()),
        ([{"action_id": A}], {A}),
        ([{"action_id": A, "status": StepStatus.ERROR}], set()),
        ([{"action_id": A, "status": StepStatus.ERROR}, {"action_id": A}], {A}),
        ([{"action_id": None}, {"action_id": ActionId("other")}], set()),
        ([{"action_id": A}, {"action_id": B}], {A, B}),
    ],
)
async def test_an_action_is_answered_by_a_step_that_did_not_fail(
    db: TenantStore, steps: list[dict[str, Any]], answered: set[ActionId]
) -> None:
    for at, step in enumerate(steps):
        await append_agent_step(db, a_step(iteration=at, **step))

    assert await answered_actions(db, [A, B]) == answered


async def test_any_number_of_actions_can_be_asked_about(db: TenantStore) -> None:
    await append_agent_step(db, a_step(action_id=A))
    many = [ActionId(f"x{at}") for at in range(1200)]

    assert await answered_actions(db, [*many, A]) == {A}
    assert await answered_actions(db, []) == set()


@examples(20)
@given(
    count=st.integers(0, 12),
    limit=st.integers(1, 13),
    offset=st.integers(0, 13),
    order=st.sampled_from(["asc", "desc"]),
)
async def test_an_offset_leaves_out_so_many(db: TenantStore, count: int, limit: int, offset: int, order: Order) -> None:
    session = SessionId(db.ids.new())
    steps = [a_step(session, at) for at in range(count)]
    await journal_of(db).append_all(steps)

    found = await list_agent_steps(db, StepFilter(session), order=order, limit=limit, offset=offset)

    assert list(found.items) == steps[:: 1 if order == "asc" else -1][offset : offset + limit]
    assert (found.next_cursor is not None) == (offset + limit < count)


async def test_states_that_are_stored_as_changes_are_shown_whole_however_they_are_asked_for(db: TenantStore) -> None:
    states: list[Any] = [{"n": at, "items": list(range(at + 1))} for at in range(6)]
    for at, state in enumerate(states):
        changes = {"set": {"n": at}, "in": {"items": {"+": [at]}}} if at else None
        await append_agent_step(db, a_step(iteration=at, state=state, changes=changes, base=0 if at else None))
    assert [row.state for row in await journal_of(db).find()] == [states[0], *[None] * 5]
    listed = await list_agent_steps(db, StepFilter(session_id=S))
    assert [step.state for step in listed.items] == states
    assert [step.state for step in (await list_agent_steps(db, StepFilter(agent_id=AgentId("agent")))).items] == states
    assert [step.state for step in await list_agent_steps_latest(db, session_id=S, limit=2)] == states[:-3:-1]
    assert [step.state for step in await list_agent_steps_since_iteration(db, S, 3)] == states[4:]
    await upsert_agent_state(db, [a_state(iteration=5)])
    assert [step.state for step in await list_agent_steps_latest(db, session_id=S, limit=2)] == states[:-3:-1]
    assert [await state_at(db, S, at) for at in range(6)] == states
    found = await find_step(db, S, 4)
    assert found is not None
    assert found.state == states[4]


async def test_a_state_that_cannot_be_rebuilt_is_none_and_state_at_says_so(db: TenantStore) -> None:
    await append_agent_step(db, a_step(iteration=7, changes={"+": [1]}, base=3))
    assert [step.state for step in (await list_agent_steps(db, StepFilter(session_id=S))).items] == [None]
    with pytest.raises(BadRowError, match="begins at iteration 3"):
        await state_at(db, S, 7)
    with pytest.raises(NotFoundError, match="s:8"):
        await state_at(db, S, 8)
