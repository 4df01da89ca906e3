"""The transcript: posts and what steps say, each once, in order; readers that pull miss nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.agent_steps import StepStatus
from store.database import TenantStore
from store.ids import ConversationId, MessageId, SessionId, UserId
from store.messages import (
    EventType,
    Message,
    SenderType,
    find_message,
    list_messages,
    messages_of,
    messages_of_step,
    missing_messages,
    post_message,
    posts_after,
)
from store.paging import Order
from tests.store.rows import a_message, a_step
from tests.support import examples

C = ConversationId("c")


async def test_a_post_comes_back_as_it_was_made(db: TenantStore) -> None:
    made = await post_message(db, C, text="hi 🦜", data={"n": [1]}, user_id=UserId("u"))

    assert await find_message(db, made.message_id) == made
    assert (made.sender_type, made.event_type, made.status) == (SenderType.USER, EventType.POST, "sent")


async def test_a_post_with_an_id_that_is_stored_is_that_post(db: TenantStore) -> None:
    first = await post_message(db, C, text="one", message_id=MessageId("m"))

    assert await post_message(db, C, text="two", message_id=MessageId("m")) == first
    assert (await list_messages(db, C)).items == (first,)


def test_a_step_says_its_text() -> None:
    step = a_step(text="said", error="not this", notes="n", data={"a": 1})

    message = a_message(C, step)

    assert (str(message.message_id), message.conversation_id, message.created_at) == (step.id, C, step.created_at)
    assert (message.text, message.data, message.notes, message.status) == ("said", {"a": 1}, "n", "running")
    assert (message.sender_type, message.event_type) == (SenderType.AGENT, EventType.STEP)
    assert (message.session_id, message.iteration, message.user_id) == ("s", 0, None)


def test_a_step_that_failed_says_its_error() -> None:
    message = a_message(C, a_step(status=StepStatus.ERROR, text="half", error="why"))

    assert (message.text, message.event_type, message.status) == ("why", EventType.ERROR, "error")


def test_a_step_with_insights_says_each_of_them() -> None:
    told = [{"insight_id": "i1", "content": "Ask why.", "confidence": 0.7, "status": "held"}, {"insight_id": "i2"}, "?"]
    step = a_step(text=None, data={"insights": told, "turn": 3}, notes="n")

    (message,) = messages_of_step(step, C)

    assert (message.message_id, message.event_type, message.status) == (f"{step.id}:000", EventType.INSIGHT, "held")
    assert (message.text, message.data["insight_id"], message.data["confidence"]) == ("Ask why.", "i1", 0.7)
    assert (message.session_id, message.iteration, message.notes) == ("s", 0, None)


def test_a_step_with_insights_and_a_text_says_both() -> None:
    told = {"insights": [{"insight_id": "i1", "content": "Ask why."}]}
    step = a_step(text="also", data=told)

    said = messages_of_step(step, C, as_guest=True)

    assert [(one.event_type, one.text) for one in said] == [(EventType.STEP, "also"), (EventType.INSIGHT, "Ask why.")]
    assert [one.message_id for one in said] == [f"{step.id}@{C}", f"{step.id}:000@{C}"]


def test_a_step_that_tells_no_insight_but_could_says_nothing() -> None:
    assert messages_of_step(a_step(text=None, data={"insights": []}), C) == []


def test_a_step_that_failed_tells_no_insights() -> None:
    step = a_step(status=StepStatus.ERROR, error="why", data={"insights": [{"insight_id": "i", "content": "no"}]})

    assert [one.event_type for one in messages_of_step(step, C)] == [EventType.ERROR]


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_the_transcript_is_in_the_order_of_time(ticking: TenantStore, order: Order) -> None:
    made = [await post_message(ticking, C, text=f"{at}") for at in range(4)]
    await post_message(ticking, ConversationId("other"), text="elsewhere")

    found = await list_messages(ticking, C, order=order)

    assert list(found.items) == (made if order == "asc" else made[::-1])


async def test_only_messages_that_are_not_stored_are_missing(db: TenantStore) -> None:
    messages = [a_message(C, a_step(iteration=at)) for at in range(1100)]
    await messages_of(db).append_all(messages[:1050:2])

    assert await missing_messages(db, messages) == [*messages[1:1050:2], *messages[1050:]]
    assert await missing_messages(db, []) == []


# --- pulling ---------------------------------------------------------------------------------------------------------


def a_post(number: int, **other: Any) -> Message:
    fields = {"sender_type": SenderType.USER, "event_type": EventType.POST, "conversation_id": C, **other}
    message = a_message(C, a_step(iteration=number))
    return Message(**{name: fields.get(name, getattr(message, name)) for name in message.__dataclass_fields__})


async def test_who_has_not_read_yet_begins_now(db: TenantStore) -> None:
    await post_message(db, C, text="before")
    posts, cursor = await posts_after(db, C, None)
    assert posts == []

    new = await post_message(db, C, text="after")

    assert await posts_after(db, C, cursor) == ([new], await messages_of(db).version())


async def test_only_users_posts_to_the_thread_are_pulled(db: TenantStore) -> None:
    await messages_of(db).append_all([a_message(C, a_step()), a_post(1, conversation_id=ConversationId("other"))])
    await messages_of(db).append(a_post(2))

    posts, cursor = await posts_after(db, C, 0)

    assert [post.iteration for post in posts] == [2]
    assert await posts_after(db, C, cursor) == ([], cursor)


@examples(25)
@given(
    commits=st.lists(st.lists(st.booleans(), min_size=1, max_size=4), max_size=6),
    limit=st.integers(1, 5),
    start=st.integers(0, 3),
)
async def test_however_much_is_read_at_a_time_every_post_comes_once_in_order(
    db: TenantStore, commits: list[list[bool]], limit: int, start: int
) -> None:
    thread = ConversationId(db.ids.new())
    _, cursor = await posts_after(db, thread, None)
    posted: list[int] = []
    seen: list[int] = []
    for at, commit in enumerate(commits):
        numbers = [at * 10 + place for place in range(len(commit))]
        session = SessionId(thread)
        rows = [
            a_post(number, conversation_id=thread, session_id=session)
            if by_user
            else a_message(thread, a_step(session, number))
            for number, by_user in zip(numbers, commit, strict=True)
        ]
        await messages_of(db).append_all(rows)
        posted += [number for number, by_user in zip(numbers, commit, strict=True) if by_user]
        if at >= start:
            posts, cursor = await posts_after(db, thread, cursor, limit=limit)
            seen += [post.iteration or 0 for post in posts]

    for _ in range(len(posted) + 1):
        posts, cursor = await posts_after(db, thread, cursor, limit=limit)
        seen += [post.iteration or 0 for post in posts]

    assert seen == posted
    assert cursor == await messages_of(db).version()


async def test_a_message_that_two_owners_of_a_session_have_stored_is_shown_once(db: TenantStore) -> None:
    """The first one stood still between a step's commit and its message; the second one folded the journal."""
    told = [a_message(ConversationId("c"), a_step(iteration=at)) for at in range(3)]
    for message in (*told, told[1], told[0]):
        await messages_of(db).append(message)

    for limit in (1, 2, 100):
        shown: list[str] = []
        cursor = None
        while True:
            page = await list_messages(db, ConversationId("c"), limit=limit, cursor=cursor)
            shown += [message.message_id for message in page.items]
            if (cursor := page.next_cursor) is None:
                break
        assert shown == [message.message_id for message in told]
