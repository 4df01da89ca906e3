"""When a schedule is due: cron expressions in a time zone, and intervals.

Cron expressions are cronsim's, which follows Debian's cron: five fields (six with seconds first). Where a clock change
skips the named time, it is due once right after the gap; where the clock shows it twice, it is due once, at the first.
Expressions with a `*` for the minute or the hour go by real time and are due in both of the doubled hours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from store.errors import StoreError

MAX_CRON_CHARS = 200
MAX_EVERY_S = 10 * 366 * 86_400


class BadRuleError(StoreError, ValueError):
    """A schedule's rule or time zone cannot be used; `field` is the one to blame."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class Rule:
    """A cron expression, or a number of seconds between two moments."""

    cron: str | None = None
    every_s: int | None = None

    def stored(self) -> dict[str, Any]:
        """The rule as the table has it."""
        return {"cron": self.cron} if self.cron is not None else {"every_s": self.every_s}


def rule_of(stored: Any) -> Rule:
    """The rule in a row; raises `BadRuleError` for one of a newer version."""
    if isinstance(stored, dict) and isinstance(stored.get("cron"), str):
        return Rule(cron=stored["cron"])
    if isinstance(stored, dict) and isinstance(stored.get("every_s"), int):
        return Rule(every_s=stored["every_s"])
    raise BadRuleError("rule", f"the rule {stored!r} has neither cron nor every_s; was it stored by a newer version?")


def next_moment(rule: Rule, timezone: str, *, after: datetime, last: datetime) -> datetime:
    """The first moment later than `after`. Intervals are counted from `last`, so that they do not drift.

    Raises `BadRuleError` for a rule that cannot be read or never comes, or an unknown zone.
    """
    zone = _zone(timezone)
    if rule.every_s is not None:
        return _next_of_interval(rule.every_s, after, last)
    if rule.cron is None or len(rule.cron) > MAX_CRON_CHARS:
        raise BadRuleError("cron", f"give a cron expression of at most {MAX_CRON_CHARS} characters, or every_s")
    try:
        return _first_after(CronSim(rule.cron, after.astimezone(zone)), after)
    except StopIteration as error:
        raise BadRuleError("cron", f"{rule.cron!r} never comes") from error
    except (CronSimError, ValueError, OverflowError) as error:
        raise BadRuleError(
            "cron", f"{rule.cron!r} is no cron expression ({error}); give five fields, such as 0 9 * * MON-FRI"
        ) from error


def upcoming(rule: Rule, timezone: str, first: datetime | None, *, count: int) -> list[datetime]:
    """`first` and the moments after it, `count` at most; none when there is no first. Raises `BadRuleError`."""
    moments: list[datetime] = [] if first is None else [first]
    while moments and len(moments) < count:
        moments.append(next_moment(rule, timezone, after=moments[-1], last=moments[-1]))
    return moments


def _first_after(moments: Iterator[datetime], after: datetime) -> datetime:
    # In the second of two doubled hours cronsim names a moment of the first one, which is over.
    while (moment := next(moments).astimezone(UTC)) <= after:
        continue
    return moment


def _next_of_interval(every_s: int, after: datetime, last: datetime) -> datetime:
    if not 1 <= every_s <= MAX_EVERY_S:
        raise BadRuleError("every_s", f"every_s is {every_s}; give 1 to {MAX_EVERY_S} seconds")
    missed = max(0, int((after - last).total_seconds() // every_s))
    moment = last + timedelta(seconds=missed * every_s)
    while moment <= after:
        moment += timedelta(seconds=every_s)
    return moment


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise BadRuleError("timezone", f"there is no time zone {name!r}; give a name such as Europe/Berlin") from error
