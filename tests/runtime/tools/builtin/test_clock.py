"""The time in a zone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from runtime.testing import FakeClock
from runtime.tools.builtin.clock import clock
from runtime.tools.calling import call_tool
from runtime.tools.fake import FakeToolbox
from runtime.tools.result import Call, ToolErrorKind, ToolResult
from tests.runtime.tools.kit import backoff, scope


async def asked(zone: str) -> ToolResult:
    """What the clock says at one moment in summer."""
    moment = FakeClock(datetime(2026, 7, 1, 22, 30, tzinfo=UTC))
    call = Call(id="1", name="clock", arguments={"zone": zone})
    return await call_tool(FakeToolbox(clock), call, scope(clock=moment), backoff())


@pytest.mark.parametrize(
    ("zone", "content"),
    [
        ("UTC", '{"zone":"UTC","time":"2026-07-01T22:30:00+00:00","weekday":"Wednesday"}'),
        (" Europe/Berlin\n", '{"zone":"Europe/Berlin","time":"2026-07-02T00:30:00+02:00","weekday":"Thursday"}'),
        ("Asia/Kolkata", '{"zone":"Asia/Kolkata","time":"2026-07-02T04:00:00+05:30","weekday":"Thursday"}'),
    ],
)
async def test_the_time_in_a_zone(zone: str, content: str) -> None:
    assert (await asked(zone)).content == content


@pytest.mark.parametrize(
    "zone", ["", "Mars/Base", "../../etc/passwd", "/etc/passwd", "Europe", "UTC\x00", "Ü" * 5, "x" * 5_000, "UTC/.."]
)
async def test_what_is_no_zone(zone: str) -> None:
    result = await asked(zone)
    assert result.error is ToolErrorKind.FAILED
    assert "Europe/Berlin" in result.content
    assert len(result.content) < 300
