"""The token bucket's laws, on a clock that hypothesis moves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from runtime.llm.bucket import TokenBucket

RATE_A_MINUTE = 60.0


class Asking(RuleBasedStateMachine):
    """One caller after another takes from a bucket when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.bucket = TokenBucket(RATE_A_MINUTE, self.now)
        self.used: list[tuple[float, float]] = []

    @rule(seconds=st.floats(0, 100))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(amount=st.floats(0.5, 50))
    def takes(self, amount: float) -> None:
        wait = self.bucket.take(amount, self.now)
        assert wait >= 0
        self.now += wait
        assert self.bucket.wait_s(0, self.now) * RATE_A_MINUTE / 60 <= amount + 1e-6
        self.used.append((self.now, amount))

    @rule(seconds=st.floats(0, 10))
    def a_clock_that_goes_back_gives_nothing(self, seconds: float) -> None:
        before = self.bucket.wait_s(self.bucket.burst, self.now)
        assert self.bucket.wait_s(self.bucket.burst, self.now - seconds) >= before - 1e-9

    @invariant()
    def no_window_holds_more_than_the_burst_and_what_flowed_in(self) -> None:
        for place, (begin, _) in enumerate(self.used):
            window = self.used[place:]
            total = sum(amount for _, amount in window[:-1])  # the last may be larger than the burst
            assert total <= self.bucket.burst + (window[-1][0] - begin) * RATE_A_MINUTE / 60 + window[0][1] + 1e-6


TestAsking = Asking.TestCase


@given(st.integers(1, 10**9), st.floats(0, 10**7), st.floats(0, 10**9))
def test_whoever_waits_as_long_as_told_may_take(per_minute: int, amount: float, start: float) -> None:
    bucket = TokenBucket(per_minute, start)
    bucket.take(amount, start)
    now = start + bucket.wait_s(amount, start) + 1e-6 * (1 + start)
    assert bucket.wait_s(amount, now) <= 1e-3


def test_what_was_guessed_too_high_comes_back_and_too_low_is_owed() -> None:
    bucket = TokenBucket(60, 0)
    assert bucket.take(10, 0) == 0
    bucket.give_back(4, 0)
    assert bucket.wait_s(4, 0) == 0
    bucket.give_back(-10, 0)
    assert bucket.wait_s(4, 0) == 10
    bucket.give_back(1_000, 0)
    assert bucket.wait_s(11, 0) == 0
    assert bucket.take(1_000, 0) == 0
    assert bucket.wait_s(1, 0) == 991
