"""The breaker against a model of it, on a clock that hypothesis moves."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from runtime.llm.apikey import ApiKey
from runtime.llm.breaker import Breaker, BreakerState, Outcome, Permit
from runtime.llm.port import LlmErrorKind
from runtime.llm.quarantine import LONGEST_REST_S, Quarantine

LIMIT, OPEN_S = 3, 30.0


class Calling(RuleBasedStateMachine):
    """Calls that overlap, end in any order and in any way."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.breaker = Breaker(failures=LIMIT, open_s=OPEN_S)
        self.running: list[Permit] = []
        self.bad_in_a_row = 0
        self.opened_at: float | None = None

    @rule(seconds=st.floats(0, 40))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def begins(self) -> None:
        state = self.breaker.state(self.now)
        permit = self.breaker.enter(self.now)
        if state is BreakerState.CLOSED:
            assert permit is not None
        if state is BreakerState.OPEN:
            assert permit is None
        if permit is not None:
            self.running.append(permit)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), outcome=st.sampled_from(Outcome))
    def ends(self, data: st.DataObject, outcome: Outcome) -> None:
        permit = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        before = self.breaker.state(self.now)
        self.breaker.leave(permit, outcome, self.now)
        after = self.breaker.state(self.now)
        if outcome is Outcome.NEITHER:
            assert after is before
        if before is BreakerState.OPEN:
            assert after is BreakerState.OPEN
        if before is BreakerState.CLOSED and outcome is Outcome.GOOD:
            assert after is BreakerState.CLOSED
        if after is BreakerState.OPEN and before is not BreakerState.OPEN:
            assert outcome is Outcome.BAD
            self.opened_at = self.now

    @invariant()
    def an_open_breaker_opens_after_its_time_and_not_before(self) -> None:
        left = self.breaker.opens_in_s(self.now)
        assert 0 <= left <= OPEN_S + 1e-6  # sums of floats
        if self.opened_at is not None and self.now < self.opened_at + OPEN_S:
            assert self.breaker.state(self.now) is BreakerState.OPEN

    @invariant()
    def half_open_lets_one_in(self) -> None:
        if self.breaker.state(self.now) is BreakerState.HALF_OPEN:
            permit = self.breaker.enter(self.now)
            assert self.breaker.enter(self.now) is None
            if permit is not None:
                self.breaker.leave(permit, Outcome.NEITHER, self.now)


TestCalling = Calling.TestCase


def test_so_many_failures_in_a_row_open_it_and_one_success_closes_it() -> None:
    breaker = Breaker(failures=2, open_s=10)

    def call(outcome: Outcome, now: float) -> BreakerState:
        permit = breaker.enter(now)
        assert permit is not None
        breaker.leave(permit, outcome, now)
        return breaker.state(now)

    assert call(Outcome.BAD, 0) is BreakerState.CLOSED
    assert call(Outcome.GOOD, 0) is BreakerState.CLOSED
    assert call(Outcome.BAD, 0) is BreakerState.CLOSED
    assert call(Outcome.BAD, 0) is BreakerState.OPEN
    assert breaker.enter(9.9) is None
    assert call(Outcome.BAD, 10) is BreakerState.OPEN
    assert breaker.enter(19.9) is None
    assert call(Outcome.NEITHER, 20) is BreakerState.HALF_OPEN
    assert call(Outcome.GOOD, 20) is BreakerState.CLOSED


@pytest.mark.parametrize("outcome", Outcome)
def test_a_call_from_before_the_breaker_opened_changes_nothing(outcome: Outcome) -> None:
    breaker = Breaker(failures=1, open_s=10)
    early, late, bad = breaker.enter(0), breaker.enter(0), breaker.enter(0)
    assert early is not None
    assert late is not None
    assert bad is not None
    breaker.leave(bad, Outcome.BAD, 0)
    breaker.leave(early, outcome, 5)
    assert breaker.state(5) is BreakerState.OPEN
    assert breaker.enter(11) is not None
    breaker.leave(late, outcome, 12)
    assert breaker.state(12) is BreakerState.HALF_OPEN
    assert breaker.enter(12) is None


def test_a_key_rests_at_one_provider_and_for_an_hour_at_most() -> None:
    rest, key = Quarantine(), ApiKey.of("sk-some-key-0123456789")
    assert rest.rest(key, "a", 10, 0, LlmErrorKind.AUTH) == 10
    assert rest.rest(key, "a", 5, 0, LlmErrorKind.AUTH) == 10
    assert (rest.left_s(key, "a", 4), rest.left_s(key, "a", 11), rest.left_s(key, "b", 4)) == (6, 0, 0)
    assert rest.rest(None, "a", 10**9, 0, LlmErrorKind.RATE_LIMIT) == LONGEST_REST_S
    assert (rest.why(None, "a"), rest.why(key, "a"), rest.why(key, "b")) == ("rate_limit", "auth", None)
