"""The tools of a step, as a moniker sees them: what there is, what a model asked for, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from runtime.llm.port import ToolCall, ToolSpec
from runtime.tools.reply import Reply
from runtime.tools.result import Call, ToolErrorKind, ToolResult

__all__ = ["Call", "Reply", "ToolErrorKind", "ToolResult", "Tools"]


class Tools(Protocol):
    """The tools that the session's type of agent may use. What is not granted is neither shown nor run.

    Every call that runs is a record under `tool:<number>:<name>`: after a crash it is read, not made again; one that
    is not safe to repeat and may have been made waits for a person. A call that a person has to agree to first (the
    tool asks for it, or text from outside is in the session's context) cuts the step short until there is an answer:
    let what is raised then pass, the runner needs it. Nothing else is raised for what a model or a tool did.
    """

    @property
    def described(self) -> str:
        """The tools for a prompt, with how to call them in XML; "" when there are none."""
        ...

    @property
    def native(self) -> tuple[ToolSpec, ...]:
        """The tools for `ChatRequest.tools`."""
        ...

    def parse(self, text: str) -> Reply:
        """The calls in a model's reply, by the XML grammar (docs/tools.md); what could not be read is in `errors`."""
        ...

    async def call(self, call: Call) -> ToolResult:
        """Make one call. Put what it answers into a prompt by `ToolResult.for_prompt` only."""
        ...

    async def call_all(self, calls: Sequence[Call]) -> tuple[ToolResult, ...]:
        """Make several calls that a model asked for at once; the results are in the same order.

        Neighbours that only read run side by side, all others one after the other. What people have to agree to is
        asked at once, before the first call runs. Text from outside that one of the calls brings in gates none of the
        others: the model had chosen them before.
        """
        ...

    async def call_native(self, asked: Sequence[ToolCall]) -> tuple[ToolResult, ...]:
        """As `call_all`, for a model's native calls; arguments that are no JSON object are told to the model."""
        ...
