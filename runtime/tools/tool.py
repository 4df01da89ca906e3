"""A tool: a typed async function with a docstring, and what the runtime must know before it calls it.

    @tool(read_only=True, time_out_s=5)
    async def line_count(scope: ToolScope, path: str) -> int:
        \"\"\"The number of lines in a file.\"\"\"

The docstring and the signature are all that a model is told, so they are also what an approval is bound to
(`schema_hash`). The runtime never runs a tool but through `runtime.tools.calling`.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from runtime.tools.errors import ArgumentsError, ToolDefinitionError
from runtime.tools.reserved import RESERVED_NAMES, is_tag_name
from runtime.tools.schema import Json, ParamSpec, params_of, read_signature
from runtime.tools.scope import ToolName, ToolScope

Check = Callable[[Mapping[str, Any]], Json]
Run = Callable[[ToolScope, Json], Awaitable[Any]]
ToolFunction = Callable[..., Awaitable[Any]]

DEFAULT_TIME_OUT_S = 30.0
DEFAULT_OUTPUT_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class CallFlags:
    """What holds for one call of a tool, by its arguments, where it does not hold for all of them."""

    read_only: bool = False
    idempotent: bool = False


@dataclass(frozen=True)
class Tool:
    """One tool. Made by `@tool` from a function of ours; whoever brings tools from elsewhere fills it in by hand.

    Raises `ToolDefinitionError` for a name, a limit or a description that cannot be worked with.
    """

    name: ToolName
    #: what it does, for the model; the first line is the summary
    description: str
    #: JSON schema of an object: its arguments
    schema: Mapping[str, Any]
    #: arguments as a model gave them -> arguments to run with; raises `ArgumentsError`
    check: Check
    run: Run
    #: has no effect anywhere
    read_only: bool = False
    #: made twice with the same `call_key` it has the effect of once
    idempotent: bool = False
    #: a person has to agree to each call
    needs_approval: bool = False
    #: seconds that one try may take
    time_out_s: float = DEFAULT_TIME_OUT_S
    #: longest answer a model is shown, in characters
    output_chars: int = DEFAULT_OUTPUT_CHARS
    #: all tries of a call that failed in a way that may pass; only calls that are safe to repeat are tried again
    max_attempts: int = 3
    #: its description was not written by us, so it is shown as data (S48), and so is all that it answers (S36)
    foreign: bool = False
    #: it sends its arguments to somebody outside, though it may change nothing there
    reaches_out: bool = False
    #: the flags of a call that is more harmless than the tool's other ones
    flags_of: Callable[[Mapping[str, Any]], CallFlags] | None = None

    def __post_init__(self) -> None:
        for name in (self.name, *(self.schema.get("properties") or {})):
            if not is_tag_name(name):
                raise ToolDefinitionError(
                    f"{name!r} in tool {self.name!r} is no name for a tag: use 1 to 64 letters, digits, _ and -, "
                    "a letter first"
                )
        if self.name.lower() in RESERVED_NAMES:
            raise ToolDefinitionError(
                f"a tool cannot be called {self.name!r}: the tag has a meaning of its own in replies"
            )
        if not self.description.strip():
            raise ToolDefinitionError(f"tool {self.name!r} does not say what it does; write a docstring")
        if self.time_out_s <= 0 or self.output_chars < 1 or self.max_attempts < 1:
            raise ToolDefinitionError(
                f"tool {self.name!r}: time_out_s {self.time_out_s:g}, output_chars {self.output_chars} and "
                f"max_attempts {self.max_attempts} all have to be above zero"
            )

    @property
    def summary(self) -> str:
        """The first line of the description."""
        return self.description.strip().splitlines()[0]

    @property
    def safe_to_repeat(self) -> bool:
        """Whether a call that may have been made can be made again; the word for `ctx.record`."""
        return self.read_only or self.idempotent

    def for_call(self, arguments: Mapping[str, Any]) -> Tool:
        """The tool as it is for a call with these arguments; see `flags_of`."""
        flags = CallFlags() if self.flags_of is None else self.flags_of(arguments)
        if flags == CallFlags():
            return self
        return replace(
            self,
            read_only=self.read_only or flags.read_only,
            idempotent=self.idempotent or flags.idempotent,
        )

    def checked(self, arguments: Mapping[str, Any]) -> Json:
        """`check`, with nothing but `ArgumentsError` raised: a validator that breaks refuses the arguments too."""
        try:
            return self.check(arguments)
        except ArgumentsError:
            raise
        except Exception as error:
            raise ArgumentsError((f"they cannot be checked: {type(error).__name__}: {error}"[:500],)) from error

    @cached_property
    def params(self) -> tuple[ParamSpec, ...]:
        """Its parameters, in their order."""
        return params_of(self.schema)

    @cached_property
    def schema_hash(self) -> str:
        """SHA-256 of name, description and schema: what an approval is pinned to (S33, S48)."""
        told = json.dumps([self.name, self.description, self.schema], sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(told.encode()).hexdigest()


def tool(
    *,
    name: str | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    needs_approval: bool = False,
    time_out_s: float = DEFAULT_TIME_OUT_S,
    output_chars: int = DEFAULT_OUTPUT_CHARS,
    max_attempts: int = 3,
    reaches_out: bool = False,
    flags_of: Callable[[Mapping[str, Any]], CallFlags] | None = None,
) -> Callable[[ToolFunction], Tool]:
    """Make a tool of the async function below; its name is the function's unless `name` says another.

    The first parameter may be a `ToolScope`. Raises `ToolDefinitionError` where it is applied: for a function that is
    not async, has no docstring, or takes what a model cannot name.
    """

    def made(function: ToolFunction) -> Tool:
        _refuse_unfit(function)
        signature = read_signature(function)

        async def run(scope: ToolScope, arguments: Json) -> Any:
            return await (function(scope, **arguments) if signature.takes_scope else function(**arguments))

        return Tool(
            name=ToolName(name or function.__name__),
            description=inspect.getdoc(function) or "",
            schema=signature.schema(),
            check=signature.check,
            run=run,
            read_only=read_only,
            idempotent=idempotent,
            needs_approval=needs_approval,
            time_out_s=time_out_s,
            output_chars=output_chars,
            max_attempts=max_attempts,
            reaches_out=reaches_out,
            flags_of=flags_of,
        )

    return made


def _refuse_unfit(function: ToolFunction) -> None:
    where = f"{function.__module__}.{function.__qualname__}"
    if not inspect.iscoroutinefunction(function):
        raise ToolDefinitionError(
            f"{where} cannot be a tool: it is not async; a tool that blocks would stop every session"
        )
    if not inspect.getdoc(function):
        raise ToolDefinitionError(
            f"{where} cannot be a tool: it has no docstring, which is all that a model is told of it"
        )
