"""The sandbox that a step is given: programs call the step's tools, and wait for people as the step does.

    leg 0 ─▶ finished, failed ────────────────────────────────────────────────────────▶ outcome
      └───▶ suspended at a call that waits ─▶ sealed snapshot, a record ─▶ (days, restarts) ─▶ leg 1 ─▶ ...

A call of a program goes the way of a model's own (`StepTools.call_of_program`): the gate of its arguments, people's
agreement, the tool, the gate of its answer. Where one of these has to ask a person, the program is put away; when there
is an answer it makes the same call again, under the same key, and what was done of it is read from its records.

Each leg is a record, and so is each call inside it, so nothing is done twice: crash before a leg's record, it runs
again from its beginning and its calls are read; after it, the leg is read. An approval binds the tool, its arguments,
the session and the program: a changed byte of any is another question. The snapshot is sealed.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial

from pydantic import JsonValue

from runtime.calls import RecordKind
from runtime.ports import Json, MonikerError
from runtime.sandbox.errors import HostFunctionError, HostWaitsError, SandboxMisuseError, SnapshotRefusedError
from runtime.sandbox.legs import Leg, leg_facts, leg_row, read_leg
from runtime.sandbox.port import (
    Approved,
    Binding,
    Failed,
    FailureKind,
    Finished,
    Host,
    HostFunction,
    Outcome,
    Program,
    Sandbox,
    Suspended,
)
from runtime.sandbox.walls import Walls
from runtime.stepcalls import AwaitsPersonError, StepCalls, cutting, may_wait
from runtime.tools.recorded import StepTools
from runtime.tools.result import ToolErrorKind, ToolResult

#: a program does not start programs: it would wait for a place that it holds itself
NOT_INSIDE = frozenset({"run_python"})
#: what a person or a rule did not let a program do, as edited arguments that do not fit; all else has failed
_FORBIDDEN = frozenset({ToolErrorKind.REJECTED, ToolErrorKind.NOT_PERMITTED})


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
        inside = _Inside(self._tools, program, f"{key}:0")
        leg = await self._leg(key, 0, program.fingerprint, partial(_run, program=program), inside)
        number = 0
        while True:
            suspended = leg.outcome
            if not isinstance(suspended, Suspended):
                return suspended
            if inside.waits is not None:  # it was put away just now: its question is asked
                raise cutting(inside.waits)
            number += 1
            inside = _Inside(self._tools, program, f"{key}:{number}", again=(suspended.call.name, leg.at))
            leg = await self._leg(key, number, suspended.fingerprint, partial(_resume, suspended=suspended), inside)

    async def _leg(
        self, key: str, number: int, digest: str, go: Callable[[Sandbox], Awaitable[Outcome]], inside: _Inside
    ) -> Leg:
        async def carry() -> Json:
            host = Host(Binding(self._calls.call_key(key)), inside.functions())
            async with self._walls.sandbox(host) as sandbox:
                try:
                    outcome = await go(sandbox)
                except HostWaitsError as waits:  # it cannot be put away: it begins again when there is an answer
                    raise cutting(inside.waits or waits) from None
                return leg_row(Leg(outcome, inside.taint, inside.waits_at))

        row = await self._calls.recorded(
            f"{key}:{number}", carry, kind=RecordKind.SANDBOX, digest=digest, facts=leg_facts
        )
        leg = read_leg(row)
        self._calls.add_taint(leg.taint)
        if inside.waits is not None and not isinstance(leg.outcome, Suspended):
            self._calls.take_back(inside.waits)  # too much to be put away: it failed instead
        return leg


async def _run(sandbox: Sandbox, program: Program) -> Outcome:
    return await sandbox.run(program)


async def _resume(sandbox: Sandbox, suspended: Suspended) -> Outcome:
    try:
        return await sandbox.resume(suspended, Approved(suspended.fingerprint))
    except SnapshotRefusedError as error:  # another key or version since: no try of the same snapshot will do better
        return Failed(FailureKind.REFUSED, str(error), None, suspended.printed, suspended.usage)


class _Inside:
    """What one leg of a program sees of the step's tools. `again` names the call that it makes again, and its key."""

    def __init__(self, tools: StepTools, program: Program, key: str, again: tuple[str, str] = ("", "")) -> None:
        self._tools = tools
        self._program = program.fingerprint
        self._key = key
        self._again = again
        self._made = 0
        self._taint: set[str] = set()
        #: why the program was put away in this leg, and at which call
        self.waits: AwaitsPersonError | None = None
        self.waits_at = ""

    @property
    def taint(self) -> tuple[str, ...]:
        """Where text from outside that its calls brought in came from."""
        return tuple(sorted(self._taint))

    def functions(self) -> dict[str, HostFunction]:
        """A host function for each tool that the session may use, and for the call that is made again."""
        names = {*(tool.name for tool in self._tools.usable), *filter(None, [self._again[0]])} - NOT_INSIDE
        return {name: partial(self._called, name) for name in names}

    async def _called(self, name: str, *args: JsonValue, **kwargs: JsonValue) -> JsonValue:
        key = self._next_key(name)
        call = self._tools.call_of(name, args, kwargs, key)
        try:
            with may_wait():
                result = await self._tools.call_of_program(call, key, self._program)
        except AwaitsPersonError as error:
            self.waits, self.waits_at = error, key
            raise HostWaitsError(str(error)) from error
        self._taint.update(result.taint)
        if not result.ok:
            unfit = result.edited and not result.attempts
            raise HostFunctionError(result.content, forbidden=result.error in _FORBIDDEN or unfit)
        return _value(result)

    def _next_key(self, name: str) -> str:
        (_, key), self._again = self._again, ("", "")
        if key:
            return key
        self._made += 1
        return f"{self._key}.{self._made}:{name}"


def _value(result: ToolResult) -> JsonValue:
    if not result.is_json:
        return result.content
    try:
        value: JsonValue = json.loads(result.content)
    except ValueError:  # a gate cut something out of it
        return result.content
    return value
