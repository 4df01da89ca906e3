"""Guests: sessions that were added to a thread after they were created. Their steps land there too.

Which threads those are is the table of participants; this follows it, so that folding a step asks nobody.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from itertools import chain
from typing import Any

from store.agent_steps import AgentStep
from store.changes import Feed
from store.clock import Clock
from store.conversations import Participant, participants_of
from store.database import TenantStore
from store.errors import StoreError
from store.ids import ConversationId, SessionId
from store.messages import Message, messages_of_step
from store.schema import PARTICIPANTS

_AFTER_FAILURE_S = 1.0


class Guests:
    """The threads of every session, as the table of participants has them."""

    def __init__(self, db: TenantStore) -> None:
        self._db = db
        self._clock: Clock = db.clock
        self._feed: Feed[Participant] = Feed(participants_of(db), "changed", 0)
        self._joined: defaultdict[SessionId, dict[ConversationId, datetime]] = defaultdict(dict)

    async def refresh(self) -> None:
        """Take in what changed since the last look."""
        for row in await self._feed.poll():
            self._take(row.item)

    async def run(self, log: Any) -> None:
        """Follow the table until cancelled."""
        async with self._db.store.watch(PARTICIPANTS.name) as watch:
            while True:
                try:
                    await self.refresh()
                    await watch.wait()
                except StoreError as error:
                    log.warning("participants cannot be read; trying again", error=str(error))
                    await self._clock.sleep(_AFTER_FAILURE_S)

    def messages_of(self, step: AgentStep, home: ConversationId | None) -> list[Message]:
        """What a step says, in its session's own thread and in those that the session had joined by then."""
        own = [] if home is None else messages_of_step(step, home)
        joined = self._joined.get(step.session_id)
        if not joined:
            return own
        guest_in = [thread for thread, since in joined.items() if thread != home and since <= step.created_at]
        as_guest = (messages_of_step(step, thread, as_guest=True) for thread in guest_in)
        return [*own, *chain.from_iterable(as_guest)]

    def _take(self, participant: Participant) -> None:
        if participant.session_id is None:
            return
        if participant.left_at is not None:
            self._joined[participant.session_id].pop(participant.conversation_id, None)
        else:
            self._joined[participant.session_id][participant.conversation_id] = participant.joined_at
