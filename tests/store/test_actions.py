"""The questions to the queue: one action, the create of a session, lists, counts."""

from __future__ import annotations

import itertools

import pytest

from store.actions import (
    Action,
    ActionFilter,
    ActionKind,
    ActionStatus,
    count_actions,
    find_create,
    find_creates_of_agent,
    get_action,
    list_actions,
    list_open_actions,
    list_open_actions_of_session,
)
from store.agent_requests import agent_create, agent_input
from store.database import TenantStore
from store.enqueueing import NewAction, enqueue
from store.errors import NotFoundError
from store.ids import ActionId, AgentId, SessionId
from store.marks import mark_action_processed_async

S = SessionId("s")


# --- one action ------------------------------------------------------------------------------------------------------


async def test_an_unknown_action_is_not_found(db: TenantStore) -> None:
    with pytest.raises(NotFoundError, match="no action with id 'nope'") as raised:
        await get_action(db, ActionId("nope"))

    assert (raised.value.noun, raised.value.key) == ("action", "nope")


async def test_the_create_of_a_session_and_the_newest_of_an_agent_are_found(ticking: TenantStore) -> None:
    first = await agent_create(ticking, moniker="echo", session_id=S, spec={})
    await agent_input(ticking, text="x", session_id=S, agent_id=AgentId("echo"))
    second = await agent_create(ticking, moniker="echo", spec={})

    assert await find_create(ticking, S) == first
    assert await find_creates_of_agent(ticking, AgentId("echo")) == second
    assert await find_create(ticking, SessionId("other")) is None
    assert await find_creates_of_agent(ticking, AgentId("other")) is None


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
