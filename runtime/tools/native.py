"""Native tool calls: from what a chat model asked for to a `Call`."""

from __future__ import annotations

import json

from runtime.llm.port import ToolCall
from runtime.tools.errors import ArgumentsError
from runtime.tools.jsonvalue import read_json
from runtime.tools.result import Call, ToolErrorKind, ToolResult
from runtime.tools.schema import shortened


def native_call(asked: ToolCall) -> Call | ToolResult:
    """The call; or, for arguments that are no JSON object, the result that tells the model so."""
    try:
        arguments = _object(asked.arguments)
    except ArgumentsError as error:
        call = Call(id=asked.id, name=asked.name)
        return ToolResult(call=call, ok=False, content=str(error), error=ToolErrorKind.BAD_ARGUMENTS)
    return Call(id=asked.id, name=asked.name, arguments=arguments)


def _object(text: str) -> dict[str, object]:
    try:
        found = read_json(text) if text.strip() else {}
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ArgumentsError((f"the arguments are no JSON: {error.msg} at {where}, in {shortened(text)}",)) from error
    except ValueError as error:
        raise ArgumentsError((f"the arguments cannot be read: {error}",)) from error
    if not isinstance(found, dict):
        raise ArgumentsError((f"the arguments have to be a JSON object, found {shortened(text)}",))
    return found
