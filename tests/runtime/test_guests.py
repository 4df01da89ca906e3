"""Sessions that were added to a thread after they were created."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from runtime.guests import Guests
from store.agent_requests import agent_input
from store.agent_state import SessionStatus
from store.agent_steps import find_step
from store.conversations import add_participant, create_conversation, leave_conversation
from store.ids import ConversationId, SessionId
from store.messages import list_messages
from tests.runtime.kit import workshop
from tests.support import eventually

HOME, AWAY, S = ConversationId("home"), ConversationId("away"), SessionId("s")


async def test_a_session_that_is_added_later_speaks_in_both_threads(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        # Given a session of one thread that another thread adds
        for thread in (HOME, AWAY):
            await create_conversation(shop.db, conversation_id=thread)
        await shop.create("echo", task="hello", conversation=HOME, config={"steps": 1, "wait_for_input": True})
        await shop.until(SessionStatus.WAITING)
        await add_participant(shop.db, AWAY, session_id=S)

        # When it is spoken to
        async def heard_away() -> bool:
            await agent_input(shop.db, session_id=S, text="more")
            return bool((await list_messages(shop.db, AWAY)).items)

        await eventually(heard_away)
        # Then its steps are in both threads, none that was taken before it joined, and none twice
        home = [message.iteration for message in (await list_messages(shop.db, HOME)).items]
        away = [message.iteration for message in (await list_messages(shop.db, AWAY)).items]
        assert 0 in home
        assert 0 not in away
        assert len(set(away)) == len(away)


async def test_it_is_silent_before_it_joins_and_after_it_left(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        await create_conversation(shop.db, conversation_id=AWAY)
        await shop.create("echo", task="hello")
        await shop.until(SessionStatus.DONE)
        step = await find_step(shop.db, S, 0)
        assert step is not None
        guest, guests = await add_participant(shop.db, AWAY, session_id=S), Guests(shop.db)
        await guests.refresh()
        later = replace(step, created_at=guest.joined_at + timedelta(seconds=1))
        assert guests.messages_of(step, None) == []
        assert [message.message_id for message in guests.messages_of(later, None)] == [f"{step.id}@{AWAY}"]
        await leave_conversation(shop.db, guest)
        await guests.refresh()
        assert guests.messages_of(later, None) == []
