"""Sessions that lost their store go on by themselves when it is back.

A runner leaves when the store could not be written for the worker's whole patience. Its session stays `running` in the
store, and nobody would ask for it until the next start. So they are tried again here, after waits that grow while the
store stays away. Killed meanwhile: the next start carries them on like every running session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from runtime.contract import Clock, MonikerInputError
from runtime.errors import OwnershipLostError, ParkedError, RefusedError
from runtime.registry import Registry
from store.agent_state import SessionStatus
from store.errors import StoreError
from store.ids import ActionId, SessionId

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 15.0

Reread = Callable[[SessionId, Sequence[ActionId]], None]


class Comeback:
    """Opens lost sessions again, one after the other. `reread` has their open actions read again."""

    def __init__(self, registry: Registry, reread: Reread, clock: Clock, log: Any) -> None:
        self._registry = registry
        self._reread = reread
        self._clock = clock
        self._log = log

    async def run(self) -> None:
        """Work until cancelled."""
        wait_s = FIRST_WAIT_S
        while True:
            await self._clock.sleep(wait_s)
            wait_s = FIRST_WAIT_S if await self.once() else min(wait_s * 2, LONGEST_WAIT_S)

    async def once(self) -> bool:
        """Try every lost session; False when the store is still away."""
        for session_id in list(self._registry.lost):
            try:
                await self._reopen(session_id)
            except StoreError as error:
                self._log.warning(
                    "sessions wait for the store; trying again", sessions=len(self._registry.lost), error=str(error)
                )
                return False
        return True

    async def _reopen(self, session_id: SessionId) -> None:
        async with self._registry.lane(session_id):
            if session_id not in self._registry.lost:
                return
            try:
                runner = await self._registry.open(session_id)
            except (MonikerInputError, RefusedError, ParkedError, OwnershipLostError) as error:
                self._registry.lost.pop(session_id, None)
                self._log.warning("a session was left as it is", session_id=session_id, error=str(error))
                return
            if runner.session.status is SessionStatus.STOPPING:
                runner.request_stop()
        self._log.info("a session goes on: its store is back", session_id=session_id)
        self._reread(session_id, ())
