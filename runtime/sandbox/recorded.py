"""The sandbox that a step is given: programs call the step's tools, and wait for people as the step does.

    leg 0 ─▶ finished, failed ────────────────────────────────────────────────────────▶ outcome
      └───▶ suspended at a gated call ─▶ sealed snapshot, a record ─▶ question ─▶ (days, restarts) ─▶ leg 1 ─▶ ...

Each leg is a record, and so is each call inside it, so nothing is done twice: crash before a leg's record, it runs
again from its beginning and its calls are read; after it, the leg is read. An approval binds the tool, its arguments,
the session and the sealed program: a changed byte of either is another question.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from pydantic import JsonValue

from runtime.approvals.port import Answer as PersonsAnswer
from runtime.approvals.port import Decision
from runtime.calls import RecordKind
from runtime.ports import Json, MonikerError
from runtime.sandbox.errors import HostFunctionError, SandboxMisuseError, SnapshotRefusedError
from runtime.sandbox.legs import leg_facts, leg_row, read_leg
from runtime.sandbox.port import (
    Answer,
    Approved,
    Binding,
    Failed,
    FailureKind,
    Finished,
    Host,
    HostCall,
    HostFunction,
    Outcome,
    Program,
    Rejected,
    Sandbox,
    Suspended,
)
from runtime.sandbox.walls import Walls
from runtime.stepcalls import StepCalls
from runtime.tools.asking import question_key, question_of, refusal
from runtime.tools.recorded import Asked, StepTools
from runtime.tools.result import Call, ToolResult
from runtime.tools.tool import Tool

#: a program does not start programs: it would wait for a place that it holds itself
NOT_INSIDE = frozenset({"run_python"})


@dataclass(frozen=True, slots=True)
class _Word:
    """A person's answer to the call at which a program stands: what the program is told, and with which arguments."""

    answer: Answer
    edited: Json | None = None


class StepPrograms:
    """The `Programs` of one step."""

    def __init__(self, calls: StepCalls, tools: StepTools, walls: Walls) -> None:
        self._calls = calls
        self._tools = tools
        self._walls = walls

    async def run(self, program: Program, *, key: str | None = None) -> Finished | Failed:
        """See `Programs.run`."""
        try:
            return await self.run_at(program, f"sandbox:{key or self._calls.next_number('sandbox')}")
        except SandboxMisuseError as error:  # another try of the step would ask for the same
            raise MonikerError(str(error)) from error

    async def run_at(self, program: Program, key: str) -> Finished | Failed:
        """As `run`, with the key of its records."""
        outcome = await self._leg(key, 0, program.fingerprint, partial(_run, program=program))
        number = 0
        while isinstance(outcome, Suspended):
            word = await self._asked(key, number, outcome)
            number += 1
            resuming = partial(_resume, suspended=outcome, answer=word.answer)
            edited = None if word.edited is None else json.dumps(word.edited, sort_keys=True)
            outcome = await self._leg(key, number, f"{word.answer}:{edited}", resuming, word.edited)
        return outcome

    async def _leg(
        self,
        key: str,
        number: int,
        digest: str,
        go: Callable[[Sandbox], Awaitable[Outcome]],
        edited: Json | None = None,
    ) -> Outcome:
        inside = _Inside(self._tools, f"{key}:{number}", edited)

        async def carry() -> Json:
            host = Host(Binding(self._calls.call_key(key)), inside.functions(), asks=inside.asks)
            async with self._walls.sandbox(host) as sandbox:
                return leg_row(await go(sandbox), inside.taint)

        row = await self._calls.recorded(
            f"{key}:{number}", carry, kind=RecordKind.SANDBOX, digest=digest, facts=leg_facts
        )
        outcome, taint = read_leg(row)
        self._calls.add_taint(taint)
        return outcome

    async def _asked(self, key: str, number: int, suspended: Suspended) -> _Word:
        """What a person says to the call at which a program stands."""
        call = self._tools.call_of(suspended.call.name, suspended.call.args, suspended.call.kwargs, key)
        asked = self._tools.admit(call, f"{key}:{number}")
        if isinstance(asked, ToolResult):  # it was withdrawn, or has changed, since the program stopped
            return _Word(Rejected(suspended.fingerprint, asked.content))
        bound = f"{suspended.fingerprint[:8]}{asked.bound}"
        why = self._tools.why(asked) or f"{call.name} needed a person's approval when the program called it"
        question = question_key(asked.key, bound)
        put = question_of(call, bound, why, await self._calls.asked_in(question), {"program": suspended.program})
        answer = (await self._calls.answers({question: put}))[question]
        return self._word(suspended, asked, answer)

    def _word(self, suspended: Suspended, asked: Asked, answer: PersonsAnswer) -> _Word:
        fingerprint = suspended.fingerprint
        if not answer.agrees:
            hint = " Try it differently" if answer.decision is Decision.RETRY else ""
            return _Word(Rejected(fingerprint, f"{refusal(answer)}{hint}"))
        if answer.decision is Decision.APPROVE:
            return _Word(Approved(fingerprint))
        if not isinstance(answer.value, dict):
            return _Word(Rejected(fingerprint, "the arguments that a person gave are no object"))
        edited = self._tools.admit(asked.call.model_copy(update={"arguments": answer.value}), asked.key)
        if isinstance(edited, ToolResult):
            return _Word(Rejected(fingerprint, edited.content))
        return _Word(Approved(fingerprint), edited.call.arguments)


async def _run(sandbox: Sandbox, program: Program) -> Outcome:
    return await sandbox.run(program)


async def _resume(sandbox: Sandbox, suspended: Suspended, answer: Answer) -> Outcome:
    try:
        return await sandbox.resume(suspended, answer)
    except SnapshotRefusedError as error:  # another key or version since: no try of the same snapshot will do better
        return Failed(FailureKind.REFUSED, str(error), None, suspended.printed, suspended.usage)


class _Inside:
    """What one leg of a program sees of the step's tools. `edited` are the arguments of its first call, if changed."""

    def __init__(self, tools: StepTools, key: str, edited: Json | None) -> None:
        self._tools = tools
        self._key = key
        self._edited = edited
        self._made = 0
        self._taint: set[str] = set()

    @property
    def taint(self) -> list[str]:
        """Where text from outside that its calls brought in came from."""
        return sorted(self._taint)

    def functions(self) -> dict[str, HostFunction]:
        """A host function for each tool that the session may use."""
        return {tool.name: partial(self._called, tool) for tool in self._tools.usable if tool.name not in NOT_INSIDE}

    def asks(self, called: HostCall) -> bool:
        """Whether a person has to agree to a call now."""
        call = self._tools.call_of(called.name, called.args, called.kwargs, self._key)
        asked = self._tools.admit(call, self._key)
        return isinstance(asked, Asked) and self._tools.why(asked) is not None

    async def _called(self, tool: Tool, *args: JsonValue, **kwargs: JsonValue) -> JsonValue:
        self._made += 1
        key = f"{self._key}.{self._made}:{tool.name}"
        call = self._tools.call_of(tool.name, args, kwargs, key)
        if self._edited is not None:
            call, self._edited = call.model_copy(update={"arguments": self._edited}), None
        result = await self._carried_out(call, key)
        self._taint.update(result.taint)
        if not result.ok:
            raise HostFunctionError(result.content)
        return _value(result)

    async def _carried_out(self, call: Call, key: str) -> ToolResult:
        asked = self._tools.admit(call, key)
        return asked if isinstance(asked, ToolResult) else await self._tools.make(asked)


def _value(result: ToolResult) -> JsonValue:
    value: JsonValue = json.loads(result.content) if result.is_json else result.content
    return value
