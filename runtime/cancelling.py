"""Cancelling queued actions: what nobody has begun is taken back, what has begun is left alone.

An action has begun when its turn at its session has come (`begin`). The check and the note are one piece of code
without an await, so of a cancel and a beginning that race one wins, and the other learns of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runtime.errors import RefusedError
from runtime.registry import Registry
from runtime.rehydration import Recovered
from store.actions import Action, get_action
from store.cancelling import CANCELLED, withdraw_action
from store.database import TenantStore
from store.errors import NotFoundError
from store.ids import ActionId, SessionId

Withdraw = Callable[[ActionId], bool]
PutBack = Callable[[ActionId], None]


class Cancels:
    """Which actions have begun, and which were cancelled before they could."""

    def __init__(self, db: TenantStore, registry: Registry, recovered: Recovered) -> None:
        self._db = db
        self._registry = registry
        self._recovered = recovered
        self._begun: dict[ActionId, SessionId] = {}
        self._cancelled: set[ActionId] = set()
        self._withdraw: Withdraw = lambda _: True
        self._put_back: PutBack = lambda _: None

    def bind(self, withdraw: Withdraw, put_back: PutBack) -> None:
        """Have the dispatcher's part done by the dispatcher."""
        self._withdraw, self._put_back = withdraw, put_back

    def begin(self, action: Action, session_id: SessionId) -> None:
        """Note that an action's turn has come; raises `RefusedError` for one that was cancelled."""
        if action.id in self._cancelled:
            raise RefusedError(CANCELLED)
        self._begun[action.id] = session_id

    def forget(self, action_id: ActionId) -> None:
        """Nobody has the action in hand any more."""
        self._begun.pop(action_id, None)
        self._cancelled.discard(action_id)

    async def cancel(self, action: Action) -> None:
        """Carry a cancel out; raises `RefusedError` when its target has begun or has ended.

        Crash before the target's row is changed: the cancel is carried out again. After: it finds its target
        cancelled, and is done.
        """
        target = await self._target(action)
        if target.processed and target.error == CANCELLED:
            return
        if self._has_begun(target.id):
            raise RefusedError(f"action {target.id} has already begun; interrupt or pause the session instead")
        self._cancelled.add(target.id)
        in_hand = not self._withdraw(target.id)
        try:
            taken = await withdraw_action(self._db, target.id)
        except BaseException:
            self._settle(target.id, in_hand=in_hand)
            self._put_back(target.id)
            raise
        # A read that began before the commit may have shown it as open.
        self._settle(target.id, in_hand=not self._withdraw(target.id))
        if not taken and (await self._target(action)).error != CANCELLED:
            raise RefusedError(f"action {target.id} had ended before it could be cancelled")
        self._registry.forget_latest(target)

    def _settle(self, action_id: ActionId, *, in_hand: bool) -> None:
        if not in_hand:
            self._cancelled.discard(action_id)

    def _has_begun(self, action_id: ActionId) -> bool:
        """Whether it has begun. An input that waits for its session has not: it is taken out of the session's hands."""
        if self._recovered.answered(action_id):
            return True
        session_id = self._begun.get(action_id)
        if session_id is None:
            return False
        runner = self._registry.SESSIONS.get(session_id)
        return runner is None or not runner.withdraw(action_id)

    async def _target(self, action: Action) -> Action:
        payload: Any = action.payload if isinstance(action.payload, dict) else {}
        target_id = ActionId(str(payload.get("action_id") or ""))
        try:
            return await get_action(self._db, target_id)
        except NotFoundError as error:
            raise RefusedError(f"there is no action {target_id!r} to cancel") from error
