"""Time and ids: ids rise whatever the clock does; the fakes move only when told."""

from __future__ import annotations

import asyncio
from datetime import UTC, timedelta

import pytest

from store import clock as clocks
from store.clock import SystemChance, SystemClock, SystemIds
from store.testing import START, CountingIds, FrozenClock, TickingClock


def test_ids_rise_strictly() -> None:
    ids = SystemIds()
    made = [ids.new() for _ in range(5000)]

    assert made == sorted(set(made))


def test_ids_rise_when_the_clock_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = SystemIds()
    with monkeypatch.context() as patched:
        patched.setattr(clocks, "ULID", FromThePast)
        made = [ids.new() for _ in range(50)]

    assert made == sorted(set(made))


class FromThePast:
    """Stands in for ULID: every new one is older than the one before."""

    _values = iter(range(10_000, 0, -1))

    def __int__(self) -> int:
        return next(self._values)

    @staticmethod
    def from_int(value: int) -> str:
        return f"{value:026d}"


def test_two_sources_do_not_give_the_same_ids() -> None:
    one, other = SystemIds(), SystemIds()

    assert not {one.new() for _ in range(100)} & {other.new() for _ in range(100)}


async def test_the_system_clock_is_in_utc_and_does_not_go_back() -> None:
    clock = SystemClock()
    before = clock.monotonic()

    await clock.sleep(0)

    assert clock.now().tzinfo is UTC
    assert clock.monotonic() >= before


def test_chance_stays_within_its_bounds() -> None:
    assert all(1.0 <= SystemChance().uniform(1.0, 2.0) <= 2.0 for _ in range(20))


def test_the_frozen_clock_stands_still_until_it_is_moved() -> None:
    clock = FrozenClock()
    assert (clock.now(), clock.monotonic()) == (START, 0.0)

    clock.advance(1.5)

    assert (clock.now(), clock.monotonic()) == (START + timedelta(seconds=1.5), 1.5)


async def test_a_sleeper_on_the_frozen_clock_wakes_at_its_moment() -> None:
    clock = FrozenClock()
    sleepers = [asyncio.create_task(clock.sleep(seconds)) for seconds in (2, 1)]
    await asyncio.sleep(0)
    assert clock.sleepers == 2

    clock.advance(1)
    await sleepers[1]
    assert not sleepers[0].done()

    clock.advance(1)
    await sleepers[0]


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = FrozenClock()
    sleeper = asyncio.create_task(clock.sleep(1))
    await asyncio.sleep(0)

    sleeper.cancel()
    await asyncio.wait([sleeper])
    clock.advance(1)

    assert clock.sleepers == 0


def test_the_ticking_clock_never_gives_a_time_twice() -> None:
    clock = TickingClock()
    times = [clock.now() for _ in range(5)]

    assert times == sorted(set(times))


def test_counting_ids_can_be_foretold() -> None:
    ids = CountingIds("a")

    assert [ids.new(), ids.new()] == ["a000001", "a000002"]
