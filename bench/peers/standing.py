"""What the answers come to: medians over the rounds, and how many times better Stepwell is than each peer."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.peers.work import Figure

#: figures of which more is better; of the others less is
_MORE_IS_BETTER = frozenset({Figure.STEPS, Figure.ACTIONS})

TITLES = {
    Figure.STEPS: "stored steps a second",
    Figure.ACTIONS: "actions done a second, across processes",
    Figure.START: "enqueue to start across processes, p50 ms",
    Figure.DISK: "bytes on disk, state grows by a piece a step",
    Figure.HISTORY: "newest 20 steps, p50 ms",
}

#: how many times better Stepwell wants to be, by the beginning of a contender's name
AIMS: Mapping[Figure, Mapping[str, float]] = {
    Figure.STEPS: {"DBOS": 10, "LangGraph": 10},
    Figure.ACTIONS: {"DBOS": 10, "huey, fsync": 1},
    Figure.START: {"DBOS": 1, "huey": 1},
    Figure.DISK: {"LangGraph": 20},
    Figure.HISTORY: {"DBOS": 1, "LangGraph": 1},
}


@dataclass(frozen=True, slots=True)
class Standing:
    """One contender's figure beside Stepwell's."""

    contender: str
    median: float
    lowest: float
    highest: float
    #: how many times better Stepwell is: the median of the rounds' own ratios
    ratio: float
    aim: float | None

    @property
    def reached(self) -> bool | None:
        """Whether the aim is reached; None where there is none."""
        return None if self.aim is None else self.ratio >= self.aim


def standings(figure: Figure, ours: str, values: Mapping[str, Sequence[float]]) -> list[Standing]:
    """`values` has one number a round for every contender, of the same rounds in the same order."""
    return [_standing(figure, name, values[name], values[ours]) for name in values]


def _standing(figure: Figure, name: str, theirs: Sequence[float], ours: Sequence[float]) -> Standing:
    ratios = [_times_better(figure, mine, other) for mine, other in zip(ours, theirs, strict=True)]
    aim = next((aim for start, aim in AIMS[figure].items() if name.startswith(start)), None)
    return Standing(name, statistics.median(theirs), min(theirs), max(theirs), statistics.median(ratios), aim)


def _times_better(figure: Figure, ours: float, theirs: float) -> float:
    return ours / theirs if figure in _MORE_IS_BETTER else theirs / ours
