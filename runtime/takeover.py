"""What a change of ownership does: lanes are taken over, given to others, or found to be lost.

    take:  claim ─▶ fence ─▶ own the rows ─▶ fold the journal ─▶ activate ─▶ open actions ─▶ running sessions
           (a lane that another worker claimed before `activate` is left to it)
    give:  close ─▶ runners leave after their step ─▶ handlers end ─▶ flush ─▶ release
    lose:  forget; nothing that was under way is stored

Invariant: **a lane's journal is folded before anything of the lane is handled, and behind a fence.** Crash anywhere in
`take`: the leases are claimed by a dead worker; the next one claims them with a higher epoch and folds from the same
watermark. In `give`: the steps are stored; the next owner folds them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from runtime.budgets.keeping import BudgetKeeper
from runtime.contract import MonikerInputError
from runtime.dispatcher import Dispatcher
from runtime.errors import ParkedError, RefusedError
from runtime.ownership import LeasedOwnership
from runtime.poller import Poller
from runtime.projector import Projector
from runtime.registry import Registry
from runtime.rehydration import CARRIED_ON, Recovered, know_answered, repair_projections
from runtime.session import session_of_row
from runtime.sleepers import SleepList
from store.actions import Action, list_open_actions, place_of
from store.agent_state import AgentState, SessionStatus, list_sleeping, list_states_in, own_sessions, upsert_agent_state
from store.agent_steps import raise_fences
from store.crashpoints import CrashPoint
from store.database import TenantStore
from store.errors import StoreError
from store.ids import SessionId, WorkerId
from store.lanes import LaneId
from store.leases import Lease, LeaseStatus, activate_leases, claim_leases, release_leases
from store.marks import own_open_actions
from store.workers import Worker, WorkerStatus, list_workers


class Lanes:
    """Moves lanes into and out of this worker."""

    def __init__(
        self,
        db: TenantStore,
        ownership: LeasedOwnership,
        *,
        me: WorkerId,
        registry: Registry,
        projector: Projector,
        dispatcher: Dispatcher,
        poller: Poller,
        sleeping: SleepList,
        recovered: Recovered,
        budgets: BudgetKeeper,
        drain_s: float,
        max_losses: int,
        crash_point: CrashPoint,
        log: Any,
    ) -> None:
        self._db = db
        self._ownership = ownership
        self._me = me
        self._registry = registry
        self._projector = projector
        self._dispatcher = dispatcher
        self._poller = poller
        self._sleeping = sleeping
        self._recovered = recovered
        self._budgets = budgets
        self._drain_s = drain_s
        self._max_losses = max_losses
        self._crash_point = crash_point
        self._log = log
        self._giving: set[asyncio.Task[None]] = set()
        self._leaving: set[LaneId] = set()

    async def take(self, seen: Collection[Lease], epoch: int, judged: Mapping[WorkerId, Worker]) -> None:
        """Claim the leases in `seen` under `epoch`, as far as nobody was faster, and carry their sessions on.

        `judged` has the workers as they were when their leases were held to be anybody's. Raises `StoreError` when
        the store fails in between: the lanes are then claimed and not run, and the next look claims them again.
        """
        won = await claim_leases(self._db, seen, self._me, epoch)
        if not won:
            return
        self._crash_point("leases.claimed")
        before = [lease for lease in seen if lease.lane in won]
        await self._until_noticed({lease.owner for lease in before if lease.owner is not None}, judged)
        try:
            await self._take_over(before, epoch, judged)
        except StoreError:
            await self.lose(won)
            raise

    async def _until_noticed(self, owners: Collection[WorkerId], judged: Mapping[WorkerId, Worker]) -> None:
        """Return when no former owner can still be certain of its lanes.

        One that has beaten since it was judged, because this worker stood still between the look and the claim, may
        be certain for a lease time; its beats after the claim tell it.
        """
        now = {worker.worker_id: worker for worker in await list_workers(self._db)}
        gone = {one.worker_id for one in now.values() if one.status is WorkerStatus.STOPPED}
        known = [one for one in owners if one in judged and one in now and one not in gone]
        woken = [one for one in known if now[one].beats != judged[one].beats]
        if woken:
            self._log.warning("an owner was held to be lost and lives; its lanes wait until it knows", workers=woken)
            await self._db.clock.sleep(max(now[one].lease_s for one in woken))

    async def _take_over(self, before: Sequence[Lease], epoch: int, judged: Mapping[WorkerId, Worker]) -> None:
        won = [lease.lane for lease in before]
        await raise_fences(self._db, won, epoch)
        self._crash_point("leases.fenced")
        await asyncio.gather(own_sessions(self._db, won, self._me, epoch), own_open_actions(self._db, won, epoch))
        folded, reached = await repair_projections(
            self._db, min(_folded_up_to(lease, judged) for lease in before), lanes=won, epoch=epoch
        )
        if folded:
            self._log.info("sessions brought up to their journal after a crash", sessions=folded)
        self._crash_point("leases.folded")
        kept = await activate_leases(self._db, dict.fromkeys(won, epoch), self._me, watermark=reached)
        if len(kept) < len(won):
            self._log.warning("lanes were claimed by another worker meanwhile", lanes=len(won) - len(kept))
        left_behind = {lease.lane for lease in before if lease.owner is not None}
        await self._carry_on(kept, epoch, left_behind)

    async def give(self, lanes: Collection[LaneId]) -> None:
        """Close `lanes` now; each is released when its sessions have come to rest, in the background."""
        fresh = [lane for lane in lanes if lane not in self._leaving]
        self._ownership.close(fresh)
        self._leaving.update(fresh)
        self._registry.drain_now(set(fresh))
        busy = {runner.session.lane for runner in self._registry.SESSIONS.values()}
        parts = [lane for lane in fresh if lane not in busy], [lane for lane in fresh if lane in busy]
        for part in filter(None, parts):
            task = asyncio.create_task(self._bring_to_rest(part), name=f"giving {len(part)} lanes")
            self._giving.add(task)
            task.add_done_callback(self._giving.discard)

    async def give_all(self) -> None:
        """Give up everything, for the end; returns when it is released or the time for draining is over."""
        await self.give(list(self._ownership.epochs))
        while self._giving:
            await asyncio.gather(*self._giving)

    async def lose(self, lanes: Collection[LaneId]) -> None:
        """Forget `lanes`: their sessions run elsewhere."""
        self._ownership.drop(lanes)
        gone = set(lanes)
        self._dispatcher.drop(gone)
        self._projector.drop(gone)
        await self._registry.abandon(gone)

    async def _bring_to_rest(self, lanes: Collection[LaneId]) -> None:
        gone = set(lanes)
        held = {lane: self._ownership.epoch_of(lane) for lane in lanes}
        try:
            self._dispatcher.close_lanes(gone)
            await self._registry.drain_lanes(gone, grace_s=self._drain_s)
            await self._dispatcher.settled_in(gone)
            await self._projector.flush()
            await release_leases(self._db, held, self._me, watermark=self._projector.watermark)
            self._projector.drop(gone)
            self._log.info("lanes released", lanes=len(lanes))
        except StoreError as error:
            self._log.warning("lanes were not released; they are claimed again", lanes=len(lanes), error=str(error))
        finally:
            self._ownership.drop([lane for lane, epoch in held.items() if self._ownership.epoch_of(lane) == epoch])
            self._leaving.difference_update(lanes)

    async def _carry_on(self, won: Collection[LaneId], epoch: int, left_behind: Collection[LaneId]) -> None:
        """Own the lanes, hand out what was open, then carry on what was running: control comes before the next step.

        What is open is read before the lanes are owned, so that nothing new overtakes it, and once more afterwards:
        what came in between was seen by nobody else.
        """
        ticket = self._dispatcher.ticket()
        waiting = await self._open_actions(won)
        running = [row for row in await list_states_in(self._db, CARRIED_ON) if row.place in won]
        sleeping = [row for row in await list_sleeping(self._db) if row.lane in won]
        running = await self._budgets.take_in(running)
        await self._count_losses([row for row in running if row.place in left_behind], epoch)
        self._ownership.take(won, epoch)
        self._budgets.lanes_taken()
        self._poller.offer(waiting, ticket)
        self._log.info("lanes taken", lanes=len(won), epoch=epoch, open_actions=len(waiting), sessions=len(running))
        for row in sleeping:
            if row.wake_at is not None:
                self._sleeping.add(row.session_id, row.wake_at)
        ticket = self._dispatcher.ticket()
        self._poller.offer(await self._open_actions(won), ticket)
        await asyncio.gather(*[self._carry_on_session(row.session_id) for row in running])

    async def _open_actions(self, lanes: Collection[LaneId]) -> list[Action]:
        found = [action for action in await list_open_actions(self._db) if place_of(action) in lanes]
        await know_answered(self._db, self._recovered, found)
        return found

    async def _count_losses(self, rows: Sequence[AgentState], epoch: int) -> None:
        """Note which steps ran when their worker was lost. One that is always there is the cause: it rests.

        Stored before any of them goes on, since such a step may end this worker at once; and before anything else is
        done with these sessions, since it stores their rows as they were read.
        """
        sessions = [session_of_row(row, owner=self._me, epoch=epoch) for row in rows]
        for session in sessions:
            if session.count_loss() > self._max_losses:
                why = f"{self._max_losses + 1} workers were lost while this step ran; resume to try it again"
                session.last_error = why
                session.enter(SessionStatus.ERROR, why, self._db.clock.now())
                self._log.error("a step is held to be what ends its workers", session_id=session.session_id)
        await upsert_agent_state(self._db, [session.snapshot() for session in sessions])

    async def _carry_on_session(self, session_id: SessionId) -> None:
        """Have a session go on, as its row is now: an action may have opened it, and left it paused, before."""
        registry = self._registry
        async with registry.lane(session_id):
            row = None if session_id in registry.SESSIONS else await registry.row(session_id)
            if row is None or row.status not in CARRIED_ON:
                return
            try:
                runner = await registry.open_row(row)
            except (MonikerInputError, RefusedError, ParkedError) as error:
                self._log.warning("a session was left as it is", session_id=session_id, error=str(error))
                return
            if runner.session.status is SessionStatus.STOPPING:
                runner.request_stop()


def _folded_up_to(lease: Lease, judged: Mapping[WorkerId, Worker]) -> int:
    """Up to which journal version a lane's projections are stored: by its lease, or further by its last owner."""
    if lease.owner is None or lease.status is not LeaseStatus.ACTIVE:
        return lease.watermark
    owner = judged.get(lease.owner)
    return lease.watermark if owner is None else max(lease.watermark, owner.journal_version)
