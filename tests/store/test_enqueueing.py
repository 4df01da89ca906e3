"""What gets into the queue: each request once, as it was asked for; keys do what they say."""

from __future__ import annotations

from datetime import timedelta

import pytest

from store.actions import (
    Action,
    ActionKind,
    ActionStatus,
    find_by_idempotency_key,
    first_ids_by_key,
    get_action,
    queue_of,
)
from store.agent_requests import agent_input
from store.database import TenantStore
from store.enqueueing import NewAction, enqueue, enqueue_all
from store.ids import ActionId, AgentId, ConversationId, SessionId
from store.lanes import general_lane
from store.marks import mark_action_processed_async
from store.testing import START

S = SessionId("s")
NEW = NewAction(ActionKind.INPUT, session_id=S)


# --- storing ---------------------------------------------------------------------------------------------------------


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
        lane=general_lane("s"),
    )
    assert action.log_context() == {"action_id": action.id, "kind": "agent_input", "session_id": S}


async def test_several_actions_are_one_commit(db: TenantStore) -> None:
    before = await queue_of(db).version()

    actions = await enqueue_all(db, [NEW] * 20)

    assert await queue_of(db).version() == before + 1
    assert len({action.id for action in actions}) == 20


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
