"""Which workspaces have had their time: those of sessions that ended long ago, and of projects at rest.

Invariant: **a workspace goes only on the word of the store.** A session's goes when its row says that it has ended for
good (done or stopped; after an error it can be resumed) for longer than `keep`. A project's goes when that is so of all
its sessions, there is one at least, no action for it is open, and nothing was said in it since. A folder that the store
knows nothing of stays: it may be another store's. The store is asked once more while the workspace is held, so that
nobody who came in between loses anything.

Crash: what was taken away is gone for everybody, the next turn takes the rest of it off the disk, and then the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any, assert_never

from runtime.tools.workspace.errors import WorkspaceError
from runtime.tools.workspace.removing import Claim, claim, clear, names_in
from runtime.tools.workspace.scopes import Scope, Workspaces, folder_name, id_of, is_hashed
from store.database import TenantStore
from store.errors import StoreError
from store.finished import conversation_ids, finished_sessions, idle_conversations, session_ids

#: seconds between two turns
EVERY_S = 600.0
_BATCH = 500


class WorkspaceKeeper:
    """Removes workspaces that have had their time. Several processes may do so on one folder: each goes once."""

    def __init__(self, db: TenantStore, workspaces: Workspaces, keep: timedelta, log: Any) -> None:
        self._db = db
        self._folder = workspaces.folder
        self._keep = keep
        self._log = log

    async def run(self) -> None:
        """Have a turn now and then, until cancelled."""
        while True:
            await self.once()
            await self._db.clock.sleep(EVERY_S)

    async def once(self) -> int:
        """One turn over all workspaces; returns how many it removed. What failed is logged, and left to the next."""
        removed = 0
        for scope in Scope:
            try:
                removed += await self._turn(scope)
            except (StoreError, WorkspaceError, OSError) as error:
                self._log.warning("old workspaces stay; the next turn tries again", scope=scope, error=str(error))
        return removed

    async def _turn(self, scope: Scope) -> int:
        await asyncio.to_thread(clear, self._folder, scope)
        names = await asyncio.to_thread(names_in, self._folder, scope)
        ids, removed = await self._ids(scope, names), 0
        for start in range(0, len(ids), _BATCH):
            for one in sorted(await self._may_go(scope, ids[start : start + _BATCH])):
                removed += await self._tried(scope, one)
        return removed

    async def _tried(self, scope: Scope, id_: str) -> bool:
        """Remove one; that a disk refuses it keeps no other from being removed."""
        try:
            return await self._remove(scope, id_)
        except (WorkspaceError, OSError) as error:
            told = "an old workspace could not be removed; the next turn tries again"
            self._log.warning(told, scope=scope, id=id_, error=str(error))
            return False

    async def _ids(self, scope: Scope, names: Sequence[str]) -> list[str]:
        """Whose workspaces these are; names that nobody can read, and that fit no known id, are left out."""
        hashed = {name for name in names if is_hashed(name)}
        known = await self._all_ids(scope) if hashed else set()
        written = [one for one in map(id_of, names) if one is not None]
        return written + [one for one in known if one and folder_name(one) in hashed]

    async def _all_ids(self, scope: Scope) -> set[str]:
        match scope:
            case Scope.PRIVATE:
                return await session_ids(self._db)
            case Scope.SHARED:
                return await conversation_ids(self._db)
            case _:
                assert_never(scope)

    async def _may_go(self, scope: Scope, ids: Collection[str]) -> set[str]:
        before = self._db.clock.now() - self._keep
        match scope:
            case Scope.PRIVATE:
                return await finished_sessions(self._db, ids, before)
            case Scope.SHARED:
                return await idle_conversations(self._db, ids, before)
            case _:
                assert_never(scope)

    async def _remove(self, scope: Scope, id_: str) -> bool:
        """Take one away, unless it is in use after all."""
        held = await self._held(scope, folder_name(id_))
        if held is None:
            return False
        try:
            gone = bool(await self._may_go(scope, [id_]))
            if gone:
                await asyncio.to_thread(held.take_away)
                self._log.info("a workspace had its time and is removed", scope=scope, id=id_)
            return gone
        finally:
            await asyncio.to_thread(held.close)

    async def _held(self, scope: Scope, name: str) -> Claim | None:
        """The workspace, held. Cancelled meanwhile, it is let go: a thread cannot be stopped, only waited for."""
        holding = asyncio.create_task(asyncio.to_thread(claim, self._folder, (scope,), name))
        try:
            return await asyncio.shield(holding)
        except asyncio.CancelledError:
            (held,) = await asyncio.gather(holding, return_exceptions=True)
            if isinstance(held, Claim):
                held.close()
            raise
