"""What is said to a session: inputs, each of them a turn, and guidance for its next step.

An input's handler returns when its turn has ended, one of guidance when it is stored with the session. Coming again,
after a crash or because its end could not be stored, either finds whether a stored step has read it.
"""

from __future__ import annotations

import asyncio
from typing import assert_never

from runtime.busy import guidance_of, when_busy_of
from runtime.errors import ParkedError, RefusedError
from runtime.opening import Opening
from runtime.projector import Projector
from runtime.registry import Registry
from runtime.rehydration import Recovered
from runtime.rollback import taken_back_by
from runtime.runner import Runner
from runtime.session import Guidance, LiveSession, hops_of, taint_in
from runtime.waiting import Waiting
from store.actions import Action, ActionKind, WhenBusy, get_action
from store.agent_state import SessionStatus
from store.agent_steps import answered_actions
from store.database import TenantStore
from store.ids import ActionId, SessionId

_MAX_GUIDANCE_WAITING = 1000


class Inputs:
    """The handlers of inputs and interrupts."""

    def __init__(
        self,
        db: TenantStore,
        registry: Registry,
        projector: Projector,
        recovered: Recovered,
        opening: Opening,
        waiting: Waiting,
    ) -> None:
        self._db = db
        self._registry = registry
        self._projector = projector
        self._recovered = recovered
        self._opening = opening
        self._waiting = waiting

    async def input(self, action: Action) -> None:
        """Carry out a turn: returns when the session waits again, or has ended."""
        if not isinstance(action.payload, dict):
            raise RefusedError(f"the payload of {action.kind.value} is {type(action.payload).__name__}, not an object")
        when_busy = when_busy_of(action)
        async with self._opening.lane(action) as session_id:
            self._waiting.parked.take(action, session_id)
            if await self._answered(action, session_id):
                await self._refuse_taken_back(action, session_id)
                return
            runner = await self._open_unread(action, session_id)
            if runner is None:
                await self._refuse_taken_back(action, session_id)
                return
            self._keep_order(action, runner)
            if runner.session.due not in (None, action.id):
                has_ended = await self._has_ended(runner.session.due)
                runner = await self._opening.open(action, session_id)  # it may have left memory meanwhile
                runner.session.due = None if has_ended else runner.session.due
            running = runner.turn
            ended = self._hand_in(action, runner, when_busy)
        try:
            await (self._projector.stored(runner.session) if ended is None else ended)
        except ParkedError:
            self._note_parked(action, runner.session)
            if running not in (None, action.id, runner.turn):
                self._waiting.read_again(session_id)  # a turn was taken back whose input is parked, too: it has failed
            raise
        if ended is not None and self._waiting.parked.any_of(session_id):
            self._waiting.read_again(session_id)

    def _hand_in(self, action: Action, runner: Runner, when_busy: WhenBusy) -> asyncio.Future[None] | None:
        """Do with an input what it asks for; None when it became guidance. Nothing awaits in here, so that of two
        inputs that come at once the second one sees what the first one did."""
        session = runner.session
        if any(item.action_id == action.id for item in session.guidance):
            return None
        mine = action.id in (session.turn, session.due)
        held_up = (runner.pause_requested or session.open_items) and self._waiting.parked.any_of(session.session_id)
        is_busy = not mine and (runner.turn is not None or runner.inputs_wait or bool(held_up))
        match when_busy:
            case WhenBusy.REJECT if is_busy:
                raise RefusedError(f"session {session.session_id!r} is busy and the input asked to be rejected then")
            case WhenBusy.INTERRUPT if is_busy:
                self._guide(runner, Guidance(action.id, guidance_of(action), hops_of(action), taint_in(action)))
                return None
            case WhenBusy.ROLLBACK if not mine and runner.turn is not None:
                return runner.roll_back(action)
            case WhenBusy.ENQUEUE | WhenBusy.INTERRUPT | WhenBusy.REJECT | WhenBusy.ROLLBACK:
                return runner.hand_over(action)
            case _:
                assert_never(when_busy)

    def _keep_order(self, action: Action, runner: Runner) -> None:
        """Let older inputs that are parked go first: once, all that is open is read again, in order."""
        session_id = runner.session.session_id
        if self._waiting.parked.defers(action, session_id) and not runner.pause_requested:
            self._waiting.parked.note(action, session_id)
            self._waiting.read_again(session_id)
            raise ParkedError(f"older inputs of session {session_id!r} come first")

    async def _has_ended(self, due: ActionId | None) -> bool:
        """Whether the input that a rollback was for, which comes before all others, has ended without being read."""
        return due is None or (await get_action(self._db, due)).processed

    async def _refuse_taken_back(self, action: Action, session_id: SessionId) -> None:
        by = await taken_back_by(self._db, session_id, action.id)
        if by is not None:
            raise RefusedError(f"rolled back by action {by}")

    def _note_parked(self, action: Action, session: LiveSession) -> None:
        if session.turn == action.id:
            self._recovered.answered_ids.add(action.id)
        self._waiting.parked.note(action, session.session_id)

    async def interrupt(self, action: Action) -> None:
        """Accept guidance: it is stored with the session until a step has read it."""
        if not isinstance(action.payload, dict) or "guidance" not in action.payload:
            raise RefusedError("agent_interrupt needs a payload with guidance")
        async with self._opening.lane(action) as session_id:
            if await self._answered(action, session_id):
                return
            runner = await self._open_unread(action, session_id)
            if runner is None:
                return
            if all(item.action_id != action.id for item in runner.session.guidance):
                self._guide(runner, Guidance(action.id, action.payload["guidance"], hops_of(action), taint_in(action)))
        # Outside of the lane: what comes behind it need not wait for the flush. Nothing awaits in between.
        await self._projector.stored(runner.session)

    def _guide(self, runner: Runner, guidance: Guidance) -> None:
        session = runner.session
        if len(session.guidance) >= _MAX_GUIDANCE_WAITING:
            raise RefusedError(f"session {session.session_id!r} has {_MAX_GUIDANCE_WAITING} unread interrupts")
        runner.interrupt(guidance)

    async def _open_unread(self, action: Action, session_id: SessionId) -> Runner | None:
        """The session's runner; None when a step has read the action, which was in hand before, and ended well.

        What is still to be read stands in the session, and leaves it when the step that read it is stored. So the
        session is looked at first and the journal after it: a step that is stored in between is seen there. Nothing
        awaits between the opening and the return: a session with nothing to do would rest meanwhile.
        """
        while True:
            waits = self._stands_in(self._registry.SESSIONS.get(session_id), action.id)
            if not waits and self._recovered.tried(action.id) and await self._was_read(action, session_id):
                return None
            runner = await self._opening.open(action, session_id)
            if not waits or self._stands_in(runner, action.id):
                return runner

    def _stands_in(self, runner: Runner | None, action_id: ActionId) -> bool:
        if runner is None:
            return False
        session = runner.session
        return action_id in {*(item.action_id for item in session.guidance), runner.turn, session.due}

    async def _was_read(self, action: Action, session_id: SessionId) -> bool:
        if not await answered_actions(self._db, [action.id]):
            return False
        self._recovered.answered_ids.add(action.id)
        return await self._answered(action, session_id)

    async def _answered(self, action: Action, session_id: SessionId) -> bool:
        """Whether a stored step has read the action and the turn that it began, if it did, has ended well."""
        if not self._recovered.answered(action.id):
            return False
        running = self._registry.SESSIONS.get(session_id)
        if running is not None:
            failed = running.session.status is SessionStatus.ERROR and action.kind is ActionKind.INPUT
            return not failed and running.session.turn != action.id
        row = await self._registry.row(session_id)
        if row is None or (row.status is SessionStatus.ERROR and action.kind is ActionKind.INPUT):
            return False
        return (row.inbox or {}).get("turn") != action.id
