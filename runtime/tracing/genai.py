"""A stored trace in the words of OpenTelemetry's conventions for generative AI (version 1.41, status "development").

Version 1.41 is the last with a number: the conventions then moved to a repository of their own that has released none.
The names that are used here are the same there. https://opentelemetry.io/docs/specs/semconv/gen-ai/

Content is not exported: a span's facts are names, numbers and verdicts (store/spans.py). Ids follow from our own, so a
trace that is sent twice is the same trace there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from runtime.llm.offline import OFFLINE_LABEL
from store.spans import SpanKind, SpanStatus
from store.tracing import Trace

_CHAT: Final = "chat"
_EMBEDDINGS: Final = "embeddings"
_OPERATIONS: Final = {
    SpanKind.TURN: "invoke_agent",
    SpanKind.MODEL: _CHAT,
    SpanKind.TOOL: "execute_tool",
    SpanKind.SANDBOX: "execute_tool",
}
#: facts that have a name in the conventions; the others are ours
_NAMES: Final = {
    "model": "gen_ai.request.model",
    "provider": "gen_ai.provider.name",
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "tool": "gen_ai.tool.name",
    "error_kind": "error.type",
}
_OURS: Final = "stepwell."
#: who answers when models.toml names no providers: our own model, or an endpoint, and all of these speak this protocol
_OWN_PROVIDER: Final = "stepwell"
_PROTOCOL: Final = "openai"
Attribute = str | int | float | bool | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OtelSpan:
    """A span as OpenTelemetry has it; times in nanoseconds since 1970."""

    trace_id: int
    span_id: int
    parent_id: int | None
    name: str
    #: it calls another service
    is_client: bool
    start_ns: int
    end_ns: int
    failed: bool
    error: str | None
    attributes: Mapping[str, Attribute]


def otel_trace_id(trace_id: str) -> int:
    """128 bits for one of our ids. A message that began turns in several sessions is one trace there."""
    return _bits(f"trace\0{trace_id}", 16)


def otel_spans(trace: Trace) -> list[OtelSpan]:
    """The spans of a stored trace."""
    began_ns = int(trace.started_at.timestamp() * 1_000_000) * 1000
    return [_span(trace, span, began_ns) for span in trace.spans or ()]


def _span(trace: Trace, span: Mapping[str, Any], began_ns: int) -> OtelSpan:
    kind = SpanKind(span["kind"])
    start_ns = began_ns + int(span["start_ms"] * 1_000_000)
    return OtelSpan(
        trace_id=otel_trace_id(trace.trace_id),
        span_id=_span_id(trace, span["id"]),
        parent_id=None if span["parent"] is None else _span_id(trace, span["parent"]),
        name=_name(trace, kind, span),
        is_client=kind is SpanKind.MODEL,
        start_ns=start_ns,
        end_ns=start_ns + int(max(0.0, span["ms"]) * 1_000_000),
        failed=span["status"] in (SpanStatus.ERROR, SpanStatus.BLOCKED),
        error=span["error"],
        attributes=_attributes(trace, kind, span),
    )


def _name(trace: Trace, kind: SpanKind, span: Mapping[str, Any]) -> str:
    operation = _operation(kind, span)
    if kind is SpanKind.TURN:
        return f"{operation} {trace.agent_id}" if trace.agent_id else str(operation)
    if kind is SpanKind.MODEL and "model" not in span["facts"]:  # it failed; which model was asked is not known
        return str(operation)
    return f"{operation or kind.value} {span['name']}"


def _operation(kind: SpanKind, span: Mapping[str, Any]) -> str | None:
    return _EMBEDDINGS if span["facts"].get("kind") == "embed" else _OPERATIONS.get(kind)


def _attributes(trace: Trace, kind: SpanKind, span: Mapping[str, Any]) -> dict[str, Attribute]:
    facts: Mapping[str, Any] = span["facts"]
    found: dict[str, Attribute] = {
        f"{_OURS}span.kind": kind.value,  # facts may be called `kind` and `status` too
        f"{_OURS}span.status": str(span["status"]),
        f"{_OURS}session.id": trace.session_id,
    }
    operation = _operation(kind, span)
    if operation is not None:
        found["gen_ai.operation.name"] = operation
    found.update({_NAMES.get(name, _OURS + name): value for name, value in facts.items()})
    if kind is SpanKind.MODEL:
        found.update(_of_model(facts))
    if kind in (SpanKind.TOOL, SpanKind.SANDBOX):
        found.setdefault("gen_ai.tool.name", str(span["name"]))
    if span["status"] == SpanStatus.ERROR:
        found.setdefault("error.type", _error_type(span["error"]))
    if kind is SpanKind.TURN:
        found.update(_of_turn(trace))
    return found


def _of_model(facts: Mapping[str, Any]) -> dict[str, Attribute]:
    model = facts.get("model")
    told: dict[str, Attribute] = {
        "gen_ai.provider.name": facts.get("provider") or (_OWN_PROVIDER if model == OFFLINE_LABEL else _PROTOCOL)
    }
    if model is not None:
        told["gen_ai.response.model"] = model
    if "finish_reason" in facts:
        told["gen_ai.response.finish_reasons"] = (facts["finish_reason"],)
    return told


def _of_turn(trace: Trace) -> dict[str, Attribute]:
    told: dict[str, Attribute] = {
        f"{_OURS}trace.id": trace.trace_id,
        f"{_OURS}turn.status": trace.status.value,
        "gen_ai.provider.name": _OWN_PROVIDER,
        "gen_ai.usage.input_tokens": trace.input_tokens,
        "gen_ai.usage.output_tokens": trace.output_tokens,
    }
    if trace.agent_id:
        told["gen_ai.agent.id"] = told["gen_ai.agent.name"] = trace.agent_id
    if trace.cost is not None:
        told[f"{_OURS}cost"] = trace.cost
    told["gen_ai.conversation.id"] = trace.conversation_id or trace.session_id
    return told


def _error_type(error: str | None) -> str:
    """The class of an error from its text, `KindOfError: what it said`."""
    head = (error or "").partition(":")[0]
    return head if head.isidentifier() else "_OTHER"


def _span_id(trace: Trace, span_id: str) -> int:
    return _bits(f"span\0{trace.trace_id}\0{trace.session_id}\0{span_id}", 8)


def _bits(text: str, size: int) -> int:
    """So many bytes that follow from a text; never 0, which is no id."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=size).digest(), "big") or 1
