from __future__ import annotations

from runtime.testing import FakeClock
from runtime.worktime import WorkTime
from tests.runtime.sessions import fresh


def test_work_is_what_is_stored_and_what_came_since() -> None:
    session, clock = fresh(), FakeClock()
    session.usage = {"runtime_s": 10.0}
    time = WorkTime(session, clock)
    clock.advance(3)
    assert time.seconds() == 13
    session.usage = {"runtime_s": 13.0}
    time.begin_again()
    clock.advance(1)
    assert time.seconds() == 14


def test_waiting_for_a_slot_is_no_work() -> None:
    clock = FakeClock()
    time = WorkTime(fresh(), clock)
    clock.advance(2)
    time.stand_still()
    clock.advance(50)
    time.stand_still()
    clock.advance(50)
    assert (time.seconds(), time.is_idle) == (2, True)
    time.go_on()
    clock.advance(1)
    time.go_on()
    assert (time.seconds(), time.is_idle) == (3, False)


def test_what_is_left_is_never_below_nothing() -> None:
    clock = FakeClock()
    time = WorkTime(fresh(max_runtime_s=5), clock)
    clock.advance(4)
    assert time.left() == 1
    clock.advance(4)
    assert time.left() == 0


def test_without_a_limit_there_is_no_end() -> None:
    time = WorkTime(fresh(), FakeClock())
    time.ring()
    assert time.left() is None


def test_when_the_timer_rang_nothing_is_left_whatever_the_clock_says() -> None:
    time = WorkTime(fresh(max_runtime_s=5), FakeClock())
    time.ring()
    assert time.left() == 0
