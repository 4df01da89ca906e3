from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from runtime.errors import SettingError
from runtime.settings import WorkerSettings, worker_settings


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in [key for key in os.environ if key.startswith("STEPWELL_")]:
        monkeypatch.delenv(key)


def test_without_settings_there_are_defaults() -> None:
    settings = worker_settings()
    assert (settings.data, settings.log_format, settings.log_level, settings.crash_at) == (
        "./data",
        "text",
        "info",
        None,
    )
    assert settings.file_roots == [Path()]


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_DATA", "s3://bucket/prefix")
    monkeypatch.setenv("STEPWELL_HOLD_S", "1.5")
    monkeypatch.setenv("STEPWELL_FILES", os.pathsep.join(["/a", "", "b"]))
    settings = worker_settings()
    assert (settings.data, settings.hold_s) == ("s3://bucket/prefix", 1.5)
    assert settings.file_roots == [Path("/a"), Path("b")]


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "soon", ""])
def test_seconds_are_more_than_none(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("STEPWELL_DRAIN_S", value)
    with pytest.raises(SettingError, match=rf"^STEPWELL_DRAIN_S={value!r}: "):
        worker_settings()


def test_every_bad_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_LOG_FORMAT", "xml")
    monkeypatch.setenv("STEPWELL_LOG_LEVEL", "loud")
    with pytest.raises(SettingError, match=r"STEPWELL_LOG_FORMAT='xml': .*; STEPWELL_LOG_LEVEL='loud': "):
        worker_settings()


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError):
        setattr(WorkerSettings(), "data", "elsewhere")  # noqa: B010
