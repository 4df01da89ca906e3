"""The queue: what is accepted stays until it is marked; keys, marks, requeues and lists do what they say."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.actions import (
    OPEN_STATUSES,
    REQUEUEABLE,
    Action,
    ActionFilter,
    ActionKind,
    ActionStatus,
    NewAction,
    agent_create,
    agent_destroy_action,
    agent_input,
    agent_interrupt,
    agent_pause_action,
    agent_resume_action,
    count_actions,
    enqueue,
    enqueue_all,
    find_by_idempotency_key,
    find_create,
    find_creates_of_agent,
    first_ids_by_key,
    get_action,
    list_actions,
    list_open_actions,
    list_open_actions_of_session,
    mark_action_claimed,
    mark_action_processed_async,
    queue_of,
    requeue_action,
)
from store.database import TenantStore
from store.errors import BadFilterError, ConflictError, NotFoundError
from store.ids import ActionId, AgentId, ConversationId, SessionId
from store.testing import START
from tests.support import examples

S = SessionId("s")
NEW = NewAction(ActionKind.INPUT, session_id=S)


# --- asking ----------------------------------------------------------------------------------------------------------


async def test_an_action_is_stored_as_it_was_asked_for(db: TenantStore) -> None:
    new = NewAction(
        ActionKind.INPUT,
        agent_id=AgentId("a"),
        session_id=S,
        conversation_id=ConversationId("c"),
        payload={"text": "hi", "data": {"n": [1]}},
        metadata={"by": "me"},
        idempotency_key="k",
        urgency=3,
        not_before=START + timedelta(hours=1),
    )

    action = await enqueue(db, new)

    assert await get_action(db, action.id) == action
    assert action == Action(
        id=ActionId("id-000001"),
        created_at=START,
        not_before=START + timedelta(hours=1),
        kind=ActionKind.INPUT,
        urgency=3,
        agent_id=AgentId("a"),
        session_id=S,
        conversation_id=ConversationId("c"),
        payload={"text": "hi", "data": {"n": [1]}},
        metadata={"by": "me"},
        idempotency_key="k",
        status=ActionStatus.PENDING,
        attempts=0,
        processed=False,
        processed_at=None,
        error=None,
        owner=None,
    )
    assert action.log_context() == {"action_id": action.id, "kind": "agent_input", "session_id": S}


@pytest.mark.parametrize(
    ("ask", "kind", "payload"),
    [
        (
            lambda db: agent_input(db, text="hi", data={"n": 1}, session_id=S),
            ActionKind.INPUT,
            {"text": "hi", "data": {"n": 1}},
        ),
        (lambda db: agent_interrupt(db, guidance=["go"], session_id=S), ActionKind.INTERRUPT, {"guidance": ["go"]}),
        (lambda db: agent_pause_action(db, session_id=S), ActionKind.PAUSE, {}),
        (lambda db: agent_resume_action(db, session_id=S), ActionKind.RESUME, {}),
        (lambda db: agent_destroy_action(db, session_id=S), ActionKind.DESTROY, {}),
    ],
)
async def test_each_request_about_a_session_is_an_action_of_its_kind(
    db: TenantStore, ask: Callable[[TenantStore], Awaitable[Action]], kind: ActionKind, payload: Any
) -> None:
    action = await ask(db)

    assert (action.kind, action.session_id, action.payload) == (kind, S, payload)
    assert await list_open_actions(db) == [action]


@pytest.mark.parametrize(
    "ask",
    [
        lambda db: agent_input(db, text="hi"),
        lambda db: agent_interrupt(db, guidance="hi"),
        agent_pause_action,
        agent_resume_action,
        agent_destroy_action,
    ],
)
async def test_a_request_about_no_session_is_refused(
    db: TenantStore, ask: Callable[[TenantStore], Awaitable[Action]]
) -> None:
    with pytest.raises(BadFilterError, match="needs a session_id or an agent_id"):
        await ask(db)

    assert await list_open_actions(db) == []


async def test_a_request_to_an_agent_names_no_session(db: TenantStore) -> None:
    action = await agent_pause_action(db, agent_id=AgentId("a"))

    assert (action.agent_id, action.session_id) == ("a", None)


async def test_several_actions_are_one_commit(db: TenantStore) -> None:
    before = await queue_of(db).version()

    actions = await enqueue_all(db, [NEW] * 20)

    assert await queue_of(db).version() == before + 1
    assert len({action.id for action in actions}) == 20


async def test_an_unknown_action_is_not_found(db: TenantStore) -> None:
    with pytest.raises(NotFoundError, match="no action with id 'nope'") as raised:
        await get_action(db, ActionId("nope"))

    assert (raised.value.noun, raised.value.key) == ("action", "nope")


# --- creating --------------------------------------------------------------------------------------------------------


async def test_create_makes_the_ids_that_were_not_given(db: TenantStore) -> None:
    action = await agent_create(db, moniker="echo", spec={"task": "t"})

    assert action.agent_id == "echo"
    assert action.session_id not in (None, str(action.id))
    assert action.payload == {"moniker": "echo", "task": "t"}


async def test_a_second_create_of_a_session_is_a_conflict_and_stores_nothing(db: TenantStore) -> None:
    first = await agent_create(db, moniker="echo", session_id=S, spec={})

    with pytest.raises(ConflictError, match=r"session_id 's' is already in use; leave it out"):
        await agent_create(db, moniker="echo", session_id=S, spec={}, idempotency_key="other")

    assert await list_open_actions(db) == [first]


async def test_a_create_is_a_conflict_also_when_the_first_one_is_processed(db: TenantStore) -> None:
    first = await agent_create(db, moniker="echo", session_id=S, spec={})
    await mark_action_processed_async(db, first.id)

    with pytest.raises(ConflictError):
        await agent_create(db, moniker="echo", session_id=S, spec={})


async def test_a_create_asked_again_with_its_key_gives_the_first_answer(db: TenantStore) -> None:
    ask = [agent_create(db, moniker="echo", session_id=S, spec={}, idempotency_key="k") for _ in range(2)]

    assert await ask[0] == await ask[1]


async def test_the_create_of_a_session_and_the_newest_of_an_agent_are_found(ticking: TenantStore) -> None:
    first = await agent_create(ticking, moniker="echo", session_id=S, spec={})
    await agent_input(ticking, text="x", session_id=S, agent_id=AgentId("echo"))
    second = await agent_create(ticking, moniker="echo", spec={})

    assert await find_create(ticking, S) == first
    assert await find_creates_of_agent(ticking, AgentId("echo")) == second
    assert await find_create(ticking, SessionId("other")) is None
    assert await find_creates_of_agent(ticking, AgentId("other")) is None


# --- the same key ----------------------------------------------------------------------------------------------------


async def test_the_same_key_gives_the_first_action_back(db: TenantStore) -> None:
    first = await agent_input(db, text="one", session_id=S, idempotency_key="k")
    await mark_action_processed_async(db, first.id)

    again = await agent_input(db, text="one", session_id=S, idempotency_key="k")

    assert again.id == first.id
    assert len(await queue_of(db).find()) == 1


@pytest.mark.parametrize("key", ["", "' or 1=1", "\ud800", "a\0b", "x" * 5000])
async def test_any_text_can_be_a_key(db: TenantStore, key: str) -> None:
    await agent_input(db, text="other", session_id=S, idempotency_key="another")
    first = await agent_input(db, text="one", session_id=S, idempotency_key=key)

    assert (await agent_input(db, text="one", session_id=S, idempotency_key=key)).id == first.id
    assert len(await queue_of(db).find()) == 2


async def test_without_a_key_every_request_is_an_action_of_its_own(db: TenantStore) -> None:
    first, second = [await agent_input(db, text="one", session_id=S) for _ in range(2)]

    assert first.id != second.id


async def test_of_several_rows_with_a_key_the_first_committed_counts_everywhere(db: TenantStore) -> None:
    """Two processes stored one key in the same instant; what their clocks said does not matter."""
    rows = [await enqueue(db, NEW) for _ in range(3)]
    for row, at in zip(rows, (2, 1, 1), strict=True):
        created_at = START + timedelta(microseconds=at)
        await queue_of(db).change((row.id,), idempotency_key="k", created_at=created_at)

    found = await find_by_idempotency_key(db, "k")

    assert found is not None
    assert found.id == rows[0].id
    assert await first_ids_by_key(db, ["k", "unknown"]) == {"k": rows[0].id}
    assert (await enqueue(db, NewAction(ActionKind.INPUT, idempotency_key="k"))).id == rows[0].id


async def test_no_keys_have_no_actions(db: TenantStore) -> None:
    assert await first_ids_by_key(db, []) == {}
    assert await find_by_idempotency_key(db, "k") is None


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

    assert again == action  # as if it were new
    assert await list_open_actions(db) == [action]


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


# --- lists -----------------------------------------------------------------------------------------------------------


@pytest.fixture
async def mixed(ticking: TenantStore) -> TenantStore:
    """Actions of three kinds, two sessions and two agents, every other one done."""
    kinds = (ActionKind.INPUT, ActionKind.PAUSE, ActionKind.CREATE)
    for at in range(12):
        session, agent = SessionId(f"s{at % 2}"), AgentId(f"a{at % 4 // 2}")
        action = await enqueue(ticking, NewAction(kinds[at % 3], agent_id=agent, session_id=session))
        if at % 2:
            await mark_action_processed_async(ticking, action.id)
    return ticking


async def test_the_list_is_newest_first(mixed: TenantStore) -> None:
    ids = [action.id for action in (await list_actions(mixed, ActionFilter())).items]

    assert ids == sorted(ids, reverse=True)
    assert len(ids) == 12


async def test_filters_keep_what_meets_all_of_them(mixed: TenantStore) -> None:
    everything = (await list_actions(mixed, ActionFilter())).items
    statuses = (None, ActionStatus.DONE, ActionStatus.PENDING, ActionStatus.DEAD)
    agents = (None, AgentId("a1"), AgentId("unknown"))

    for wanted in itertools.product(statuses, (None, ActionKind.PAUSE), (None, SessionId("s0")), agents):
        found = await list_actions(mixed, ActionFilter(*wanted))

        assert list(found.items) == [action for action in everything if meets(action, wanted)], wanted


def meets(action: Action, wanted: tuple[object, ...]) -> bool:
    """Whether an action has what a filter names."""
    has = (action.status, action.kind, action.session_id, action.agent_id)
    return all(value is None or value == own for value, own in zip(wanted, has, strict=True))


async def test_every_status_is_counted(mixed: TenantStore) -> None:
    assert await count_actions(mixed) == {
        ActionStatus.PENDING: 6,
        ActionStatus.CLAIMED: 0,
        ActionStatus.DONE: 6,
        ActionStatus.FAILED: 0,
        ActionStatus.DEAD: 0,
    }


async def test_an_empty_queue_counts_nothing(db: TenantStore) -> None:
    assert await count_actions(db) == dict.fromkeys(ActionStatus, 0)
    assert (await list_actions(db, ActionFilter())).items == ()


async def test_open_actions_are_oldest_first(mixed: TenantStore) -> None:
    found = await list_open_actions(mixed)
    of_session = await list_open_actions_of_session(mixed, SessionId("s0"))

    assert [action.id for action in found] == [f"id-{at:06d}" for at in (1, 3, 5, 7, 9, 11)]
    assert of_session == [action for action in found if action.session_id == "s0"]
    assert await list_open_actions_of_session(mixed, SessionId("s1")) == []
