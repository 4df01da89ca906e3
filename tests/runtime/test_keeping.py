from __future__ import annotations

from datetime import timedelta

import pytest

from runtime.errors import SettingError
from runtime.keeping import upkeep_rules
from runtime.settings import WorkerSettings, worker_settings
from store.retention import RetentionRules


def test_the_settings_say_how_much_stays() -> None:
    settings = WorkerSettings(
        keep_steps_days=2, keep_steps_count=7, keep_events_s=5, keep_queue_days=1.5, keep_versions_s=3
    )

    rules = upkeep_rules(settings)

    assert rules.keep == timedelta(seconds=3)
    assert rules.retention == RetentionRules(
        steps_age=timedelta(days=2), steps_count=7, events_age=timedelta(seconds=5), queue_age=timedelta(days=1.5)
    )


def test_nought_keeps_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_KEEP_EVENTS_S", "0")
    monkeypatch.setenv("STEPWELL_KEEP_QUEUE_DAYS", "0")

    assert upkeep_rules(worker_settings()).retention == RetentionRules(events_age=None, queue_age=None)


@pytest.mark.parametrize(
    ("name", "value"),
    [("STEPS_DAYS", "-1"), ("STEPS_COUNT", "1.5"), ("EVENTS_S", "nan"), ("QUEUE_DAYS", "1e9"), ("VERSIONS_S", "0")],
)
def test_a_value_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"STEPWELL_KEEP_{name}", value)

    with pytest.raises(SettingError, match=f"STEPWELL_KEEP_{name}='{value}'"):
        worker_settings()
