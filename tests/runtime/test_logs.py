from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import structlog

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
