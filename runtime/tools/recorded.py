"""The tools that a step is given: every call that runs is a record, and people agree to what has to be agreed to.

    unknown, not granted, bad arguments ─▶ told to the model at once; no record
    gated ─▶ question ─▶ (days, restarts) ─▶ approve / edit ─▶ as below;  reject / retry ─▶ told to the model
    else ─▶ `recorded` when it is safe to repeat, `recorded_once` when not ─▶ result, and its taint on the step

Crash before the record: the call is made again, with the same `call_key`, or a person is asked what came of it. After
it: the record is read. The numbers in keys count all calls that the moniker makes, run or not, so they are the same
when the step is taken again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, TypeVar

from pydantic import ValidationError

from runtime.approvals.port import Answer, Question
from runtime.calls import RecordKind
from runtime.guard.judgement import StepGates
from runtime.guard.port import Block, Channel
from runtime.llm.port import ToolCall, ToolSpec
from runtime.memory.port import Memory
from runtime.ports import Json, Log
from runtime.stepcalls import StepCalls
from runtime.tools.approving import approval_key
from runtime.tools.asking import digest_of, judged, question_key, question_of, why_asked
from runtime.tools.calling import admitted, call_tool
from runtime.tools.grammar import parse_reply
from runtime.tools.native import native_call
from runtime.tools.offer import ToolOffer
from runtime.tools.reply import Reply
from runtime.tools.result import Call, ToolErrorKind, ToolResult
from runtime.tools.scope import AgentType, ToolName, ToolScope
from runtime.tools.tool import Tool
from store.jsontext import json_dumps, safe_json_loads

T = TypeVar("T")

#: a tool that does its work by further calls of the step, under keys below the one it is given
InStep = Callable[[Call, str], Awaitable[ToolResult]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that may be made: its tool is there and granted, its arguments fit."""

    call: Call
    tool: Tool
    key: str
    scope: ToolScope
    #: a person changed its arguments
    edited: bool = False
    #: the fingerprint of the program that makes it; "" for one that a model asked for
    program: str = ""

    @property
    def bound(self) -> str:
        """What an approval of it binds."""
        return f"{self.program[:8]}{approval_key(self.tool, self.call, self.scope)}"

    @property
    def gate_key(self) -> str:
        """The key of its gates. A program's calls have one: a leg that is read from its record makes none of them."""
        return self.key if self.program else ""


class StepTools:
    """The `Tools` of one step."""

    def __init__(
        self, calls: StepCalls, offer: ToolOffer, log: Log, gates: StepGates | None = None, memory: Memory | None = None
    ) -> None:
        self._calls = calls
        self._gates = gates
        self._memory = memory
        self._box = offer.toolbox
        self._backoff = offer.backoff
        self._log = log
        self._in_step: dict[ToolName, InStep] = {}
        self._type = AgentType(calls.session.agent_type)

    def part_of_step(self, name: ToolName, runs: InStep) -> None:
        """Have the tool `name` do its work by calls of the step."""
        self._in_step[name] = runs

    @property
    def usable(self) -> tuple[Tool, ...]:
        """The tools that the session's type of agent may use."""
        return self._box.of(self._type)

    @property
    def described(self) -> str:
        return self._box.described(self._type)

    @property
    def native(self) -> tuple[ToolSpec, ...]:
        return tuple(ToolSpec.model_validate(told["function"]) for told in self._box.native(self._type))

    def parse(self, text: str) -> Reply:
        return parse_reply(text, self.usable)

    async def call(self, call: Call) -> ToolResult:
        """See `Tools.call`."""
        return (await self.call_all([call]))[0]

    async def call_native(self, asked: Sequence[ToolCall]) -> tuple[ToolResult, ...]:
        """See `Tools.call_native`."""
        return await self._all([native_call(one) for one in asked])

    async def call_all(self, calls: Sequence[Call]) -> tuple[ToolResult, ...]:
        """See `Tools.call_all`."""
        return await self._all(calls)

    async def call_of_program(self, call: Call, key: str, program: str) -> ToolResult:
        """Make a call of the running program with this fingerprint, under `key`, as if a model had asked for it."""
        return (await self._carried_out([self.admit(call, key, program)]))[0]

    async def _all(self, read: Sequence[Call | ToolResult]) -> tuple[ToolResult, ...]:
        return await self._carried_out([self._looked_at(one) for one in read])

    async def _carried_out(self, looked_at: Sequence[Asked | ToolResult]) -> tuple[ToolResult, ...]:
        """The one way of every call: gate of its arguments, people's agreement, the tool, gate of its answer."""
        agreed = await self._agreed([await self._let_out(one) for one in looked_at])
        results: list[ToolResult] = []
        for together, group in groupby(agreed, key=self._runs_beside_others):
            asked = list(group)
            results += await in_order(map(self._made, asked)) if not together else await beside(map(self._made, asked))
        return tuple([await self._let_in(one, result) for one, result in zip(looked_at, results, strict=True)])

    async def _let_out(self, one: Asked | ToolResult) -> Asked | ToolResult:
        """A call, once its arguments have passed their gates; calls go through them one by one, in their order."""
        if self._gates is None or isinstance(one, ToolResult) or not self._gates.see(Channel.TOOL_ARGUMENTS):
            return one
        written = json_dumps(one.call.arguments)
        found = await self._gates.admit(written, Channel.TOOL_ARGUMENTS, f"tool:{one.call.name}", key=one.gate_key)
        if found.block is not None:
            return _held_back(one.call, "it was not run", found.block)
        if found.text == written:
            return one
        arguments = safe_json_loads(found.text)
        if not isinstance(arguments, dict):
            return _refused(one.call, "what the gates left of its arguments is no JSON object; leave out what they cut")
        return self.admit(one.call.model_copy(update={"arguments": arguments}), one.key, one.program)

    async def _let_in(self, one: Asked | ToolResult, result: ToolResult) -> ToolResult:
        """A result as it may reach a prompt, or the program that made the call."""
        if self._gates is None or not result.ok or not self._gates.see(Channel.TOOL_OUTPUT):
            return result
        source, key = f"tool:{result.call.name}", one.gate_key if isinstance(one, Asked) else ""
        found = await self._gates.admit(
            result.content, Channel.TOOL_OUTPUT, source, tainted=bool(result.taint), key=key
        )
        if found.block is not None:
            held_back = _held_back(result.call, "it was run, and its answer is kept back", found.block)
            return held_back.model_copy(update={"taint": result.taint})
        return result if found.text == result.content else result.model_copy(update={"content": found.text})

    def _looked_at(self, read: Call | ToolResult) -> Asked | ToolResult:
        number = self._calls.next_number("tool")  # also of what is not run: the keys of the rest stay what they are
        return read if isinstance(read, ToolResult) else self.admit(read, f"tool:{number}:{read.name}")

    def admit(self, call: Call, key: str, program: str = "") -> Asked | ToolResult:
        """The call under `key`, or why it cannot be made."""
        scope = self._scope(key)
        tool = admitted(self._box, call, scope)
        return tool if isinstance(tool, ToolResult) else Asked(call, tool, key, scope, program=program)

    def call_of(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], call_id: str) -> Call:
        """A call as a program writes it: arguments by their place stand for the tool's parameters in their order.

        What does not fit keeps a name of its own, so that the tool's check refuses it in words.
        """
        tool = self._box.tools.get(ToolName(name))
        names = [] if tool is None else [spec.name for spec in tool.params]
        placed = {names[place] if place < len(names) else f"argument_{place + 1}": v for place, v in enumerate(args)}
        twice = {f"{key}_again": value for key, value in kwargs.items() if key in placed}
        return Call(
            id=call_id, name=name, arguments={**placed, **twice, **{k: v for k, v in kwargs.items() if k not in placed}}
        )

    def why(self, asked: Asked) -> str | None:
        """Why a person has to agree to the call now; None when nobody has to."""
        return why_asked(asked.tool, asked.call, self._calls.taint)

    async def make(self, asked: Asked) -> ToolResult:
        """Make a call that needs nobody's agreement any more, or read what came of it."""
        result = await self._run(asked)
        self._calls.add_taint(result.taint)
        return result.model_copy(update={"call": asked.call, "edited": asked.edited})

    async def _made(self, one: Asked | ToolResult) -> ToolResult:
        return one if isinstance(one, ToolResult) else await self.make(one)

    async def _agreed(self, looked_at: Sequence[Asked | ToolResult]) -> Sequence[Asked | ToolResult]:
        """`looked_at`, once people have agreed to what they have to; all of it is asked at once."""
        gated: dict[int, tuple[str, Question]] = {}
        for place, one in enumerate(looked_at):
            if isinstance(one, Asked) and (why := self.why(one)) is not None:
                gated[place] = await self._question(one, why)
        if not gated:
            return looked_at
        answers = await self._calls.answers(dict(gated.values()))
        return [
            self._judged(one, answers[gated[place][0]]) if isinstance(one, Asked) and place in gated else one
            for place, one in enumerate(looked_at)
        ]

    async def _question(self, asked: Asked, why: str) -> tuple[str, Question]:
        key = question_key(asked.key, asked.bound)
        about = {"program": asked.program} if asked.program else None
        return key, question_of(asked.call, asked.bound, why, await self._calls.asked_in(key), about)

    def _judged(self, asked: Asked, answer: Answer) -> Asked | ToolResult:
        """What becomes of a call by a person's answer."""
        call = judged(asked.call, answer)
        if isinstance(call, ToolResult):
            return call
        if call.arguments == asked.call.arguments:
            return asked
        again = self.admit(call, asked.key, asked.program)  # what a person wrote has to fit the tool too
        if isinstance(again, ToolResult):
            return again.model_copy(update={"edited": True})
        return replace(again, edited=True)

    async def _run(self, asked: Asked) -> ToolResult:
        in_step = self._in_step.get(asked.tool.name)

        async def call() -> Json:
            if in_step is not None:
                return (await in_step(asked.call, asked.key)).model_dump(mode="json")
            approved = frozenset({approval_key(asked.tool, asked.call, asked.scope)})
            made = await call_tool(self._box, asked.call, asked.scope, self._backoff, approved=approved)
            return made.model_dump(mode="json")

        if asked.tool.safe_to_repeat or in_step is not None:
            # One that works by calls of the step repeats none of them: they are records of their own.
            digest = digest_of(asked.call)
            stored = await self._calls.recorded(asked.key, call, kind=RecordKind.TOOL, digest=digest, facts=facts_of)
            return result_of(stored, asked.call)
        made = await self._once(asked, asked.key, call)
        if (made.call.name, made.call.arguments) == (asked.call.name, asked.call.arguments):
            return made
        # The step asked for something else at this place before: what came of that says nothing about this call.
        return await self._once(asked, f"{asked.key}:{digest_of(asked.call)[:16]}", call)

    async def _once(self, asked: Asked, key: str, call: Callable[[], Awaitable[Json]]) -> ToolResult:
        stored = await self._calls.recorded_once(key, call, kind=RecordKind.TOOL, facts=facts_of)
        return result_of(stored, asked.call)

    def _runs_beside_others(self, one: Asked | ToolResult) -> bool:
        return isinstance(one, ToolResult) or (one.tool.read_only and one.tool.name not in self._in_step)

    def _scope(self, key: str) -> ToolScope:
        session = self._calls.session
        return ToolScope(
            agent_id=session.identity.agent_id,
            agent_type=self._type,
            session_id=session.session_id,
            conversation_id=session.identity.conversation_id,
            call_key=self._calls.call_key(key),
            clock=self._calls.clock,
            log=self._log,
            memory=self._memory,
        )


def result_of(stored: Any, call: Call) -> ToolResult:
    """The result in a record; what a person said of a call that may have been made is taken as what it answered."""
    try:
        return ToolResult.model_validate(stored)
    except ValidationError:
        said = "A person says that it was done." if stored is None else stored
        text = said if isinstance(said, str) else json_dumps(said)
        return ToolResult(call=call, ok=True, content=text, is_json=not isinstance(said, str))


def facts_of(result: Json) -> Json:
    """What traces tell of a call."""
    return {
        "tool": result["call"]["name"],
        "ok": result["ok"],
        "error": result["error"],
        "attempts": result["attempts"],
        "cut_chars": result["cut_chars"],
    }


async def in_order(making: Iterator[Awaitable[T]]) -> list[T]:
    """What each gives, one after the other."""
    return [await one for one in making]


async def beside(making: Iterable[Awaitable[T]]) -> list[T]:
    """What each gives, all at once. The first error is raised when all have ended, so that none goes on unheard."""
    ended = await asyncio.gather(*making, return_exceptions=True)
    for one in ended:
        if isinstance(one, BaseException):
            raise one
    return [one for one in ended if not isinstance(one, BaseException)]


def _held_back(call: Call, what: str, block: Block) -> ToolResult:
    """What a model is told of a call that the guard did not let pass."""
    return _refused(call, f"{what}: {block.reason} ({block.rule})")


def _refused(call: Call, why: str) -> ToolResult:
    return ToolResult(call=call, ok=False, content=f"{call.name}: {why}.", error=ToolErrorKind.NOT_PERMITTED)
