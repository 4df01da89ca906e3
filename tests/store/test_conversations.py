"""Threads and who takes part: an id is used once, joining again changes how, leaving ends it."""

from __future__ import annotations

from typing import Any

import pytest

from store.conversations import (
    CODEC,
    Delivery,
    add_participant,
    create_conversation,
    find_conversation,
    find_conversations,
    get_conversation,
    leave_conversation,
    list_conversations,
    list_participants,
)
from store.database import TenantStore
from store.errors import BadFilterError, ConflictError, NotFoundError
from store.ids import AgentId, ConversationId, SessionId, UserId

C = ConversationId("c")


async def test_a_thread_comes_back_as_it_was_made(db: TenantStore) -> None:
    made = await create_conversation(db, title="Café 🦜", created_by="u", tags=["a", "b"])

    assert (made.conversation_id, made.status, made.tags) == ("id-000001", "open", ["a", "b"])
    assert await get_conversation(db, made.conversation_id) == made


async def test_an_id_can_be_chosen_once(db: TenantStore) -> None:
    made = await create_conversation(db, conversation_id=C, title="first")

    with pytest.raises(ConflictError, match="conversation_id 'c' is already in use; leave it out"):
        await create_conversation(db, conversation_id=C, title="second")

    assert await get_conversation(db, C) == made


async def test_an_unknown_thread_is_not_found(db: TenantStore) -> None:
    assert await find_conversation(db, C) is None
    with pytest.raises(NotFoundError, match="no conversation with id 'c'"):
        await get_conversation(db, C)


async def test_several_threads_are_read_at_once(db: TenantStore) -> None:
    made = [await create_conversation(db) for _ in range(3)]
    ids = [thread.conversation_id for thread in made]

    assert await find_conversations(db, [*ids, C]) == dict(zip(ids, made, strict=True))
    assert await find_conversations(db, []) == {}


async def test_threads_are_listed_newest_first(ticking: TenantStore) -> None:
    made = [await create_conversation(ticking) for _ in range(3)]

    assert (await list_conversations(ticking)).items == tuple(made[::-1])
    assert (await list_conversations(ticking, limit=2)).items == tuple(made[:0:-1])


async def test_participants_are_listed_in_the_order_of_joining(ticking: TenantStore) -> None:
    user = await add_participant(ticking, C, user_id=UserId("z"), role="owner")
    session = await add_participant(
        ticking, C, session_id=SessionId("a"), agent_id=AgentId("echo"), delivery=Delivery.PULL
    )
    await add_participant(ticking, ConversationId("other"), user_id=UserId("z"))

    assert await list_participants(ticking, C) == [user, session]
    assert (user.role, user.delivery, session.role, session.delivery) == ("owner", "push", "member", "pull")


async def test_joining_again_changes_role_and_delivery(ticking: TenantStore) -> None:
    await add_participant(ticking, C, session_id=SessionId("s"))

    again = await add_participant(ticking, C, session_id=SessionId("s"), role="guide", delivery=Delivery.PULL)

    assert await list_participants(ticking, C) == [again]


async def test_who_left_is_not_listed_until_joining_again(ticking: TenantStore) -> None:
    member = await add_participant(ticking, C, user_id=UserId("u"))
    other = await add_participant(ticking, C, user_id=UserId("v"))

    await leave_conversation(ticking, member)
    assert await list_participants(ticking, C) == [other]

    back = await add_participant(ticking, C, user_id=UserId("u"))
    assert await list_participants(ticking, C) == [other, back]


async def test_a_user_and_a_session_of_one_name_are_two(db: TenantStore) -> None:
    await add_participant(db, C, user_id=UserId("x"))
    await add_participant(db, C, session_id=SessionId("x"))

    assert len(await list_participants(db, C)) == 2


async def test_names_with_separators_do_not_make_two_participants_one(db: TenantStore) -> None:
    """`a` with the user `b/user/c` and `a/user/b` with the user `c`."""
    await add_participant(db, ConversationId("a"), user_id=UserId("b/user/c"))
    await add_participant(db, ConversationId("a/user/b"), user_id=UserId("c"))

    assert len(await list_participants(db, ConversationId("a"))) == 1
    assert len(await list_participants(db, ConversationId("a/user/b"))) == 1


@pytest.mark.parametrize("who", [{}, {"user_id": "u", "session_id": "s"}, {"agent_id": "a"}])
async def test_a_participant_is_either_a_user_or_a_session(db: TenantStore, who: dict[str, Any]) -> None:
    with pytest.raises(BadFilterError, match="either a user_id or a session_id"):
        await add_participant(db, C, **who)

    assert await list_participants(db, C) == []


async def test_an_upsert_of_a_thread_replaces_it(db: TenantStore) -> None:
    made = await create_conversation(db, conversation_id=C)
    await db.table(CODEC).change((C,), tags=["new"], status="closed")

    changed = await get_conversation(db, C)

    assert (changed.tags, changed.status, changed.created_at) == (["new"], "closed", made.created_at)
