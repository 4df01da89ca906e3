"""The tool `clock`: what time it is."""

from __future__ import annotations

from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field

from runtime.tools.errors import ToolFailed
from runtime.tools.scope import ToolScope
from runtime.tools.tool import tool

_LONGEST_NAME = 64


@tool(read_only=True, time_out_s=5)
async def clock(
    scope: ToolScope,
    zone: Annotated[str, Field(description="an IANA time zone, such as UTC or Europe/Berlin")] = "UTC",
) -> dict[str, str]:
    """The date, the time and the day of the week now in a time zone."""
    now = scope.clock.now().astimezone(_zone(zone.strip()))
    return {"zone": zone.strip(), "time": now.isoformat(timespec="seconds"), "weekday": _WEEKDAYS[now.weekday()]}


_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _zone(name: str) -> ZoneInfo:
    """The zone. Raises `ToolFailed` for a name that is none; a name is never taken for a path (zoneinfo refuses it)."""
    if len(name) <= _LONGEST_NAME and name.isascii() and name.isprintable():
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ToolFailed(_refusal(name)) from error
    raise ToolFailed(_refusal(name))


def _refusal(name: str) -> str:
    return f"{name[:_LONGEST_NAME]!r} is no time zone; use an IANA name such as UTC, Europe/Berlin or America/New_York"
