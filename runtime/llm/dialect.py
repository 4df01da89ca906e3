"""What an endpoint takes beyond messages, and the plainer request to try when it answers 400."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Literal

import openai

from runtime.llm.modelsfile import Ability
from runtime.llm.port import ChatMessage, ChatRequest

Format = Literal["json_schema", "json_object", "none"]
Limit = Literal["max_completion_tokens", "max_tokens", "none"]

#: a 400 that no plainer request can avoid
_HOPELESS_CODES = frozenset({"context_length_exceeded", "content_policy_violation", "model_not_found", "invalid_model"})


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way to ask: how JSON is demanded, how the length is limited, whether temperature may be set."""

    format: Format = "json_schema"
    limit: Limit = "max_tokens"
    temperature: bool = True


def dialect_of(abilities: Collection[Ability], *, openai_itself: bool) -> Dialect:
    """The way to ask a model first of which is known what it can."""
    form: Format = "none"
    if Ability.JSON_SCHEMA in abilities:
        form = "json_schema"
    elif Ability.JSON_OBJECT in abilities:
        form = "json_object"
    thinks = Ability.REASONING in abilities
    limit: Limit = "max_completion_tokens" if openai_itself or thinks else "max_tokens"
    return Dialect(form, limit, temperature=not thinks)


def plainer(dialect: Dialect, request: ChatRequest, error: openai.BadRequestError) -> Dialect | None:
    """The dialect to try after this 400, or None when there is nothing left to leave out.

    What the message complains about goes first; a 400 without a hint costs the JSON format.
    """
    if error.code in _HOPELESS_CODES:
        return None
    complaint = f"{error.param} {error.message}"
    if request.max_tokens and dialect.limit != "none" and dialect.limit in complaint:
        return replace(dialect, limit=_next_limit(dialect.limit, complaint))
    if request.temperature is not None and dialect.temperature and "temperature" in complaint:
        return replace(dialect, temperature=False)
    if request.json_schema is not None and dialect.format != "none":
        return replace(dialect, format="json_object" if dialect.format == "json_schema" else "none")
    return None


def _next_limit(limit: Limit, complaint: str) -> Limit:
    wanted: Limit = "max_completion_tokens" if limit == "max_tokens" else "max_tokens"
    return wanted if wanted in complaint.replace(limit, "", 1) else "none"


def prompt(request: ChatRequest, dialect: Dialect) -> list[Any]:
    """The messages of one call; an endpoint that cannot be bound to the JSON schema is at least told about it."""
    messages = [_message(message) for message in request.messages]
    if request.json_schema is None or dialect.format == "json_schema":
        return messages
    schema = json.dumps(request.json_schema)
    told = f"Answer with one JSON object and nothing else. It must fit this JSON Schema: {schema}"
    return [{"role": "system", "content": told}, *messages]


def _message(message: ChatMessage) -> dict[str, Any]:
    """A message as it goes over the wire; what it has not got is left out."""
    sent: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_call_id is not None:
        sent["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        sent["content"] = message.content or None
        sent["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    return sent


def options(request: ChatRequest, dialect: Dialect) -> dict[str, Any]:
    """The fields of one call's body beside the model and the messages."""
    body: dict[str, Any] = dict(request.params)
    if request.max_tokens and dialect.limit != "none":
        body[dialect.limit] = request.max_tokens
    if request.temperature is not None and dialect.temperature:
        body["temperature"] = request.temperature
    if request.json_schema is not None and dialect.format != "none":
        body["response_format"] = _response_format(request.json_schema, dialect.format, request.purpose)
    if request.tools:
        body["tools"] = [{"type": "function", "function": tool.model_dump()} for tool in request.tools]
        body["tool_choice"] = request.tool_choice
    return body


def _response_format(schema: dict[str, Any], form: Format, purpose: str) -> dict[str, Any]:
    if form == "json_object":
        return {"type": "json_object"}
    return {"type": form, "json_schema": {"name": purpose.replace(".", "_"), "schema": schema, "strict": False}}
