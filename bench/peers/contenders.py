"""Who is timed: Stepwell in its variants, and the peers in theirs, each a program of its own environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from bench.peers.work import Answer, Figure, Work, as_argument

ROOT = Path(__file__).resolve().parents[2]
PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
_DEADLINE_S = 1800.0


class ContenderError(Exception):
    """A contender did not answer; the text says which and what it printed last."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One system in one variant."""

    name: str
    module: str
    python: str
    figures: frozenset[Figure]
    #: the variant, as environment variables that its module reads
    variant: Mapping[str, str] = field(default_factory=dict)

    def answer(self, figure: Figure, work: Work) -> Answer:
        """Let it do the work in processes of its own; raises `ContenderError`."""
        command = [self.python, "-m", f"bench.peers.{self.module}", figure.value, as_argument(work)]
        environment = {**os.environ, **self.variant}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=_DEADLINE_S, check=False
        )
        if done.returncode != 0:
            raise ContenderError(f"{self.name} could not do {figure.value!r}: {done.stderr.strip()[-2000:]}")
        answer: Answer = orjson.loads(done.stdout.strip().splitlines()[-1])
        return answer


_OURS = frozenset(Figure)
_DBOS = frozenset(Figure)
_LANGGRAPH = frozenset({Figure.STEPS, Figure.DISK, Figure.HISTORY})
_HUEY = frozenset({Figure.ACTIONS, Figure.START})
_QUEUED = frozenset({Figure.ACTIONS, Figure.START})

_PEERS = str(PEERS_PYTHON)

OURS = Contender("Stepwell", "ours", sys.executable, _OURS, {"BENCH_STEPWELL_ACTION": "create"})

CONTENDERS = (
    OURS,
    Contender("Stepwell, inputs", "ours", sys.executable, _QUEUED, {"BENCH_STEPWELL_ACTION": "input"}),
    Contender(
        "Stepwell, each session for the first time",
        "ours",
        sys.executable,
        frozenset({Figure.HISTORY}),
        {"BENCH_STEPWELL_HISTORY": "first"},
    ),
    Contender("DBOS, WAL, poll 0.1 s", "dbos_side", _PEERS, _DBOS, {"BENCH_DBOS_WAL": "1", "BENCH_DBOS_POLL_S": "0.1"}),
    Contender(
        "DBOS as it comes",
        "dbos_side",
        _PEERS,
        frozenset({Figure.STEPS, Figure.ACTIONS, Figure.START}),
        {"BENCH_DBOS_WAL": "0", "BENCH_DBOS_POLL_S": "1.0"},
    ),
    Contender(
        "DBOS, WAL, threads",
        "dbos_side",
        _PEERS,
        frozenset({Figure.STEPS}),
        {"BENCH_DBOS_WAL": "1", "BENCH_DBOS_THREADS": "1"},
    ),
    Contender("LangGraph, sync", "langgraph_side", _PEERS, _LANGGRAPH, {"BENCH_LANGGRAPH_DURABILITY": "sync"}),
    Contender(
        "LangGraph, async",
        "langgraph_side",
        _PEERS,
        frozenset({Figure.STEPS}),
        {"BENCH_LANGGRAPH_DURABILITY": "async"},
    ),
    Contender(
        "LangGraph, sync, one at a time",
        "langgraph_side",
        _PEERS,
        frozenset({Figure.STEPS}),
        {"BENCH_LANGGRAPH_DURABILITY": "sync", "BENCH_LANGGRAPH_THREADS": "1"},
    ),
    Contender(
        "LangGraph, async, one at a time",
        "langgraph_side",
        _PEERS,
        frozenset({Figure.STEPS}),
        {"BENCH_LANGGRAPH_DURABILITY": "async", "BENCH_LANGGRAPH_THREADS": "1"},
    ),
    Contender("huey as it comes", "huey_side", _PEERS, _HUEY, {"BENCH_HUEY_FSYNC": ""}),
    Contender("huey, fsync", "huey_side", _PEERS, _HUEY, {"BENCH_HUEY_FSYNC": "1"}),
    Contender("huey, no fsync", "huey_side", _PEERS, _HUEY, {"BENCH_HUEY_FSYNC": "0"}),
)
