"""Questions whose time is over get their default as the answer, unless a person's came before.

A session that waits with such a question is woken at that moment like a sleeping one (`LiveSession.wake_at`), also when
its worker was away then. Crash before the default is stored: the session is woken again at the next start. After it:
the record is found and noted. A paused session is left alone; when it is resumed the default is taken.
"""

from __future__ import annotations

from collections.abc import Callable

from runtime.approvals.answering import due_items, settle_by_time
from runtime.projector import Projector
from runtime.registry import Registry
from runtime.runner import Runner
from store.agent_state import SessionStatus
from store.database import TenantStore
from store.ids import SessionId


class Deadlines:
    """Ends the questions of woken sessions; `read_again` has what waits for one of them read again."""

    def __init__(
        self, db: TenantStore, registry: Registry, projector: Projector, read_again: Callable[[SessionId], None]
    ) -> None:
        self._db = db
        self._registry = registry
        self._projector = projector
        self._read_again = read_again

    async def look(self, runner: Runner) -> None:
        """Answer what is due in the session of `runner`, which was opened in this lane; most have nothing.

        Raises what `Registry.open` raises, and `StoreError`: the session has to be woken again.
        """
        session = runner.session
        due = due_items(session, self._db.clock.now())
        if not due or session.status is not SessionStatus.WAITING:
            return
        settled = await settle_by_time(self._db, session, due)
        runner = await self._registry.open(session.session_id)  # it may have left memory while that was stored
        for one in settled:
            one.note_in(runner.session)
        runner.go_on_when_answered()
        await self._projector.stored(runner.session)
        self._read_again(session.session_id)
