"""Runs one try of a tool in a task of its own, so that its end is never taken for the end of the turn."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from runtime.tools.schema import Json
from runtime.tools.scope import ToolScope
from runtime.tools.tool import Tool

#: seconds that a cancelled tool has to leave things in order
GRACE_S = 2.0


@dataclass(frozen=True, slots=True)
class Returned:
    """The tool answered."""

    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """The tool raised."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class OutOfTime:
    """The tool was cancelled. `left` says whether it has ended; if not it goes on by itself, unheard."""

    left: bool


@dataclass(frozen=True, slots=True)
class CancelledItself:
    """The tool raised `CancelledError` although nobody had cancelled it."""


Outcome = Returned | Raised | OutOfTime | CancelledItself


async def run_once(tool: Tool, scope: ToolScope, arguments: Json, *, grace_s: float = GRACE_S) -> Outcome:
    """One try, at most `tool.time_out_s` seconds and, when it is cancelled, `grace_s` more.

    Cancelled from outside, it cancels the tool, gives it the same grace and lets `CancelledError` pass. A tool that
    does not listen to being cancelled cannot be stopped in this process; it is not waited for any longer.
    """
    running = asyncio.ensure_future(_tried(tool, scope, arguments))
    try:
        await asyncio.wait([running], timeout=tool.time_out_s)
    finally:
        late = not running.done()
        if late:
            await _cancelled(running, grace_s)
    if late:
        return OutOfTime(left=running.done())
    return CancelledItself() if running.cancelled() else running.result()


async def _tried(tool: Tool, scope: ToolScope, arguments: Json) -> Returned | Raised:
    try:
        return Returned(await tool.run(scope, arguments))
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit too: left in the task, it would end the whole process
        return Raised(error)


async def _cancelled(running: asyncio.Future[Any], grace_s: float) -> None:
    running.cancel()
    try:
        await asyncio.wait([running], timeout=grace_s)
    finally:
        running.add_done_callback(_look_at)


def _look_at(ended: asyncio.Future[Any]) -> None:
    """Look at what nobody waits for, so that nobody is told that it was never looked at."""
    if not ended.cancelled():
        ended.exception()
