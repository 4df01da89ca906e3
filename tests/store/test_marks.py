"""Marks and requeues: the last mark of an action counts; what failed is given another try."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections.abc import Awaitable
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.actions import OPEN_STATUSES, ActionKind, ActionStatus, get_action, list_open_actions, queue_of
from store.database import TenantStore
from store.enqueueing import NewAction, enqueue, enqueue_all
from store.errors import ConflictError, NotFoundError
from store.ids import ActionId, SessionId
from store.marks import REQUEUEABLE, mark_action_claimed, mark_action_processed_async, requeue_action
from store.testing import START
from tests.support import examples

S = SessionId("s")
NEW = NewAction(ActionKind.INPUT, session_id=S)


# --- marks -----------------------------------------------------------------------------------------------------------


async def test_a_mark_says_how_it_ended(db: TenantStore) -> None:
    action = await enqueue(db, NEW)

    await mark_action_processed_async(db, action.id, status=ActionStatus.DEAD, error="broke", attempts=3, owner="w")

    marked = await get_action(db, action.id)
    assert (marked.status, marked.error, marked.attempts, marked.owner) == (ActionStatus.DEAD, "broke", 3, "w")
    assert (marked.processed, marked.processed_at) == (True, START)
    assert (marked.payload, marked.created_at) == (action.payload, action.created_at)


async def test_a_claim_says_who_is_at_it_and_leaves_the_action_open(db: TenantStore) -> None:
    action = await enqueue(db, NEW)

    await mark_action_claimed(db, action.id, attempts=2, owner="w")

    (claimed,) = await list_open_actions(db)
    assert (claimed.status, claimed.attempts, claimed.owner) == (ActionStatus.CLAIMED, 2, "w")
    assert (claimed.processed, claimed.processed_at) == (False, None)


async def test_marking_an_action_that_is_not_there_does_nothing(db: TenantStore) -> None:
    await mark_action_processed_async(db, ActionId("nope"))

    assert await queue_of(db).find() == []


MARKS = [ActionStatus.CLAIMED, ActionStatus.DONE, ActionStatus.FAILED, ActionStatus.DEAD]


async def mark(db: TenantStore, action_id: ActionId, status: ActionStatus, attempts: int) -> None:
    if status is ActionStatus.CLAIMED:
        await mark_action_claimed(db, action_id, attempts=attempts, owner="w")
    else:
        await mark_action_processed_async(db, action_id, status=status, attempts=attempts)


async def test_claimed_then_done_in_one_commit_ends_as_done_in_any_interleaving(db: TenantStore) -> None:
    marks = [(at, status) for at in range(3) for status in (ActionStatus.CLAIMED, ActionStatus.DONE)]
    in_order = [order for order in itertools.permutations(marks) if keeps_order(order)]
    actions = await enqueue_all(db, [NEW] * 3 * len(in_order))
    before = await queue_of(db).version()

    await asyncio.gather(
        *[
            mark(db, actions[3 * number + at].id, status, 1)
            for number, order in enumerate(in_order)
            for at, status in order
        ]
    )

    assert await queue_of(db).version() == before + 1
    assert {action.status for action in await queue_of(db).find()} == {ActionStatus.DONE}
    assert all(action.processed and action.owner is None for action in await queue_of(db).find())


def keeps_order(order: tuple[tuple[int, ActionStatus], ...]) -> bool:
    """Whether every action is claimed before it is done."""
    return all(order.index((at, ActionStatus.CLAIMED)) < order.index((at, ActionStatus.DONE)) for at, _ in order)


@examples(15)
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(MARKS), st.booleans()), max_size=12))
async def test_of_any_marks_the_last_one_of_an_action_counts(
    db: TenantStore, marks: list[tuple[int, ActionStatus, bool]]
) -> None:
    actions = await enqueue_all(db, [NEW] * 3)
    last: dict[int, tuple[ActionStatus, int]] = {}
    together: list[Awaitable[None]] = []

    for number, (at, status, apart) in enumerate(marks):
        last[at] = (status, number)
        together.append(mark(db, actions[at].id, status, number))
        if apart:
            await asyncio.gather(*together)
            together = []
    await asyncio.gather(*together)

    for at, action in enumerate(actions):
        stored = await get_action(db, action.id)
        assert (stored.status, stored.attempts) == last.get(at, (ActionStatus.PENDING, 0))
        assert stored.processed == (stored.status not in OPEN_STATUSES)


# --- another try -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", REQUEUEABLE)
async def test_what_failed_can_be_given_another_try(db: TenantStore, status: ActionStatus) -> None:
    action = await enqueue(db, NEW)
    await mark_action_processed_async(db, action.id, status=status, error="broke", attempts=5, owner="w")

    again = await requeue_action(db, action.id)

    ended = {"status": status.value, "attempts": 5, "error": "broke", "ended_at": START.isoformat()}
    assert again == dataclasses.replace(action, metadata={"history": [ended]})  # as if it were new
    assert await list_open_actions(db) == [again]


async def test_of_two_that_requeue_at_once_one_wins_and_the_history_is_kept_and_bounded(db: TenantStore) -> None:
    action = await enqueue(db, NEW)
    for number in range(25):
        await mark_action_processed_async(db, action.id, status=ActionStatus.DEAD, error=f"'{number}", attempts=number)
        found = await asyncio.gather(*[requeue_action(db, action.id) for _ in range(3)], return_exceptions=True)
        assert sum(isinstance(one, ConflictError) for one in found) == 2
    history = (await get_action(db, action.id)).metadata["history"]
    assert [entry["error"] for entry in history] == [f"'{number}" for number in range(5, 25)]


async def test_an_action_that_is_put_back_keeps_its_count_its_error_and_its_moment(db: TenantStore) -> None:
    action = await enqueue(db, NewAction(ActionKind.INPUT))
    later = START + timedelta(seconds=9)
    await asyncio.gather(
        mark_action_claimed(db, action.id, attempts=0, owner="w"),
        mark_action_processed_async(
            db, action.id, status=ActionStatus.PENDING, error="broke", attempts=1, owner="w", not_before=later
        ),
    )
    found = await get_action(db, action.id)
    assert (found.status, found.attempts, found.error, found.not_before, found.processed, found.processed_at) == (
        ActionStatus.PENDING,
        1,
        "broke",
        later,
        False,
        None,
    )


@pytest.mark.parametrize("status", [status for status in ActionStatus if status not in REQUEUEABLE])
async def test_what_has_not_failed_cannot(db: TenantStore, status: ActionStatus) -> None:
    action = await enqueue(db, NEW)
    if status is not ActionStatus.PENDING:
        await mark(db, action.id, status, 1)
    before = await get_action(db, action.id)

    with pytest.raises(ConflictError, match=f"is {status.value}; only failed and dead"):
        await requeue_action(db, action.id)

    assert await get_action(db, action.id) == before


async def test_what_is_not_there_cannot_be_requeued(db: TenantStore) -> None:
    with pytest.raises(NotFoundError):
        await requeue_action(db, ActionId("nope"))
