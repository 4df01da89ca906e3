"""How a run's last minute is compared with its first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.endurance import Minute, compare, slope

FIRST = Minute(
    number=1,
    steps_per_s=600.0,
    inputs=300,
    first_step_p50=20.0,
    first_step_p99=80.0,
    event_p50=15.0,
    history_p50=10.0,
    worker_mb=150.0,
    web_mb=120.0,
    worker_cpu=0.3,
    web_cpu=0.1,
    files=500,
    disk_mb=10.0,
    steps=36_000,
)


def test_the_last_minute_is_compared_with_the_first() -> None:
    last = replace(FIRST, steps_per_s=540.0, first_step_p50=30.0, history_p50=9.0, disk_mb=20.0, steps=40_000)
    found = compare([FIRST, FIRST, last])
    assert (found["steps_last_to_first"], found["first_step_p50_last_to_first"]) == (0.9, 1.5)
    assert (found["history_p50_last_to_first"], found["bytes_a_step"]) == (0.9, 500)


def test_memory_of_the_first_minute_does_not_count_as_growth() -> None:
    minutes = [replace(FIRST, worker_mb=size) for size in (100.0, 160.0, 161.0, 162.0)]
    assert compare(minutes)["worker_mb_a_minute"] == 1.0


def test_a_figure_that_was_never_measured_has_no_ratio() -> None:
    silent = replace(FIRST, first_step_p50=None)
    assert compare([silent, FIRST])["first_step_p50_last_to_first"] is None


@pytest.mark.parametrize(("values", "rise"), [([], 0.0), ([5.0], 0.0), ([1.0, 3.0, 5.0], 2.0), ([4.0, 4.0], 0.0)])
def test_the_slope_is_the_rise_from_one_to_the_next(values: list[float], rise: float) -> None:
    assert slope(values) == pytest.approx(rise)
