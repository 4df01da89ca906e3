"""Control of a session: hold it, let it go on, end it, answer what it asked.

Each handler returns when the session has got there and that is stored.
"""

from __future__ import annotations

from runtime.approvals.answering import settle_by_person
from runtime.budgets.answering import answer_budget, is_about_budget, open_question
from runtime.errors import ParkedError, RefusedError
from runtime.opening import Opening
from runtime.projector import Projector
from runtime.registry import Registry
from runtime.rehydration import Recovered
from runtime.waiting import Waiting
from store.actions import Action
from store.agent_state import SessionStatus
from store.database import TenantStore
from store.ids import SessionId


class Control:
    """The handlers of pause, resume, destroy and approval."""

    def __init__(
        self,
        db: TenantStore,
        registry: Registry,
        projector: Projector,
        recovered: Recovered,
        opening: Opening,
        waiting: Waiting,
        *,
        stop_grace_s: float,
    ) -> None:
        self._db = db
        self._registry = registry
        self._projector = projector
        self._recovered = recovered
        self._opening = opening
        self._waiting = waiting
        self._stop_grace_s = stop_grace_s

    async def pause(self, action: Action) -> None:
        """Hold a session after its running step: returns when it rests."""
        async with self._opening.lane(action) as session_id:
            runner = await self._opening.open(action, session_id)
            runner.request_pause()
        session = runner.session
        await runner.until(lambda: runner.is_paused_by_a_person or not runner.pause_requested)
        if runner.pause_requested and not runner.is_paused_by_a_person and not session.ended:
            raise ParkedError(f"session {session.session_id!r} left before it could pause")
        await self._projector.stored(session)

    async def resume(self, action: Action) -> None:
        """Let a paused session go on; a failed one tries its step again."""
        async with self._opening.lane(action) as session_id:
            runner = await self._opening.open(action, session_id)
            session = runner.session
            if session.status is SessionStatus.ERROR:
                session.enter(SessionStatus.RUNNING, "resumed after an error", self._db.clock.now())
            runner.request_resume()
            await self._projector.stored(session)
        self._waiting.read_again(session_id)

    async def destroy(self, action: Action) -> None:
        """End a session: its running step has a grace, then it is cancelled."""
        async with self._opening.lane(action) as session_id:
            if self._recovered.tried(action.id) and await self._stopped(session_id):
                return
            runner = await self._opening.open_to_destroy(action, session_id)
            if runner is None:
                return
            session = runner.session
            session.enter(SessionStatus.STOPPING, "asked to end", self._db.clock.now())
            self._projector.touch(session)
            runner.request_stop()
        await runner.stop_within(self._stop_grace_s)
        if not session.ended:
            raise ParkedError(f"session {session.session_id!r} left before it could end")
        self._waiting.read_again(session_id)

    async def _stopped(self, session_id: SessionId) -> bool:
        row = await self._registry.row(session_id)
        return row is not None and row.status is SessionStatus.STOPPED

    async def approval(self, action: Action) -> None:
        """Take a person's answer; the session goes on when it has asked for nothing else."""
        if is_about_budget(action):
            await self._answer_budget(action)
            return
        async with self._opening.lane(action) as session_id:
            asking = await self._opening.open(action, session_id)
            settled = await settle_by_person(self._db, asking.session, action)
            runner = await self._opening.open(action, session_id)  # it may have left memory while that was stored
            session = runner.session
            try:
                settled.note_in(session)
            finally:  # also for who came second: a crash may have come before the first answer was noted
                runner.go_on_when_answered()
        await self._projector.stored(session)
        self._waiting.read_again(session_id)

    async def _answer_budget(self, action: Action) -> None:
        """Allow more of a spent budget, whose sessions then go on by themselves, or end the session that asks."""
        async with self._opening.lane(action) as session_id:
            session = (await self._opening.open(action, session_id)).session
            mark = open_question(session, action)
            if mark is None:
                if self._recovered.tried(action.id):
                    return
                asked = action.payload["approval_id"]
                raise RefusedError(f"approval {asked!r} is not open: it was answered, or its session went on")
            end = await answer_budget(self._db, session, mark, action)
            if end is None:
                return
            runner = await self._opening.open(action, session_id)  # it may have left memory meanwhile
            session = runner.session
            session.enter(SessionStatus.STOPPED, end, self._db.clock.now())
            runner.nudge()
        await self._projector.stored(session)
        self._waiting.read_again(session_id)
