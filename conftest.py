"""How the tests share the workers that `make test` starts; fixtures live in tests/."""

from __future__ import annotations

import gc
import os

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says how busy the machine is. A run that decides about a change repeats itself exactly;
# everybody else's looks at new examples each time.
settings.register_profile(
    "stepwell",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=os.environ.get("CI") == "true",
)
settings.load_profile("stepwell")


def pytest_collection_finish() -> None:
    """What thousands of tests and their libraries brought along stays: looking through it for garbage takes a tenth of
    the time of a run."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All browser tests go to one worker: two Chromiums at a time starve each other on a small machine. What takes long
    begins first, or one worker would wait at the end for a test that the other has just begun."""
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.xdist_group("browser"))
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    if item.get_closest_marker("xdist_group"):
        return 0
    return 1 if item.get_closest_marker("slow") else 2
