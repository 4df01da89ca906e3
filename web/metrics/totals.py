"""Counters: what turns have used and how long they took, from the rows of traces that were stored since this process
began to look.

They begin at 0 with the process, as Prometheus expects of counters, so nothing has to be read that is older.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Final

from store import TenantStore
from store.changes import Feed
from store.traces import FIGURE_COLUMNS, traces_of
from store.tracing import Trace

#: seconds
BUCKETS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
#: agents that have a label of their own: those that were seen first
MAX_AGENTS: Final = 50
OTHER: Final = "other"
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}", re.ASCII)


@dataclass(slots=True)
class Used:
    """What the turns of one agent used."""

    turns: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0


@dataclass(slots=True)
class Histogram:
    """How many observations were at most so large."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    total: float = 0.0

    def observe(self, ms: float | None) -> None:
        """Count a time in milliseconds, if it is known."""
        if ms is not None:
            self.total += ms / 1000
            self.counts[bisect_left(BUCKETS, ms / 1000)] += 1

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative, as Prometheus has them."""
        found, so_far = [], 0
        for limit, count in zip([*map(str, BUCKETS), "+Inf"], self.counts, strict=True):
            so_far += count
            found.append((limit, float(so_far)))
        return found


class Totals:
    """What has come to be since this process began to look. Used on the store's loop only."""

    def __init__(self, db: TenantStore) -> None:
        self._feed: Feed[Trace] = Feed(traces_of(db), "created", 0)
        self._began = False
        self.agents: defaultdict[str, Used] = defaultdict(Used)
        self.durations: defaultdict[str, Histogram] = defaultdict(Histogram)
        self.waits = Histogram()

    async def refresh(self) -> None:
        """Take in the traces stored since the last look."""
        if not self._began:
            await self._feed.skip()
            self._began = True
        for row in await self._feed.poll(columns=FIGURE_COLUMNS):
            self._take(row.item)

    def _take(self, trace: Trace) -> None:
        used = self.agents[self._label(trace.agent_id)]
        used.turns[trace.status.value] += 1
        used.calls += trace.calls
        used.input_tokens += trace.input_tokens
        used.output_tokens += trace.output_tokens
        used.cost += trace.cost or 0.0
        self.durations[trace.kind.value].observe(trace.duration_ms)
        self.waits.observe(trace.wait_ms)

    def _label(self, agent_id: str | None) -> str:
        """An agent's label. People choose these ids: one that is no plain name, or one too many, is another."""
        if agent_id is None or not _PLAIN.fullmatch(agent_id):
            return OTHER
        return agent_id if agent_id in self.agents or len(self.agents) < MAX_AGENTS else OTHER
