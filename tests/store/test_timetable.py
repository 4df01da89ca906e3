from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.timetable import MAX_EVERY_S, BadRuleError, Rule, next_moment, rule_of, upcoming

BERLIN = "Europe/Berlin"
MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1)).map(lambda moment: moment.replace(tzinfo=UTC))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def after(cron: str, moment: datetime, zone: str = "UTC") -> datetime:
    return next_moment(Rule(cron=cron), zone, after=moment, last=moment)


@pytest.mark.parametrize(
    ("cron", "zone", "moment", "expected"),
    [
        ("*/5 * * * *", "UTC", "2026-01-01T00:00:00", "2026-01-01T00:05:00"),
        ("0 9 * * MON-FRI", BERLIN, "2026-01-02T09:00:00", "2026-01-05T08:00:00"),
        ("0 9 * * MON-FRI", BERLIN, "2026-07-03T09:00:00", "2026-07-06T07:00:00"),
        # 02:30 does not exist on the day the clocks go forward: once, right after the gap
        ("30 2 * * *", BERLIN, "2026-03-28T12:00:00", "2026-03-29T01:00:00"),
        ("30 2 * * *", BERLIN, "2026-03-29T01:00:00", "2026-03-30T00:30:00"),
        # 02:30 exists twice on the day they go back: once, at the first
        ("30 2 * * *", BERLIN, "2026-10-24T12:00:00", "2026-10-25T00:30:00"),
        ("30 2 * * *", BERLIN, "2026-10-25T00:30:00", "2026-10-26T01:30:00"),
        ("45 2 * * *", BERLIN, "2026-10-25T01:15:00", "2026-10-26T01:45:00"),
        # what goes by real time is due in both of the doubled hours
        ("30 * * * *", BERLIN, "2026-10-25T00:30:00", "2026-10-25T01:30:00"),
        ("0 0 29 2 *", "UTC", "2026-01-01T00:00:00", "2028-02-29T00:00:00"),
        ("*/10 * * * * *", "UTC", "2026-01-01T00:00:01", "2026-01-01T00:00:10"),
    ],
)
def test_a_cron_expression_names_the_next_moment(cron: str, zone: str, moment: str, expected: str) -> None:
    assert after(cron, at(moment), zone) == at(expected)


@given(
    MOMENTS,
    st.sampled_from(["*/7 * * * *", "30 2 * * *", "0 0 1 * *", "15 1-3 * * SUN"]),
    st.sampled_from([BERLIN, "UTC", "Australia/Lord_Howe"]),
)
def test_the_next_moment_is_later_and_the_same_for_all_that_lie_before_it(
    moment: datetime, cron: str, zone: str
) -> None:
    first = after(cron, moment, zone)
    assert first > moment
    assert after(cron, first - timedelta(microseconds=1), zone) == first
    assert after(cron, moment + (first - moment) / 2, zone) == first


@given(MOMENTS, st.integers(1, 10_000), st.integers(0, 10_000_000))
def test_an_interval_does_not_drift_and_what_was_missed_is_skipped(moment: datetime, every_s: int, late: int) -> None:
    now = moment + timedelta(seconds=late)
    following = next_moment(Rule(every_s=every_s), "UTC", after=now, last=moment)
    assert now < following <= now + timedelta(seconds=every_s)
    assert (following - moment) % timedelta(seconds=every_s) == timedelta(0)


def test_a_clock_that_went_back_changes_nothing_about_the_next_moment_of_an_interval() -> None:
    last = at("2026-01-01T12:00:00")
    following = next_moment(Rule(every_s=60), "UTC", after=last, last=last)
    assert following == last + timedelta(seconds=60)


@pytest.mark.parametrize(
    ("rule", "zone", "field"),
    [
        (Rule(cron="* * *"), "UTC", "cron"),
        (Rule(cron="61 * * * *"), "UTC", "cron"),
        (Rule(cron="0 0 30 2 *"), "UTC", "cron"),
        (Rule(cron="x" * 1000), "UTC", "cron"),
        (Rule(cron="² * * * *"), "UTC", "cron"),
        (Rule(cron="0 0 * * ²L"), "UTC", "cron"),
        (Rule(), "UTC", "cron"),
        (Rule(every_s=0), "UTC", "every_s"),
        (Rule(every_s=MAX_EVERY_S + 1), "UTC", "every_s"),
        *[
            (Rule(every_s=1), zone, "timezone")
            for zone in ["Nowhere/Land", "../../etc/passwd", "/etc", "", "\0", "x" * 99]
        ],
    ],
)
def test_what_cannot_be_used_is_named(rule: Rule, zone: str, field: str) -> None:
    with pytest.raises(BadRuleError) as caught:
        next_moment(rule, zone, after=at("2026-01-01T00:00:00"), last=at("2026-01-01T00:00:00"))
    assert caught.value.field == field


@given(st.text(max_size=40) | st.text("0123456789*/,-#L MONW", max_size=40))
def test_any_text_is_a_rule_or_refused(text: str) -> None:
    with suppress(BadRuleError):
        assert after(text, at("2026-01-01T00:00:00"), BERLIN) > at("2026-01-01T00:00:00")


def test_rules_are_stored_and_read() -> None:
    for rule in [Rule(cron="* * * * *"), Rule(every_s=5)]:
        assert rule_of(rule.stored()) == rule
    for stored in [None, {}, {"moon": "full"}, {"every_s": "5"}]:
        with pytest.raises(BadRuleError):
            rule_of(stored)


def test_the_moments_to_come_are_told() -> None:
    first = at("2026-10-24T00:30:00")
    moments = upcoming(Rule(cron="30 2 * * *"), BERLIN, first, count=3)
    assert [moment.astimezone(ZoneInfo(BERLIN)).strftime("%d %H:%M") for moment in moments] == [
        "24 02:30",
        "25 02:30",
        "26 02:30",
    ]
    assert upcoming(Rule(every_s=1), "UTC", None, count=3) == []
