"""Calls tools: the one door. Whatever a tool does, its caller gets a `ToolResult`.

    unknown? ─▶ permitted? ─▶ unchanged? ─▶ arguments? ─▶ approved? ─▶ try ─▶ shorten ─▶ result
                                                                        ▲ │ failed in a way that may pass
                                                                        └─┘ and safe to repeat: wait, full jitter

Storing that a call is about to be made, and what came of it, is the caller's part: wrap the whole of `call_tool` in
`ctx.record(..., safe_to_repeat=tool.safe_to_repeat)`. A tool with an effect that is not idempotent is never tried twice
here, so a crash is the only thing that can leave its outcome unknown.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import assert_never

from runtime.guard.taint import CLEAN, Labelled, Taint
from runtime.retries import RetryPolicy
from runtime.tools.approving import ApprovalKey, approval_key
from runtime.tools.errors import ArgumentsError, MayPass, ToolFailed
from runtime.tools.nearest import did_you_mean
from runtime.tools.output import Shown, shown
from runtime.tools.result import Call, ToolErrorKind, ToolResult
from runtime.tools.running import GRACE_S, CancelledItself, Outcome, OutOfTime, Raised, Returned, run_once
from runtime.tools.schema import Json, shortened
from runtime.tools.scope import ToolName, ToolScope
from runtime.tools.tool import Tool
from runtime.tools.toolbox import Toolbox
from store.clock import Chance

_MESSAGE_CHARS = 1_000
#: what the operating system and the network raise when a later try may do better
_PASSING = (MayPass, ConnectionError, TimeoutError)


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait between tries, in seconds: anything up to a limit that doubles with each try."""

    chance: Chance
    base_s: float = 0.5
    cap_s: float = 20.0
    #: seconds that a cancelled tool has to leave things in order
    grace_s: float = GRACE_S

    def next_delay(self, tool: Tool, attempts: int, error: BaseException | None) -> float | None:
        """Seconds until the next try after `attempts`; None when there is none, or it would come too late to help."""
        if not tool.safe_to_repeat:
            return None
        policy = RetryPolicy(self.chance, max_attempts=tool.max_attempts, base_s=self.base_s, cap_s=self.cap_s)
        delay = policy.next_delay(attempts)
        asked = error.retry_after_s if isinstance(error, MayPass) else None
        if delay is None or (asked or 0.0) > self.cap_s:
            return None
        return max(delay, asked or 0.0)


async def call_tool(
    toolbox: Toolbox,
    call: Call,
    scope: ToolScope,
    backoff: Backoff,
    *,
    approved: Set[ApprovalKey] = frozenset(),
) -> ToolResult:
    """Make `call` for the agent of `scope`, whose type decides what it may use.

    Never raises for anything that the model or the tool did: see `ToolErrorKind`. `asyncio.CancelledError` passes when
    the caller itself is cancelled; the tool is cancelled with it. `approved` are the calls that a person has agreed to.
    """
    found, arguments = _checked(toolbox, call, scope)
    if isinstance(found, ToolResult):
        return found
    key = approval_key(found, call, scope)
    if found.needs_approval and key not in approved:
        message = f"{call.name} was not run: a person has to agree to exactly this call first. Wait for the answer"
        return _error(call, ToolErrorKind.NEEDS_APPROVAL, message).model_copy(update={"approval_key": key})
    return await _tried(found, call, scope, arguments, backoff)


def admitted(toolbox: Toolbox, call: Call, scope: ToolScope) -> Tool | ToolResult:
    """The tool of a call that may be made if nobody has to agree to it; else what the model is told."""
    return _checked(toolbox, call, scope)[0]


def _checked(toolbox: Toolbox, call: Call, scope: ToolScope) -> tuple[Tool | ToolResult, Json]:
    found = _admitted(toolbox, call, scope)
    if isinstance(found, ToolResult):
        return found, {}
    try:
        return found, found.checked(call.arguments)
    except ArgumentsError as error:
        said = f"{call.name} was not run: {error}. Call it again, mended"
        return _error(call, ToolErrorKind.BAD_ARGUMENTS, said), {}


def _admitted(toolbox: Toolbox, call: Call, scope: ToolScope) -> Tool | ToolResult:
    """The tool, if there is one that this agent may use now."""
    usable = [tool.name for tool in toolbox.of(scope.agent_type)]
    tool = toolbox.tools.get(ToolName(call.name))
    if tool is None:
        cure = did_you_mean(call.name, usable) or f"you may use {', '.join(usable) or 'none'}"
        return _error(call, ToolErrorKind.UNKNOWN_TOOL, f"there is no tool {shortened(call.name)}; {cure}")
    if not toolbox.permits(scope.agent_type, tool.name):
        message = (
            f"agents of type {scope.agent_type!r} may not use {tool.name}; you may use {', '.join(usable) or 'no tool'}"
        )
        return _error(call, ToolErrorKind.NOT_PERMITTED, message)
    if toolbox.has_changed(tool):
        message = f"{tool.name} is off until a person agrees to it as it is now"
        return _error(call, ToolErrorKind.CHANGED, message)
    return tool.for_call(call.arguments)


async def _tried(tool: Tool, call: Call, scope: ToolScope, arguments: Json, backoff: Backoff) -> ToolResult:
    """Try until it answers, fails for good, or the tries are used up."""
    attempts = 0
    while True:
        outcome = await run_once(tool, scope, arguments, grace_s=backoff.grace_s)
        attempts += 1
        delay = _delay(tool, outcome, attempts, backoff)
        if delay is None:
            told = {"attempts": attempts, "taint": _taint(tool, outcome)}
            result = _result(tool, call, outcome).model_copy(update=told)
            _note(scope, result, outcome)
            return result
        scope.log.info("a tool failed and is tried again", tool=tool.name, attempts=attempts, delay_s=delay)
        await scope.clock.sleep(delay)


def _delay(tool: Tool, outcome: Outcome, attempts: int, backoff: Backoff) -> float | None:
    match outcome:
        case OutOfTime(left=True):
            return backoff.next_delay(tool, attempts, None)
        case Raised(error=error) if isinstance(error, _PASSING):
            return backoff.next_delay(tool, attempts, error)
        case _:
            return None


def _result(tool: Tool, call: Call, outcome: Outcome) -> ToolResult:
    match outcome:
        case Returned(value=value):
            plain = value.value if isinstance(value, Labelled) else value
            return _answered(tool, call, shown(plain, tool.output_chars))
        case Raised(error=error):
            return _error(call, ToolErrorKind.FAILED, _failure(tool, error))
        case OutOfTime():
            return _error(call, ToolErrorKind.TIMED_OUT, _out_of_time(tool))
        case CancelledItself():
            message = f"{tool.name} gave up by itself without an answer (CancelledError){_doubt(tool)}"
            return _error(call, ToolErrorKind.FAILED, message)
        case _:
            assert_never(outcome)


def _taint(tool: Tool, outcome: Outcome) -> tuple[str, ...]:
    """Where text from outside in the answer came from: all of a foreign tool's, and what a tool says itself."""
    own = Taint.of(f"tool {tool.name}") if tool.foreign else CLEAN
    if isinstance(outcome, Returned) and isinstance(outcome.value, Labelled):
        own = own.joined(outcome.value.taint)
    return tuple(own.written())


def _answered(tool: Tool, call: Call, answer: Shown | str) -> ToolResult:
    if isinstance(answer, str):
        return _error(call, ToolErrorKind.FAILED, f"{tool.name} ran, but {answer}{_doubt(tool)}")
    if answer.whole or answer.is_text:
        return ToolResult(
            call=call, ok=True, content=answer.text, cut_chars=answer.cut_chars, is_json=not answer.is_text
        )
    message = (
        f"{tool.name} ran, but its answer of {answer.chars:,} characters of JSON is over its limit of "
        f"{tool.output_chars:,}; ask for less of it. It begins: {answer.text}"
    )
    return _error(call, ToolErrorKind.OUTPUT_TOO_LARGE, message).model_copy(update={"cut_chars": answer.cut_chars})


def _failure(tool: Tool, error: BaseException) -> str:
    if isinstance(error, ToolFailed):
        return str(error)[:_MESSAGE_CHARS] or f"{tool.name} failed without saying why"
    said = f"{type(error).__name__}: {error}"[:_MESSAGE_CHARS]
    return f"{tool.name} failed: {said}{_doubt(tool)}"


def _out_of_time(tool: Tool) -> str:
    return f"{tool.name} did not end within {tool.time_out_s:g} s and was stopped{_doubt(tool)}; ask for less at a time"


def _doubt(tool: Tool) -> str:
    """What a model must know before it asks again."""
    return "" if tool.safe_to_repeat else "; nobody knows how much of its work was done, so look before you repeat it"


def _error(call: Call, kind: ToolErrorKind, message: str) -> ToolResult:
    sound = message.encode("utf-8", "replace").decode()
    return ToolResult(call=call, ok=False, content=f"{sound.rstrip('.')}.", error=kind)


def _note(scope: ToolScope, result: ToolResult, outcome: Outcome) -> None:
    """Tell people what broke; that a model asked wrongly is told to the model alone."""
    match outcome:
        case Raised(error=error) if not isinstance(error, ToolFailed):
            scope.log.warning(
                "a tool broke; the model is told", tool=result.call.name, error=repr(error)[:_MESSAGE_CHARS]
            )
        case OutOfTime(left=False):
            scope.log.warning("a tool does not stop when cancelled; it goes on unheard", tool=result.call.name)
        case _:
            return
