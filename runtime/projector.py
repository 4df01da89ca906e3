"""The projector: brings `agent_state`, the conversations' messages and the pull cursors up to the journal.

Invariant: **every journal row at or below the watermark is in every projection.** The watermark is stored with the
worker's heartbeat; a starting worker folds what is above it (see runtime/rehydration.py).
Crash before a flush: the rows are folded again. During: some projections are ahead, each is keyed by session or step,
folding again changes nothing. After: nothing to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

from runtime.firstof import first_of
from runtime.guests import Guests
from runtime.ownership import Ownership
from runtime.session import LiveSession
from store.agent_state import upsert_agent_state
from store.agent_steps import AgentStep, append_agent_step
from store.clock import Clock
from store.crashpoints import CrashPoint
from store.database import TenantStore
from store.errors import StoreError
from store.ids import SessionId
from store.lanes import LaneId
from store.messages import Message, messages_of
from store.schema import AGENT_STEPS
from store.session_cursors import save_cursor

_HURRY = 10
_AFTER_FAILURE_S = 1.0
_ID_AT = AGENT_STEPS.schema.get_field_index("id")


class Projector:
    """Commits steps and keeps their projections at most `interval_s` seconds behind."""

    def __init__(
        self,
        db: TenantStore,
        guests: Guests,
        ownership: Ownership,
        *,
        interval_s: float,
        watermark: int,
        crash_point: CrashPoint,
    ) -> None:
        self._db = db
        self._ownership = ownership
        self._guests = guests
        self._clock: Clock = db.clock
        self._interval_s = interval_s
        self._crash_point = crash_point
        self._committing: dict[str, tuple[LiveSession, AgentStep]] = {}
        #: stored, but perhaps behind another owner's fence
        self._uncertain: set[str] = set()
        #: sessions with a step that the store may hold though it never said so
        self._unanswered: dict[SessionId, LaneId] = {}
        self._dirty: dict[SessionId, LiveSession] = {}
        self._messages: list[Message] = []
        self._journal_version = watermark
        self._watermark = watermark
        self._waiters: list[asyncio.Future[None]] = []
        self._work = asyncio.Event()
        self._hurry = asyncio.Event()
        self._flushing = asyncio.Lock()
        self._flush: asyncio.Task[None] | None = None
        db.store.tables[AGENT_STEPS.name].on_append(self._on_commit)

    @property
    def watermark(self) -> int:
        """Every journal row up to this version is in every projection."""
        return self._watermark

    async def commit(self, session: LiveSession, step: AgentStep) -> None:
        """Store a step; when this returns it is true and folded into `session`.

        Raises `OwnershipLostError` when another worker may have taken the session over before the commit: the row, if
        it came too late, is never shown.
        """
        self._committing[step.id] = (session, step)
        try:
            await append_agent_step(self._db, step)
            if step.id in self._uncertain:
                await self._ownership.confirm(session.lane, session.epoch)
                self.fold(session, step)
        except StoreError:
            self._unanswered[session.session_id] = session.lane
            raise
        finally:
            self._committing.pop(step.id, None)
            self._uncertain.discard(step.id)

    def drop(self, lanes: Collection[LaneId]) -> None:
        """Store nothing more of the sessions of `lanes`; whoever waits for a flush of theirs is let go by the next."""
        self._dirty = {key: session for key, session in self._dirty.items() if session.lane not in lanes}
        self._unanswered = {key: lane for key, lane in self._unanswered.items() if lane not in lanes}

    def settle(self, session_id: SessionId) -> None:
        """The session was brought up to the journal after a commit that was not answered: the watermark may move."""
        self._unanswered.pop(session_id, None)

    def visit(self, point: str) -> None:
        """Pass a named place where a test may stop the process dead."""
        self._crash_point(point)

    def touch(self, session: LiveSession) -> None:
        """Have the session's row stored with the next flush."""
        self._dirty[session.session_id] = session
        self._work.set()

    async def stored(self, session: LiveSession) -> None:
        """Return when the session's row is stored as it is now, or newer."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._hurry.set()
        self.touch(session)
        await waiter

    async def run(self) -> None:
        """Flush whenever there is something, at most every `interval_s` seconds, until cancelled.

        While somebody waits for a flush they come ten times as often: a control action takes effect at once.

        A flush that has begun ends by itself: cut in two, its messages would be handed to the store again.
        """
        while True:
            await self._work.wait()
            began = self._clock.monotonic()
            self._flush = asyncio.create_task(self.flush())
            try:
                await asyncio.shield(self._flush)
            except StoreError:  # those who wait for it were told; what was to be stored was put back
                await self._clock.sleep(_AFTER_FAILURE_S)
                self._work.set()
                continue
            await self._clock.sleep(self._seconds_left(began, self._interval_s / _HURRY))
            if not self._waiters:
                await first_of(self._clock.sleep(self._seconds_left(began, self._interval_s)), self._hurry.wait())

    def _seconds_left(self, began: float, interval_s: float) -> float:
        return max(0.0, interval_s - (self._clock.monotonic() - began))

    async def flush(self) -> None:
        """Store every projection as it is now, then move the watermark."""
        async with self._flushing:
            await self._flush_all()

    async def _flush_all(self) -> None:
        self._work.clear()
        self._hurry.clear()
        reached = self._journal_version
        sessions, self._dirty = list(self._dirty.values()), {}
        messages, self._messages = self._messages, []
        waiters, self._waiters = self._waiters, []
        try:
            await self._store(sessions, messages)
        except BaseException as error:
            self._put_back(sessions, messages, waiters, error)
            raise
        self._watermark = max(self._watermark, reached)
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _store(self, sessions: Sequence[LiveSession], messages: Sequence[Message]) -> None:
        self._crash_point("projector.before_flush")
        await messages_of(self._db).append_all(messages)
        self._crash_point("projector.between_projections")
        await asyncio.gather(
            upsert_agent_state(self._db, [session.snapshot() for session in sessions]),
            *[self._save_cursor(session, session.pulled_to) for session in sessions if session.pulled_to is not None],
        )
        self._crash_point("projector.after_flush")

    async def _save_cursor(self, session: LiveSession, version: int | None) -> None:
        conversation_id = session.identity.conversation_id
        if conversation_id is not None and version is not None:
            await save_cursor(self._db, session.session_id, conversation_id, version)

    def _put_back(
        self,
        sessions: Sequence[LiveSession],
        messages: list[Message],
        waiters: list[asyncio.Future[None]],
        error: BaseException,
    ) -> None:
        for session in sessions:
            self._dirty.setdefault(session.session_id, session)
        self._messages = [*messages, *self._messages]
        if isinstance(error, asyncio.CancelledError):
            self._waiters = [*waiters, *self._waiters]
            return
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(error)

    def _on_commit(self, rows: Sequence[tuple[Any, ...]], version: int) -> None:
        """Runs between the commit and its callers: whatever the watermark will cover is folded in here."""
        fresh = self._ownership.fresh()
        for row in rows:
            entry = self._committing.get(row[_ID_AT])
            if entry is None:
                continue
            session = entry[0]
            if fresh and self._ownership.epoch_of(session.lane) == session.epoch:
                self.fold(*entry)
            else:
                self._uncertain.add(row[_ID_AT])
        if not self._uncertain and not self._unanswered:
            self._journal_version = max(self._journal_version, version)
        self._work.set()

    def fold(self, session: LiveSession, step: AgentStep) -> None:
        """Take a stored step into its session and have its projections stored with the next flush."""
        session.apply(step)
        self._dirty[session.session_id] = session
        self._messages += self._guests.messages_of(step, session.identity.conversation_id)
