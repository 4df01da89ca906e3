"""Which fault comes next: an endless series that depends on the seed alone."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

#: where a process may be killed, with the last visit that is worth trying
WORKER_POINTS: tuple[tuple[str, int], ...] = (
    ("agent_steps.before_commit", 30),
    ("agent_steps.after_commit", 30),
    ("records.before_commit", 60),
    ("records.after_commit", 60),
    ("queue.before_commit", 8),
    ("queue.after_commit", 8),
    ("agent_state.before_commit", 10),
    ("agent_state.after_commit", 10),
    ("agents.before_commit", 1),
    ("agents.after_commit", 1),
    ("conversation_messages.before_commit", 6),
    ("conversation_messages.after_commit", 6),
    ("conversation_participants.before_commit", 2),
    ("conversation_participants.after_commit", 2),
    ("projector.before_flush", 12),
    ("projector.between_projections", 12),
    ("projector.after_flush", 12),
    ("workers.before_commit", 4),
    ("workers.after_commit", 4),
    ("leases.before_commit", 3),
    ("leases.after_commit", 3),
    ("leases.claimed", 2),
    ("leases.fenced", 2),
    ("leases.folded", 2),
    ("upkeep.before_compact", 6),
    ("upkeep.after_compact", 6),
)
WEB_POINTS: tuple[tuple[str, int], ...] = (
    ("queue.before_commit", 12),
    ("queue.after_commit", 12),
    ("conversation_messages.before_commit", 3),
    ("conversation_messages.after_commit", 3),
    ("conversations.before_commit", 2),
    ("conversations.after_commit", 2),
)


class Kind(StrEnum):
    """What to do."""

    KILL_WORKER = "kill a worker"
    KILL_WEB = "kill the web process"
    KILL_ALL = "kill everything"
    STALL = "stall a worker"
    RESTART = "restart a worker in order"
    CLOCK = "set a worker's clock wrong for a while"
    LITTER = "leave litter beside the manifests"
    DISK = "fill the disk"


_ODDS = {
    Kind.KILL_WORKER: 62,
    Kind.KILL_WEB: 16,
    Kind.KILL_ALL: 3,
    Kind.STALL: 4,
    Kind.RESTART: 4,
    Kind.CLOCK: 4,
    Kind.LITTER: 5,
    Kind.DISK: 2,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. `turn` picks the worker; the next life of whoever dies has `crash_at`, if that is given."""

    kind: Kind
    turn: int
    down_s: float
    crash_at: str | None
    web_crash_at: str | None
    forward: bool


def faults(seed: int, *, lease_s: float, workers: int, points: bool, without: Sequence[Kind] = ()) -> Iterator[Fault]:
    """The series. With several workers a dead one sometimes stays away for longer than its lease."""
    chance = random.Random(seed)
    odds = {kind: odd for kind, odd in _ODDS.items() if kind not in without}
    while True:
        away = workers > 1 and chance.random() < 0.3
        yield Fault(
            kind=chance.choices(list(odds), list(odds.values()))[0],
            turn=chance.randrange(1_000_000),
            down_s=lease_s + chance.uniform(0.5, 2) if away else chance.uniform(0, 0.5),
            crash_at=_point(chance, WORKER_POINTS) if points and chance.random() < 0.5 else None,
            web_crash_at=_point(chance, WEB_POINTS) if points and chance.random() < 0.5 else None,
            forward=chance.random() < 0.5,
        )


def _point(chance: random.Random, points: Sequence[tuple[str, int]]) -> str:
    name, last = chance.choice(points)
    return f"{name}:{chance.randint(1, last)}"
