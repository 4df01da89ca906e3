"""Settings come from the environment, and a bad one names its key."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from web.settings import AsyncMode, SettingsError, read_settings
from web.version import VERSION


def test_the_defaults_serve_this_machine_only() -> None:
    settings = read_settings()
    assert (settings.host, settings.port, settings.async_mode) == ("127.0.0.1", 5055, AsyncMode.EVENTLET)
    assert settings.redis_url is None


def test_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_PORT", "6000")
    monkeypatch.setenv("STEPWELL_ASYNC_MODE", "threading")
    monkeypatch.setenv("STEPWELL_ALLOWED_HOSTS", "a.example, B.example")
    monkeypatch.setenv("STEPWELL_REDIS_URL", "redis://localhost")
    settings = read_settings()
    assert (settings.port, settings.async_mode) == (6000, AsyncMode.THREADING)
    assert settings.allowed_hosts == ("a.example", "b.example")
    assert read_settings(port=7).port == 7


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("STEPWELL_PORT", "http"),
        ("STEPWELL_PORT", "70000"),
        ("STEPWELL_ASYNC_MODE", "gevent"),
        ("STEPWELL_MAX_BODY_BYTES", "-1"),
        ("STEPWELL_MAX_JSON_DEPTH", "1e9"),
        ("STEPWELL_HOST", ""),
    ],
)
def test_a_bad_value_names_its_key(monkeypatch: pytest.MonkeyPatch, key: str, value: str) -> None:
    monkeypatch.setenv(key, value)
    with pytest.raises(SettingsError, match=key):
        read_settings()


def test_redis_needs_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_REDIS_URL", "redis://localhost")
    with pytest.raises(SettingsError, match="STEPWELL_ASYNC_MODE"):
        read_settings()


def test_the_version_is_the_projects() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION
