"""How the offline model calls tools: the one that shares most words with what was asked, once, then it reports."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry

from runtime.llm.extract import keywords, summary
from runtime.llm.offline_schema import NoInstanceError, valid_instance
from runtime.llm.port import (
    BadRequestReason,
    ChatRequest,
    LlmError,
    LlmErrorKind,
    ToolCall,
    ToolSpec,
    read_data_block,
)

MAX_QUOTE_CHARS = 200


def tool_call(request: ChatRequest) -> ToolCall | None:
    """The call to make, or None: no tools, none wanted, or their result is here already.

    Raises `LlmError` (BAD_REQUEST) when no arguments can be made for the tool's schema.
    """
    if not request.tools or request.tool_choice == "none":
        return None
    if not request.messages or request.messages[-1].role == "tool":
        return None
    asked = _asked(request)
    tool = _chosen(request.tools, asked)
    calls = sum(len(message.tool_calls) for message in request.messages)
    return ToolCall(id=f"offline_{calls + 1}", name=tool.name, arguments=json.dumps(_arguments(tool, asked)))


def tool_report(request: ChatRequest) -> str | None:
    """What a tool said, when that is the newest message."""
    if not request.messages or request.messages[-1].role != "tool":
        return None
    said = request.messages[-1].content
    return f"[offline model] The tool answered: {summary(said, count=2) or '(nothing)'}"


def instance_text(schema: dict[str, Any]) -> str:
    """The JSON of a value that the schema allows. Raises `LlmError` (BAD_REQUEST) when none was found."""
    try:
        return json.dumps(valid_instance(schema), ensure_ascii=False)
    except NoInstanceError as error:
        said = f"offline: {error}"
        raise LlmError(LlmErrorKind.BAD_REQUEST, said, reason=BadRequestReason.UNSUPPORTED) from error


def _asked(request: ChatRequest) -> str:
    data = read_data_block(request.messages) or {}
    texts = [value for key in ("question", "task", "text", "subject") if isinstance(value := data.get(key), str)]
    spoken = [message.content for message in request.messages if message.role == "user"]
    return texts[0] if texts else (spoken[-1] if spoken else "")


def _chosen(tools: Sequence[ToolSpec], asked: str) -> ToolSpec:
    words = set(keywords(asked))

    def score(tool: ToolSpec) -> int:
        return len(words & set(keywords(f"{tool.name.replace('_', ' ')} {tool.description}")))

    return max(tools, key=score)


def _arguments(tool: ToolSpec, asked: str) -> Any:
    """Valid arguments, in which texts that may be anything are what was asked."""
    found = json.loads(instance_text({"type": "object", **tool.parameters}))
    if not isinstance(found, dict):
        said = f"offline: the parameters of the tool {tool.name!r} are no object; give them the type object"
        raise LlmError(LlmErrorKind.BAD_REQUEST, said, reason=BadRequestReason.UNSUPPORTED)
    validator = Draft202012Validator(tool.parameters, registry=Registry())
    quote = " ".join(asked.split())[:MAX_QUOTE_CHARS]
    for name, value in found.items():
        told = {**found, name: quote}
        if isinstance(value, str) and value.startswith("offline") and quote and validator.is_valid(told):
            found = told
    return found
