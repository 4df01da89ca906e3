"""The exporter: sends stored traces to an OpenTelemetry collector, after they are stored and never in anybody's way.

It follows the table of traces with a place of its own. Invariant: **its place is stored after the collector has taken
what it stands for.** So every trace arrives at least once; one that arrives twice has the same ids. While the
collector does not answer it waits and tries again; nothing else notices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol

from store.clock import Clock
from store.crashpoints import CrashPoint, no_crash
from store.database import TenantStore
from store.errors import StoreError
from store.followers import read_place, save_place
from store.schema import TRACES
from store.traces import traces_of, traces_since
from store.tracing import Trace

NAME: Final = "otel"
_WINDOW: Final = 20
#: spans in a request, unless one trace has more: some MB, where collectors refuse what is over 20
_BATCH_SPANS: Final = 2000
_EVERY_S: Final = 1.0
_FIRST_WAIT_S: Final = 1.0
_LONGEST_WAIT_S: Final = 60.0


class Collector(Protocol):
    """Where traces go."""

    async def send(self, traces: Sequence[Trace]) -> bool:
        """Whether the collector has taken them."""
        ...

    def close(self) -> None:
        """Give up what is under way; nothing is sent afterwards. What was not taken is sent by the next exporter."""
        ...


class TraceExporter:
    """Sends what is stored; one of all workers does."""

    def __init__(
        self,
        db: TenantStore,
        collector: Collector,
        log: Any,
        *,
        may_run: Callable[[], bool],
        epoch: Callable[[], int],
        crash_point: CrashPoint = no_crash,
    ) -> None:
        self._db = db
        self._collector = collector
        self._log = log
        self._may_run = may_run
        self._epoch = epoch
        self._visit = crash_point
        self._clock: Clock = db.clock
        self._wait_s = 0.0

    async def run(self) -> None:
        """Send until cancelled; the collector is closed then."""
        try:
            while True:
                await self._send_all()
                await self._clock.sleep(max(_EVERY_S, self._wait_s))
        finally:
            self._collector.close()

    async def _send_all(self) -> None:
        try:
            while self._may_run() and await self.send_next():
                pass
        except StoreError as error:
            self._log.warning("traces cannot be read for export; trying again", error=str(error))

    async def send_next(self) -> bool:
        """Send the traces of the next commits; False when there are none, or they were not taken."""
        since = (await read_place(self._db, NAME)).get(TRACES.name, 0)
        newest = await traces_of(self._db).version()
        since = 0 if since > newest else since
        if since == newest:
            return False
        rows = await traces_since(self._db, since, limit_versions=_WINDOW)
        for batch in _batches([row.item for row in rows]):
            if not await self._taken(batch):
                return False
        self._visit("otel.before_place")
        await save_place(self._db, NAME, {TRACES.name: min(newest, since + _WINDOW)}, epoch=self._epoch())
        return True

    async def _taken(self, traces: Sequence[Trace]) -> bool:
        if await self._collector.send(traces):
            self._wait_s = 0.0
            return True
        self._wait_s = min(_LONGEST_WAIT_S, max(_FIRST_WAIT_S, self._wait_s * 2))
        self._log.warning("the collector did not take traces; they are sent again", in_s=self._wait_s)
        return False


def _batches(traces: Sequence[Trace]) -> Iterator[list[Trace]]:
    batch: list[Trace] = []
    spans = 0
    for trace in traces:
        spans += len(trace.spans)
        if batch and spans > _BATCH_SPANS:
            yield batch
            batch, spans = [], len(trace.spans)
        batch.append(trace)
    if batch:
        yield batch
