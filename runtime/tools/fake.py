"""Tools that answer what they were told to, for tests of monikers; they run through the real `call_tool`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from runtime.llm.port import ToolCall, ToolSpec
from runtime.ports import Clock, Log
from runtime.tools.approving import approval_key
from runtime.tools.calling import Backoff, admitted, call_tool
from runtime.tools.errors import ArgumentsError
from runtime.tools.grammar import parse_reply
from runtime.tools.native import native_call
from runtime.tools.reply import Reply
from runtime.tools.result import Call, ToolErrorKind, ToolResult
from runtime.tools.schema import Json
from runtime.tools.scope import AgentType, ToolName, ToolScope
from runtime.tools.tool import Tool
from runtime.tools.toolbox import Toolbox
from store.clock import SystemChance
from store.ids import AgentId, SessionId

_ANYBODY = AgentType("anybody")


class ScriptedTool:
    """A tool with text parameters that gives `answers` in order: a value, or an error to raise.

    `calls` keeps the arguments of each call that reached it. Running out of answers is an `AssertionError`, which the
    model is told as a failure and a test sees in the result.
    """

    def __init__(self, name: str, *answers: Any, params: Iterable[str] = (), **flags: Any) -> None:
        self._answers = list(answers)
        self._params = tuple(params)
        self.calls: list[Json] = []
        self.scopes: list[ToolScope] = []
        self.tool = Tool(
            name=ToolName(name),
            description=f"Scripted: {name}.",
            schema=_schema(self._params),
            check=self._check,
            run=self._run,
            **{"time_out_s": 5.0, **flags},
        )

    def _check(self, arguments: Mapping[str, Any]) -> Json:
        unknown = [name for name in arguments if name not in self._params]
        wrong = [name for name, value in arguments.items() if not isinstance(value, str)]
        if unknown or wrong:
            raise ArgumentsError(
                (
                    *(f"{name}: there is no such parameter" for name in unknown),
                    *(f"{name}: has to be text" for name in wrong),
                )
            )
        return dict(arguments)

    async def _run(self, scope: ToolScope, arguments: Json) -> Any:
        self.calls.append(arguments)
        self.scopes.append(scope)
        if not self._answers:
            raise AssertionError(f"no answer left for call {len(self.calls)} of {self.tool.name}")
        answer = self._answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


class FakeToolbox(Toolbox):
    """A toolbox of scripted and real tools that every type of agent may use."""

    def __init__(self, *tools: ScriptedTool | Tool) -> None:
        super().__init__([one.tool if isinstance(one, ScriptedTool) else one for one in tools], {})

    def permits(self, agent_type: AgentType, name: str) -> bool:
        """Everybody may use everything."""
        return name in self.tools


class FakeTools:
    """The `Tools` of a step without a store: everybody may use everything, nothing is recorded.

    `refused` are the names of tools whose calls a person does not agree to; they agree to all others. `results` keeps
    what came of each call.
    """

    def __init__(self, *tools: ScriptedTool | Tool, clock: Clock, log: Log, refused: Iterable[str] = ()) -> None:
        self._box = FakeToolbox(*tools)
        self._clock = clock
        self._log = log
        self._refused = frozenset(refused)
        self.results: list[ToolResult] = []

    @property
    def described(self) -> str:
        return self._box.described(_ANYBODY)

    @property
    def native(self) -> tuple[ToolSpec, ...]:
        return tuple(ToolSpec.model_validate(told["function"]) for told in self._box.native(_ANYBODY))

    def parse(self, text: str) -> Reply:
        return parse_reply(text, self._box.of(_ANYBODY))

    async def call(self, call: Call) -> ToolResult:
        """See `Tools.call`."""
        scope = ToolScope(
            agent_id=AgentId("agent-1"),
            agent_type=_ANYBODY,
            session_id=SessionId("session-1"),
            conversation_id=None,
            call_key=f"session-1:0:tool:{len(self.results) + 1}:{call.name}",
            clock=self._clock,
            log=self._log,
        )
        tool = admitted(self._box, call, scope)
        if isinstance(tool, Tool) and tool.name in self._refused:
            said = f"{call.name} was not run: a person did not agree."
            result = ToolResult(call=call, ok=False, content=said, error=ToolErrorKind.REJECTED)
        else:
            agreed = frozenset({approval_key(tool, call, scope)} if isinstance(tool, Tool) else ())
            result = await call_tool(self._box, call, scope, Backoff(SystemChance()), approved=agreed)
        self.results.append(result)
        return result

    async def call_all(self, calls: Sequence[Call]) -> tuple[ToolResult, ...]:
        """One after the other."""
        return tuple([await self.call(call) for call in calls])

    async def call_native(self, asked: Sequence[ToolCall]) -> tuple[ToolResult, ...]:
        """See `Tools.call_native`."""
        read = [native_call(one) for one in asked]
        return tuple([one if isinstance(one, ToolResult) else await self.call(one) for one in read])


def _schema(params: tuple[str, ...]) -> Json:
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in params},
        "additionalProperties": False,
    }
