"""The tool `run_python`: a program that a model wrote, run in the step's sandbox with the other tools as functions."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic_core import to_json

from runtime.sandbox.errors import SandboxUnavailableError
from runtime.sandbox.port import Failed, Finished, Program
from runtime.sandbox.recorded import NOT_INSIDE, StepPrograms
from runtime.stepcalls import StepCalls
from runtime.tools.errors import ToolFailed
from runtime.tools.output import shown
from runtime.tools.recorded import InStep, StepTools
from runtime.tools.result import Call, ToolErrorKind, ToolResult
from runtime.tools.tool import tool


@tool(name="run_python", read_only=True)
async def run_python(
    code: Annotated[str, Field(description="a whole program; the value of its last expression is the result")],
) -> str:
    """Run a short Python program that can reach nothing but your other tools.

    It calls them as plain functions with their parameters, without await: page = fetch("https://example.org/a").
    A call that failed raises RuntimeError, one that a person forbade PermissionError. Most modules are missing.
    """
    raise ToolFailed("programs run as a part of a step, not by themselves")


def in_step(calls: StepCalls, tools: StepTools, programs: StepPrograms) -> InStep:
    """How a step runs it. Its effects are those of the tools that it calls, each judged by itself."""

    async def run(call: Call, key: str) -> ToolResult:
        functions = tuple(tool.name for tool in tools.usable if tool.name not in NOT_INSIDE)
        before = calls.taint.sources
        try:
            outcome = await programs.run_at(Program(str(call.arguments["code"]), functions=functions), key)
        except SandboxUnavailableError as error:
            return ToolResult(call=call, ok=False, content=f"{error}.", error=ToolErrorKind.FAILED, attempts=1)
        return _told(call, outcome, tuple(sorted(calls.taint.sources - before)))

    return run


def _told(call: Call, outcome: Finished | Failed, taint: tuple[str, ...]) -> ToolResult:
    if isinstance(outcome, Failed):
        where = "" if outcome.line is None else f" in line {outcome.line}"
        printed = f"; it had printed: {outcome.printed[-1_000:]}" if outcome.printed else ""
        content = f"the program failed{where} ({outcome.kind}): {outcome.message}{printed}"
        return ToolResult(call=call, ok=False, content=content, error=ToolErrorKind.FAILED, attempts=1, taint=taint)
    told = to_json({"result": outcome.result, "printed": outcome.printed}).decode()
    text = shown(told, run_python.output_chars)
    if isinstance(text, str):
        return ToolResult(call=call, ok=False, content=text, error=ToolErrorKind.FAILED, attempts=1, taint=taint)
    return ToolResult(
        call=call, ok=True, content=text.text, cut_chars=text.cut_chars, attempts=1, is_json=text.whole, taint=taint
    )
