"""Posting: the message is stored and every pushed session reached once, also when the client asks again."""

from __future__ import annotations

import asyncio

import pytest

from store.actions import ActionKind, list_open_actions
from store.agent_state import FINAL_STATUSES, SessionStatus, upsert_agent_state
from store.conversations import Delivery, add_participant, create_conversation, leave_conversation
from store.database import TenantStore
from store.errors import ConflictError, NotFoundError, StoreUnavailableError
from store.ids import AgentId, ConversationId, SessionId, UserId
from store.messages import list_messages
from store.posting import PostAs, post_to_conversation
from tests.store.faults import with_faulty
from tests.store.rows import a_state

C = ConversationId("c")


@pytest.fixture
async def thread(db: TenantStore) -> ConversationId:
    """A thread with a user, two sessions it is pushed to, and one that pulls."""
    await create_conversation(db, conversation_id=C)
    await add_participant(db, C, user_id=UserId("u"))
    for name in ("s1", "s2"):
        await add_participant(db, C, session_id=SessionId(name), agent_id=AgentId("echo"))
    await add_participant(db, C, session_id=SessionId("pulls"), delivery=Delivery.PULL)
    return C


async def reached(db: TenantStore) -> list[str]:
    return sorted(str(action.session_id) for action in await list_open_actions(db))


async def test_a_post_is_a_message_and_an_action_for_each_pushed_session(
    db: TenantStore, thread: ConversationId
) -> None:
    posted = await post_to_conversation(db, thread, text="hi", data={"n": 1}, user_id=UserId("u"))

    assert (await list_messages(db, thread)).items == (posted.message,)
    assert await reached(db) == ["s1", "s2"]
    first = posted.actions[0]
    assert (first.kind, first.agent_id, first.conversation_id) == (ActionKind.INPUT, "echo", thread)
    assert first.payload == {"text": "hi", "data": {"n": 1}}
    assert first.metadata == {"message_id": posted.message.message_id, "sender": "u"}


async def test_a_post_can_interrupt(db: TenantStore, thread: ConversationId) -> None:
    posted = await post_to_conversation(db, thread, text="stop", post_as=PostAs.INTERRUPT)

    assert {action.kind for action in posted.actions} == {ActionKind.INTERRUPT}
    assert posted.actions[0].payload == {"guidance": "stop"}


async def test_the_same_key_gives_the_same_answer(db: TenantStore, thread: ConversationId) -> None:
    first = await post_to_conversation(db, thread, text="hi", idempotency_key="k")

    assert await post_to_conversation(db, thread, text="hi", idempotency_key="k") == first
    assert len((await list_messages(db, thread)).items) == 1
    assert await reached(db) == ["s1", "s2"]


async def test_a_post_that_was_cut_off_is_completed_when_it_is_asked_for_again(
    db: TenantStore, thread: ConversationId
) -> None:
    # Given a post whose message was stored and whose actions were not
    faulty, handle = await with_faulty(db.store, "queue")
    handle.refused["add"] = -1
    with pytest.raises(StoreUnavailableError):
        await post_to_conversation(faulty.tenant(), thread, text="hi", idempotency_key="k")
    assert await reached(db) == []

    # When the client posts again with its key
    await post_to_conversation(db, thread, text="hi", idempotency_key="k")

    # Then there is one message and every session is reached
    assert len((await list_messages(db, thread)).items) == 1
    assert await reached(db) == ["s1", "s2"]


async def test_a_key_of_another_thread_is_a_conflict(db: TenantStore, thread: ConversationId) -> None:
    other = await create_conversation(db)
    await post_to_conversation(db, other.conversation_id, text="hi", idempotency_key="k")

    with pytest.raises(ConflictError, match="in another conversation"):
        await post_to_conversation(db, thread, text="hi", idempotency_key="k")

    assert (await list_messages(db, thread)).items == ()
    assert await reached(db) == []


async def test_different_posts_at_the_same_time_reach_everybody(db: TenantStore, thread: ConversationId) -> None:
    await asyncio.gather(*[post_to_conversation(db, thread, text=f"{at}") for at in range(5)])

    assert await reached(db) == ["s1"] * 5 + ["s2"] * 5


async def test_sessions_that_ended_or_left_are_not_reached(db: TenantStore, thread: ConversationId) -> None:
    member = await add_participant(db, thread, session_id=SessionId("left"))
    await leave_conversation(db, member)
    for status in SessionStatus:
        await add_participant(db, thread, session_id=SessionId(status.value))
    await upsert_agent_state(db, [a_state(status.value, status=status) for status in SessionStatus])

    await post_to_conversation(db, thread, text="hi")

    alive = [status.value for status in SessionStatus if status not in FINAL_STATUSES]
    assert await reached(db) == sorted(["s1", "s2", *alive])


async def test_an_unknown_thread_is_refused_and_nothing_is_stored(db: TenantStore) -> None:
    with pytest.raises(NotFoundError):
        await post_to_conversation(db, ConversationId("nope"), text="hi")

    assert (await list_messages(db, ConversationId("nope"))).items == ()


async def test_an_empty_thread_takes_posts(db: TenantStore) -> None:
    made = await create_conversation(db)

    posted = await post_to_conversation(db, made.conversation_id, text="")

    assert posted.actions == ()
    assert (await list_messages(db, made.conversation_id)).items == (posted.message,)
