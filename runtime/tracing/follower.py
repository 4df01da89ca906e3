"""The follower: writes a row for each turn that has ended, far from the hot path.

    queue ── an input ended, a create failed ─┐
    journal ── a step after which it waits ───┼─▶ candidates ─▶ what they are made from ─▶ traces ─▶ my place
    sessions ── one ended ────────────────────┘

Invariant: **its place is stored after the rows that it stands for, and a row is stored in place of an earlier one of
the same turn.** So a crash anywhere repeats some turns and neither loses nor doubles one. Of two followers (the
housekeeping lane has moved) the later one wins: rows and places carry its epoch.

Flat out it falls behind: it works a fifth of the time at most, in windows of some commits, and catches up later.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeVar

from store import filters
from store.actions import CREATING_KINDS, Action, ActionKind, ActionStatus, queue_of
from store.agent_state import FINAL_STATUSES, states_of
from store.agent_steps import StepStatus, journal_of, shown_steps
from store.clock import Clock
from store.crashpoints import CrashPoint, no_crash
from store.database import TenantStore
from store.errors import StoreError
from store.followers import read_place, save_place
from store.schema import AGENT_STATE, AGENT_STEPS, QUEUE
from store.spans import Redact
from store.tracereads import StretchEnd, end_of_session, end_of_step, told_of_creates, told_of_stretches, told_of_turns
from store.traces import save_traces
from store.tracing import Told, trace_of

T = TypeVar("T")

NAME: Final = "traces"
_AFTER_FAILURE_S: Final = 1.0
#: the share of its time that it works: one part of five
_REST_FACTOR: Final = 4.0
#: a place is stored without rows when it has moved on by so many commits
_FAR: Final = 2000


@dataclass(frozen=True, slots=True)
class FollowerRules:
    """How much it does at a time."""

    every_s: float = 1.0
    #: commits of a table that are looked at in one turn
    window: int = 200
    #: turns that are made and stored together: a long turn has 500 steps
    batch: int = 20


@dataclass(frozen=True, slots=True)
class _Ended:
    """What has ended in a window."""

    inputs: Sequence[Action]
    creates: Sequence[Action]
    stretches: Sequence[StretchEnd]


def plain_text(text: str) -> str:
    """Takes nothing out."""
    return text


class TraceFollower:
    """Writes traces for a whole store; one of all workers does."""

    def __init__(
        self,
        db: TenantStore,
        log: Any,
        *,
        may_run: Callable[[], bool],
        epoch: Callable[[], int],
        redact: Redact = plain_text,
        crash_point: CrashPoint = no_crash,
        rules: FollowerRules | None = None,
    ) -> None:
        self._db = db
        self._log = log
        self._may_run = may_run
        self._epoch = epoch
        self._redact = redact
        self._visit = crash_point
        self._rules = rules or FollowerRules()
        self._clock: Clock = db.clock
        #: where it stands; None while it has not looked, or is not the one who does it
        self._place: dict[str, int] | None = None
        self._stored: dict[str, int] = {}

    async def run(self) -> None:
        """Follow until cancelled. A store that does not answer is asked again."""
        while True:
            try:
                await self.catch_up()
            except StoreError as error:
                self._place = None
                self._log.warning("traces cannot be written; trying again", error=str(error))
                await self._clock.sleep(_AFTER_FAILURE_S)
            await self._clock.sleep(self._rules.every_s)

    async def catch_up(self) -> int:
        """Write the traces of all that had ended when it began; returns how many. It ends early when another worker
        does it."""
        written = 0
        while self._may_run():
            newest = await self._newest()
            window = await self._window(newest)
            if window is None:
                return written
            written += await self._turn(window)
            # What was committed meanwhile has time: a look costs the same for one step as for those of a second.
            if all(upto == newest[name] for name, (_, upto) in window.items()):
                return written
        self._place = None
        return written

    async def _turn(self, window: Mapping[str, tuple[int, int]]) -> int:
        """One window: what ended in it becomes rows, then the place moves on."""
        written = await self._write(await self._look(window))
        self._place = {name: upto for name, (_, upto) in window.items()}
        far = any(upto - self._stored.get(name, 0) > _FAR for name, upto in self._place.items())
        if written or far:
            self._visit("traces.before_place")
            await save_place(self._db, NAME, self._place, epoch=self._epoch())
            self._visit("traces.after_place")
            self._stored = self._place
        return written

    async def _newest(self) -> dict[str, int]:
        return {
            QUEUE.name: await queue_of(self._db).version(),
            AGENT_STEPS.name: await journal_of(self._db).version(),
            AGENT_STATE.name: await states_of(self._db).version(),
        }

    async def _window(self, newest: Mapping[str, int]) -> dict[str, tuple[int, int]] | None:
        """From where to where each table is looked at next; None when nothing is new."""
        if self._place is None:
            self._place = self._stored = await read_place(self._db, NAME)
        window = {}
        for name, version in newest.items():
            since = self._place.get(name, 0)
            since = 0 if since > version else since  # another store stands in the old one's place: everything again
            window[name] = (since, min(version, since + self._rules.window))
        return window if any(since < upto for since, upto in window.values()) else None

    async def _look(self, window: Mapping[str, tuple[int, int]]) -> _Ended:
        actions = await self._actions(*window[QUEUE.name])
        ends = await self._ends_by_step(*window[AGENT_STEPS.name])
        ends += await self._ends_of_sessions(*window[AGENT_STATE.name])
        inputs = [action for action in actions if action.kind is ActionKind.INPUT]
        return _Ended(inputs, [action for action in actions if action.kind in CREATING_KINDS], ends)

    async def _actions(self, since: int, upto: int) -> list[Action]:
        """The inputs that ended, and the creates that failed."""
        if since >= upto:
            return []
        failed = filters.one_of("status", (ActionStatus.FAILED, ActionStatus.DEAD))
        rows = await queue_of(self._db).changed_since(
            since,
            filters.at_most(filters.UPDATED_VERSION, upto),
            filters.equals("processed", True),
            filters.either(filters.equals("kind", ActionKind.INPUT), filters.one_of("kind", CREATING_KINDS) & failed),
        )
        return [row.item for row in rows]

    async def _ends_by_step(self, since: int, upto: int) -> list[StretchEnd]:
        if since >= upto:
            return []
        rows = await journal_of(self._db).created_since(
            since,
            filters.at_most(filters.CREATED_VERSION, upto),
            filters.differs("status", StepStatus.RUNNING),
            columns=["id", "created_at", "session_id", "iteration", "status", "guidance", "error", "lane", "epoch"],
        )
        ends = [end_of_step(row.item) for row in await shown_steps(self._db, rows)]
        return [end for end in ends if end is not None]

    async def _ends_of_sessions(self, since: int, upto: int) -> list[StretchEnd]:
        if since >= upto:
            return []
        rows = await states_of(self._db).changed_since(
            since,
            filters.at_most(filters.UPDATED_VERSION, upto),
            filters.one_of("status", FINAL_STATUSES),
            columns=["session_id", "iteration", "status", "reason", "updated_at"],
        )
        ends = [end_of_session(row.item) for row in rows]
        return [end for end in ends if end is not None]

    async def _write(self, ended: _Ended) -> int:
        written = 0
        for creates in _batches(ended.creates, self._rules.batch):
            written += await self._paced(told_of_creates(self._db, creates))
        for inputs in _batches(ended.inputs, self._rules.batch):
            written += await self._paced(told_of_turns(self._db, inputs))
        for ends in _batches(ended.stretches, self._rules.batch):
            written += await self._paced(told_of_stretches(self._db, ends))
        return written

    async def _paced(self, reading: Awaitable[list[Told]]) -> int:
        """Read, make and store some traces, then rest: the worker's sessions come first."""
        began = self._clock.monotonic()
        now = self._clock.now()
        traces = []
        for one in await reading:
            traces.append(trace_of(one, now, self._redact))
            await self._clock.sleep(0)
        if traces:
            self._visit("traces.before_rows")
            await save_traces(self._db, traces, epoch=self._epoch())
            self._visit("traces.after_rows")
        await self._clock.sleep(_REST_FACTOR * (self._clock.monotonic() - began))
        return len(traces)


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
