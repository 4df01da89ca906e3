"""The series of faults: the same for a seed, and of every kind."""

from __future__ import annotations

from itertools import islice

import pytest

from chaos.schedule import WEB_POINTS, WORKER_POINTS, Fault, Kind, faults
from store.crashpoints import crash_at


def series(seed: int, *, workers: int = 1, points: bool = True, without: tuple[Kind, ...] = ()) -> list[Fault]:
    return list(islice(faults(seed, lease_s=3, workers=workers, points=points, without=without), 500))


def test_a_seed_gives_one_series() -> None:
    assert series(1) == series(1)
    assert series(1) != series(2)


def test_every_kind_comes() -> None:
    assert {fault.kind for fault in series(3)} == set(Kind)


def test_what_is_left_out_does_not_come() -> None:
    assert {fault.kind for fault in series(3, without=(Kind.DISK, Kind.STALL))} == set(Kind) - {Kind.DISK, Kind.STALL}


def test_points_can_be_left_out() -> None:
    assert all(fault.crash_at is None and fault.web_crash_at is None for fault in series(3, points=False))


def test_with_several_workers_some_stay_away_for_longer_than_a_lease() -> None:
    assert any(fault.down_s > 3 for fault in series(3, workers=2))
    assert all(fault.down_s < 3 for fault in series(3))


@pytest.mark.parametrize("point", [*WORKER_POINTS, *WEB_POINTS])
def test_points_are_such_as_the_product_takes(point: tuple[str, int]) -> None:
    crash_at(f"{point[0]}:{point[1]}")
