from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from runtime.errors import SettingError
from runtime.keeping import upkeep_rules, workspace_keeper
from runtime.settings import WorkerSettings, worker_settings
from store.database import open_store
from store.options import StoreOptions
from store.retention import RetentionRules
from store.testing import CountingIds, FrozenClock


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


async def test_workspaces_are_looked_after_unless_all_are_kept(tmp_path: Path) -> None:
    store = await open_store(StoreOptions(str(tmp_path / "data")), clock=FrozenClock(), ids=CountingIds())
    for days, looked_after in {30.0: True, 0.0: False}.items():
        settings = WorkerSettings(data=str(tmp_path / "data"), keep_workspaces_days=days)
        assert (workspace_keeper(store.tenant(), settings, None) is not None) is looked_after
    bucket = WorkerSettings(data="s3://bucket/x")  # no folder, and no file that names one
    assert workspace_keeper(store.tenant(), bucket, None) is None
    await store.close()
