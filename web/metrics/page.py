"""`/metrics`: what an operator needs to know, in Prometheus' text format.

Every scrape within a second gets the same answer, so that no number of scrapers costs more than one. Labels are words
of closed sets, ids of workers, names of tables and some plain ids of agents; never a text of a user.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from store import TenantStore
from store.gauges import Gauges, SlowGauges, read_gauges, read_slow_gauges
from web.metrics.totals import Totals

PATH: Final = "/metrics"
CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
FRESH_S: Final = 1.0
SLOW_FRESH_S: Final = 15.0


class MetricsPage:
    """The page, from memory while it is fresh. Used on the store's loop only."""

    def __init__(self, db: TenantStore, clients: Callable[[], int]) -> None:
        self._db = db
        self._clients = clients
        self._totals = Totals(db)
        self._reading = asyncio.Lock()
        self._text = b""
        self._read_at: float | None = None
        self._slow: SlowGauges | None = None
        self._slow_at = 0.0
        self._steps: tuple[float, int] | None = None
        self._steps_per_s = 0.0

    async def text(self) -> bytes:
        """The page as it is sent, at most a second old."""
        async with self._reading:
            now = self._db.clock.monotonic()
            if self._read_at is None or now - self._read_at >= FRESH_S:
                self._text = await self._read(now)
                self._read_at = now
        return self._text

    async def _read(self, now: float) -> bytes:
        await self._totals.refresh()
        gauges = await read_gauges(self._db)
        if self._slow is None or now - self._slow_at >= SLOW_FRESH_S:
            self._slow, self._slow_at = await read_slow_gauges(self._db), now
        self._count_steps(now, gauges.steps)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Once([*self._of_gauges(gauges), *_of_slow(self._slow), *_of_totals(self._totals)]))
        return generate_latest(registry)

    def _count_steps(self, now: float, steps: int) -> None:
        if self._steps is not None:
            before, earlier = self._steps
            self._steps_per_s = max(0.0, (steps - earlier) / (now - before))
        self._steps = (now, steps)

    def _of_gauges(self, gauges: Gauges) -> Iterator[Metric]:
        now = self._db.clock.now()
        actions = GaugeMetricFamily(
            "stepwell_actions",
            "Actions in the queue, also those that have ended and are kept.",
            labels=["kind", "status"],
        )
        for (kind, status), count in sorted(gauges.actions.items()):
            actions.add_metric([kind, status], count)
        yield actions
        age = 0.0 if gauges.oldest_open is None else max(0.0, (now - gauges.oldest_open).total_seconds())
        yield GaugeMetricFamily(
            "stepwell_oldest_open_action_seconds",
            "Age of the oldest action that has not ended; 0 without one.",
            value=age,
        )
        sessions = GaugeMetricFamily("stepwell_sessions", "Sessions.", labels=["status"])
        for word, number in gauges.sessions.items():
            sessions.add_metric([word.value], number)
        yield sessions
        yield CounterMetricFamily("stepwell_steps", "Steps that sessions have taken.", value=gauges.steps)
        yield GaugeMetricFamily(
            "stepwell_steps_per_second", "Steps a second between the last two readings.", value=self._steps_per_s
        )
        alive = [worker for worker in gauges.workers if worker.alive(now)]
        yield GaugeMetricFamily("stepwell_workers_alive", "Workers that were heard of lately.", value=len(alive))
        beats = GaugeMetricFamily(
            "stepwell_worker_heartbeat_age_seconds", "Since a worker that is alive was heard of.", labels=["worker"]
        )
        for worker in alive:
            beats.add_metric([worker.worker_id], max(0.0, (now - worker.heartbeat_at).total_seconds()))
        yield beats
        leases = GaugeMetricFamily("stepwell_leases", "Lanes, by the state of their lease.", labels=["status"])
        for state, held in gauges.leases.items():
            leases.add_metric([state.value], held)
        yield leases
        yield GaugeMetricFamily(
            "stepwell_web_clients", "Open pages and programs that follow this process live.", value=self._clients()
        )


class _Once:
    """Gives out metrics that were read already."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        return self._metrics


def _of_slow(slow: SlowGauges) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "stepwell_approvals_open",
        "Questions that wait for a person; a thousand at most are counted.",
        value=slow.approvals,
    )
    commits = CounterMetricFamily("stepwell_table_commits", "Commits to a table.", labels=["table"])
    fragments = GaugeMetricFamily(
        "stepwell_table_fragments", "Data files of a table's newest version.", labels=["table"]
    )
    for name, (version, files) in slow.tables.items():
        commits.add_metric([name], version)
        fragments.add_metric([name], files)
    yield from (commits, fragments)


def _of_totals(totals: Totals) -> Iterator[Metric]:
    turns = CounterMetricFamily("stepwell_turns", "Turns that have ended.", labels=["agent", "status"])
    calls = CounterMetricFamily("stepwell_model_calls", "Model calls of ended turns.", labels=["agent"])
    tokens = CounterMetricFamily("stepwell_tokens", "Tokens of ended turns.", labels=["agent", "direction"])
    cost = CounterMetricFamily("stepwell_cost", "What ended turns cost, in the prices' currency.", labels=["agent"])
    for agent, used in sorted(totals.agents.items()):
        for status, count in sorted(used.turns.items()):
            turns.add_metric([agent, status], count)
        calls.add_metric([agent], used.calls)
        tokens.add_metric([agent, "input"], used.input_tokens)
        tokens.add_metric([agent, "output"], used.output_tokens)
        cost.add_metric([agent], used.cost)
    yield from (turns, calls, tokens, cost)
    durations = HistogramMetricFamily(
        "stepwell_turn_duration_seconds", "From the moment that a turn was asked for to its end.", labels=["kind"]
    )
    for kind, histogram in sorted(totals.durations.items()):
        durations.add_metric([kind], histogram.buckets(), histogram.total)
    yield durations
    waits = HistogramMetricFamily(
        "stepwell_action_wait_seconds", "From the moment that a turn was due to its first step."
    )
    waits.add_metric([], totals.waits.buckets(), totals.waits.total)
    yield waits
