from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Iterator
from typing import Literal

import pytest
import structlog

from runtime.guard.secretsgate import Secrets
from runtime.logs import configure_logs


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def test_a_text_line_holds_the_event_and_its_fields(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("text", "info").info("a step failed", session_id="s1")
    said = capsys.readouterr()
    assert said.out == ""
    assert "a step failed" in said.err
    assert "session_id=s1" in said.err
    assert "\x1b" not in said.err


def test_a_json_line_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    log = configure_logs("json", "info").bind(session_id="s1")
    try:
        raise ValueError("no")
    except ValueError as error:
        log.error("it broke", exc_info=error)
    (line,) = capsys.readouterr().err.splitlines()
    found = json.loads(line)
    assert (found["event"], found["level"], found["session_id"]) == ("it broke", "error", "s1")
    assert found["exception"][0]["exc_value"] == "no"


@pytest.mark.parametrize(("level", "heard"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_lines_below_the_level_are_left_out(capsys: pytest.CaptureFixture[str], level: str, heard: int) -> None:
    log = configure_logs("json", level)
    for line in (log.debug, log.info, log.warning, log.error):
        line("hello")
    assert len(capsys.readouterr().err.splitlines()) == heard


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_no_field_and_no_traceback_holds_a_secret(
    capsys: pytest.CaptureFixture[str], log_format: Literal["text", "json"], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "velvet-otter-9917-harbour"
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    log = configure_logs(log_format, "info", Secrets({"API_KEY": key}).redact)
    try:
        local = key
        raise ValueError(f"refused {local}")
    except ValueError as error:
        log.error(f"broke {key}", exc_info=error, fields={"deep": [key, error]}, kind=ValueError(key))
        logging.getLogger("library").warning("lost %s", key, exc_info=error)
        sys.excepthook(ValueError, error, error.__traceback__)
    thread = threading.Thread(target=lambda: int(key), name="worker")
    thread.start()
    thread.join()
    said = capsys.readouterr().err
    assert key not in said
    assert said.count("redacted API_KEY") >= 6
    assert "Traceback" in said
